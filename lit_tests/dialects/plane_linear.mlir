// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// The integers are put together from three planes, or from two and what is in the middle.
// CHECK-LABEL: func.func @whole
// CHECK:         "llmc.plane_linear"(%arg0, %arg1, %arg2) {operandSegmentSizes = array<i32: 1, 1, 1>}
// LOWER-LABEL: func.func @whole
// LOWER:         linalg.generic {{.+}} ins(%{{.+}}, %{{.+}}, %{{.+}} : tensor<2x2x4x32xi8>, tensor<2x2x4x32xi8>, tensor<2x2x4x32xi8>)
// LOWER:         iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
func.func @whole(%x: tensor<1x?x64xf32>, %h: tensor<2x2x104xi8>, %l: tensor<2x2x32xi8>) -> tensor<1x?x8xf32> {
  %y = "llmc.plane_linear"(%x, %h, %l) {operandSegmentSizes = array<i32: 1, 1, 1>}
     : (tensor<1x?x64xf32>, tensor<2x2x104xi8>, tensor<2x2x32xi8>) -> tensor<1x?x8xf32>
  return %y : tensor<1x?x8xf32>
}

// CHECK-LABEL: func.func @rough
// CHECK:         "llmc.plane_linear"(%arg0, %arg1) {operandSegmentSizes = array<i32: 1, 1, 0>}
// LOWER-LABEL: func.func @rough
// LOWER:         linalg.generic {{.+}} ins(%{{.+}}, %{{.+}} : tensor<2x2x4x32xi8>, tensor<2x2x4x32xi8>)
func.func @rough(%x: tensor<3x64xf32>, %h: tensor<2x2x104xi8>) -> tensor<3x8xf32> {
  %y = "llmc.plane_linear"(%x, %h) {operandSegmentSizes = array<i32: 1, 1, 0>}
     : (tensor<3x64xf32>, tensor<2x2x104xi8>) -> tensor<3x8xf32>
  return %y : tensor<3x8xf32>
}

// -----

func.func @cells(%x: tensor<3x64xf32>, %h: tensor<2x2x136xi8>) {
  // CHECK: error: 'llmc.plane_linear' op operand 'high' must have cells = a multiple of 26, but has 136
  %y = "llmc.plane_linear"(%x, %h) {operandSegmentSizes = array<i32: 1, 1, 0>}
     : (tensor<3x64xf32>, tensor<2x2x136xi8>) -> tensor<3x8xf32>
  return
}

// -----

func.func @low(%x: tensor<3x64xf32>, %h: tensor<2x2x104xi8>, %l: tensor<2x2x44xi8>) {
  // CHECK: error: 'llmc.plane_linear' op operand 'low' must have dimension 2 = 32, but has 44
  %y = "llmc.plane_linear"(%x, %h, %l) {operandSegmentSizes = array<i32: 1, 1, 1>}
     : (tensor<3x64xf32>, tensor<2x2x104xi8>, tensor<2x2x44xi8>) -> tensor<3x8xf32>
  return
}

// -----

func.func @inputs(%x: tensor<3x96xf32>, %h: tensor<2x2x104xi8>) {
  // CHECK: error: 'llmc.plane_linear' op operand 'x' must have its last dimension = 64, but has 96
  %y = "llmc.plane_linear"(%x, %h) {operandSegmentSizes = array<i32: 1, 1, 0>}
     : (tensor<3x96xf32>, tensor<2x2x104xi8>) -> tensor<3x8xf32>
  return
}

// -----

func.func @outputs(%x: tensor<3x64xf32>, %h: tensor<2x2x104xi8>) {
  // CHECK: error: 'llmc.plane_linear' op operand 'high' must have its panels = 3, but has 2
  %y = "llmc.plane_linear"(%x, %h) {operandSegmentSizes = array<i32: 1, 1, 0>}
     : (tensor<3x64xf32>, tensor<2x2x104xi8>) -> tensor<3x9xf32>
  return
}
