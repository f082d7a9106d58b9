// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// It means the best of the exact numbers; the others are but known.
// CHECK-LABEL: func.func @row
// CHECK:         "llmc.screened_argmax"(%arg0, %arg1, %arg2, %arg4, %arg5, %arg3)
// LOWER-LABEL: func.func @row
// LOWER:         linalg.generic {{.+}} ins(%arg0 : tensor<1x16xf32>)
// LOWER-NOT:     %arg1
// LOWER:         linalg.generic {{.+}} ins(%arg0, %{{.+}} : tensor<1x16xf32>, tensor<1xf32>)
func.func @row(%e: tensor<1x16xf32>, %r: tensor<1x16xf32>, %v: tensor<1x64xi8>, %s: tensor<1x2xf32>, %m: tensor<64xf32>, %f: tensor<16xf32>) -> tensor<1xi64> {
  %b = "llmc.screened_argmax"(%e, %r, %v, %m, %f, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>}
     : (tensor<1x16xf32>, tensor<1x16xf32>, tensor<1x64xi8>, tensor<64xf32>, tensor<16xf32>, tensor<1x2xf32>) -> tensor<1xi64>
  return %b : tensor<1xi64>
}

// -----

func.func @rough(%e: tensor<1x16xf32>, %r: tensor<1x8xf32>, %v: tensor<1x64xi8>, %s: tensor<1x2xf32>, %m: tensor<64xf32>, %f: tensor<16xf32>) {
  // CHECK: error: 'llmc.screened_argmax' op operand 'rough' must have dimension 1 = 16, but has 8
  %b = "llmc.screened_argmax"(%e, %r, %v, %m, %f, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>}
     : (tensor<1x16xf32>, tensor<1x8xf32>, tensor<1x64xi8>, tensor<64xf32>, tensor<16xf32>, tensor<1x2xf32>) -> tensor<1xi64>
  return
}

// -----

func.func @groups(%e: tensor<1x16xf32>, %v: tensor<1x64xi8>, %s: tensor<1x3xf32>, %m: tensor<64xf32>, %f: tensor<16xf32>) {
  // CHECK: error: 'llmc.screened_argmax' op operand 'values' must have dimension 1 = a multiple of 3, but has 64
  %b = "llmc.screened_argmax"(%e, %e, %v, %m, %f, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>}
     : (tensor<1x16xf32>, tensor<1x16xf32>, tensor<1x64xi8>, tensor<64xf32>, tensor<16xf32>, tensor<1x3xf32>) -> tensor<1xi64>
  return
}

// -----

func.func @metric(%e: tensor<1x16xf32>, %v: tensor<1x64xi8>, %s: tensor<1x2xf32>, %f: tensor<16xf32>) {
  // CHECK: error: 'llmc.screened_argmax' op operand 'metric' must have its length = 64, but has 16
  %b = "llmc.screened_argmax"(%e, %e, %v, %f, %f, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>}
     : (tensor<1x16xf32>, tensor<1x16xf32>, tensor<1x64xi8>, tensor<16xf32>, tensor<16xf32>, tensor<1x2xf32>) -> tensor<1xi64>
  return
}

// -----

// A row of floats has no scales.
// CHECK-LABEL: func.func @floats
// CHECK:         "llmc.screened_argmax"
func.func @floats(%e: tensor<1x16xf32>, %v: tensor<1x64xf32>, %m: tensor<64xf32>, %f: tensor<16xf32>) -> tensor<1xi64> {
  %b = "llmc.screened_argmax"(%e, %e, %v, %m, %f) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>}
     : (tensor<1x16xf32>, tensor<1x16xf32>, tensor<1x64xf32>, tensor<64xf32>, tensor<16xf32>) -> tensor<1xi64>
  return %b : tensor<1xi64>
}

// -----

func.func @integers(%e: tensor<1x16xf32>, %v: tensor<1x64xi8>, %m: tensor<64xf32>, %f: tensor<16xf32>) {
  // CHECK: error: 'llmc.screened_argmax' op operand 'values' must hold f32, but is tensor<1x64xi8>
  %b = "llmc.screened_argmax"(%e, %e, %v, %m, %f) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>}
     : (tensor<1x16xf32>, tensor<1x16xf32>, tensor<1x64xi8>, tensor<64xf32>, tensor<16xf32>) -> tensor<1xi64>
  return
}
