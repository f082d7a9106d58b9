// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @on_floats
// CHECK-NEXT:    "llmc.quantized_linear"(%arg0, %arg1) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
// LOWER-LABEL: func.func @on_floats
// LOWER:         %[[FLOATS:.+]] = tensor.collapse_shape %{{.+}} {{.*}}into tensor<5x64xf32>
// LOWER:         linalg.generic {{.+}} ins(%{{.+}}, %[[FLOATS]] : tensor<?x64xf32>, tensor<5x64xf32>)
func.func @on_floats(%x: tensor<1x?x64xf32>, %w: tensor<5x2x!llmc.q4_0>) -> tensor<1x?x5xf32> {
  %y = "llmc.quantized_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
     : (tensor<1x?x64xf32>, tensor<5x2x!llmc.q4_0>) -> tensor<1x?x5xf32>
  return %y : tensor<1x?x5xf32>
}

// A block is summed in integers before it is scaled.
// CHECK-LABEL: func.func @on_integers
// CHECK-NEXT:    "llmc.quantized_linear"(%arg0, %arg1, %arg2, %arg3) {operandSegmentSizes = array<i32: 1, 1, 1, 1>}
// LOWER-LABEL: func.func @on_integers
// LOWER:         %[[DOTS:.+]] = linalg.generic {{.+}} ins(%{{.+}}, %{{.+}} : tensor<3x2x32xi8>, tensor<5x2x32xi8>) outs(%{{.+}} : tensor<3x5x2xi32>)
// LOWER:           arith.muli
// LOWER-NEXT:      arith.addi
// LOWER:         linalg.generic {{.+}} ins(%[[DOTS]], %arg2, %{{.+}} :
// LOWER:           arith.sitofp
// LOWER:         linalg.generic {{.+}} ins(%{{.+}}, %arg3 :
func.func @on_integers(%x: tensor<3x64xi8>, %w: tensor<5x2x!llmc.q8_0>, %s: tensor<3x2xf32>, %b: tensor<5xf32>) -> tensor<3x5xf32> {
  %y = "llmc.quantized_linear"(%x, %w, %s, %b) {operandSegmentSizes = array<i32: 1, 1, 1, 1>}
     : (tensor<3x64xi8>, tensor<5x2x!llmc.q8_0>, tensor<3x2xf32>, tensor<5xf32>) -> tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// -----

func.func @weight(%x: tensor<3x64xf32>, %w: tensor<5x2xf32>) {
  // CHECK: error: 'llmc.quantized_linear' op operand 'weight' must hold blocks, but is tensor<5x2xf32>
  %y = "llmc.quantized_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
     : (tensor<3x64xf32>, tensor<5x2xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @width(%x: tensor<3x96xf32>, %w: tensor<5x2x!llmc.q4_0>) {
  // CHECK: error: 'llmc.quantized_linear' op operand 'x' must have its last dimension = 64, but has 96
  %y = "llmc.quantized_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
     : (tensor<3x96xf32>, tensor<5x2x!llmc.q4_0>) -> tensor<3x5xf32>
  return
}

// -----

func.func @no_scales(%x: tensor<3x64xi8>, %w: tensor<5x2x!llmc.q4_0>) {
  // CHECK: error: 'llmc.quantized_linear' op operand 'x' must hold f32, but is tensor<3x64xi8>
  %y = "llmc.quantized_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
     : (tensor<3x64xi8>, tensor<5x2x!llmc.q4_0>) -> tensor<3x5xf32>
  return
}

// -----

func.func @scaled_floats(%x: tensor<3x64xf32>, %w: tensor<5x2x!llmc.q4_0>, %s: tensor<3x2xf32>) {
  // CHECK: error: 'llmc.quantized_linear' op operand 'x' must hold i8, but is tensor<3x64xf32>
  %y = "llmc.quantized_linear"(%x, %w, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0>}
     : (tensor<3x64xf32>, tensor<5x2x!llmc.q4_0>, tensor<3x2xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @scales(%x: tensor<1x?x64xi8>, %w: tensor<5x2x!llmc.q4_0>, %s: tensor<1x?x3xf32>) {
  // CHECK: error: 'llmc.quantized_linear' op operand 'scales' must be tensor<1x?x2xf32>, but is tensor<1x?x3xf32>
  %y = "llmc.quantized_linear"(%x, %w, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0>}
     : (tensor<1x?x64xi8>, tensor<5x2x!llmc.q4_0>, tensor<1x?x3xf32>) -> tensor<1x?x5xf32>
  return
}

// -----

func.func @bias(%x: tensor<3x64xf32>, %w: tensor<5x2x!llmc.q4_0>, %b: tensor<4xf32>) {
  // CHECK: error: 'llmc.quantized_linear' op operand 'bias' must have its length = 5, but has 4
  %y = "llmc.quantized_linear"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 1>}
     : (tensor<3x64xf32>, tensor<5x2x!llmc.q4_0>, tensor<4xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @result(%x: tensor<3x64xf32>, %w: tensor<5x2x!llmc.q4_0>) {
  // CHECK: error: 'llmc.quantized_linear' op result must have dimension 1 = 5, but has 6
  %y = "llmc.quantized_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
     : (tensor<3x64xf32>, tensor<5x2x!llmc.q4_0>) -> tensor<3x6xf32>
  return
}

// -----

func.func @open(%x: tensor<3x64xf32>, %w: tensor<?x2x!llmc.q4_0>) {
  // CHECK: error: 'llmc.quantized_linear' op operand 'weight' must be static in dimension 0, but is tensor<?x2x!llmc.q4_0>
  %y = "llmc.quantized_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
     : (tensor<3x64xf32>, tensor<?x2x!llmc.q4_0>) -> tensor<3x?xf32>
  return
}
