// RUN: llmc-opt %s --split-input-file --verify-diagnostics | filecheck %s
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(lower-llmc,func.func(canonicalize,cse))' | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @weighted
// CHECK-NEXT:    %[[BOTH:.+]]:2 = "llmc.add_rms_norm"(%arg0, %arg1, %arg2) {epsilon = 1.000000e-05 : f64, offset = 1.000000e+00 : f64, operandSegmentSizes = array<i32: 1, 1, 1>}
// CHECK-NEXT:    return %[[BOTH]]#0, %[[BOTH]]#1

// The sum is computed once; its norm reads it.
// LOWER-LABEL: func.func @weighted
// LOWER:         %[[SUM:.+]] = linalg.generic {{.+}} ins(%arg0, %arg1 :
// LOWER:           arith.addf
// LOWER:         %[[SQUARES:.+]] = linalg.generic {{.+}}"reduction"]} ins(%[[SUM]] :
// LOWER:         %[[NORMED:.+]] = linalg.generic {{.+}} ins(%[[SUM]], %[[SQUARES]], %arg2 :
// LOWER:           math.rsqrt
// LOWER:         return %[[SUM]], %[[NORMED]]
func.func @weighted(%x: tensor<1x?x6xf32>, %r: tensor<1x?x6xf32>, %w: tensor<6xf32>) -> (tensor<1x?x6xf32>, tensor<1x?x6xf32>) {
  %sum, %normed = "llmc.add_rms_norm"(%x, %r, %w) {operandSegmentSizes = array<i32: 1, 1, 1>, epsilon = 1.0e-5, offset = 1.0}
     : (tensor<1x?x6xf32>, tensor<1x?x6xf32>, tensor<6xf32>) -> (tensor<1x?x6xf32>, tensor<1x?x6xf32>)
  return %sum, %normed : tensor<1x?x6xf32>, tensor<1x?x6xf32>
}

// CHECK-LABEL: func.func @unweighted
// CHECK-NEXT:    "llmc.add_rms_norm"(%arg0, %arg1) {{.+}} operandSegmentSizes = array<i32: 1, 1, 0>}
// LOWER-LABEL: func.func @unweighted
// LOWER:         ins(%{{.+}}, %{{.+}} : tensor<3x6xf32>, tensor<3xf32>)
func.func @unweighted(%x: tensor<3x6xf32>, %r: tensor<3x6xf32>) -> tensor<3x6xf32> {
  %sum, %normed = "llmc.add_rms_norm"(%x, %r) {operandSegmentSizes = array<i32: 1, 1, 0>, epsilon = 1.0e-5, offset = 0.0}
     : (tensor<3x6xf32>, tensor<3x6xf32>) -> (tensor<3x6xf32>, tensor<3x6xf32>)
  return %normed : tensor<3x6xf32>
}

// -----

func.func @residual(%x: tensor<3x6xf32>, %r: tensor<?x6xf32>, %w: tensor<6xf32>) {
  // expected-error@+1 {{'llmc.add_rms_norm' op operand 'residual' must be tensor<3x6xf32> as 'x' is}}
  %sum, %normed = "llmc.add_rms_norm"(%x, %r, %w) {operandSegmentSizes = array<i32: 1, 1, 1>, epsilon = 1.0e-5, offset = 0.0}
     : (tensor<3x6xf32>, tensor<?x6xf32>, tensor<6xf32>) -> (tensor<3x6xf32>, tensor<3x6xf32>)
  return
}

// -----

func.func @weight(%x: tensor<3x6xf32>, %w: tensor<5xf32>) {
  // expected-error@+1 {{'llmc.add_rms_norm' op operand 'weight' must have its length = 6, but has 5}}
  %sum, %normed = "llmc.add_rms_norm"(%x, %x, %w) {operandSegmentSizes = array<i32: 1, 1, 1>, epsilon = 1.0e-5, offset = 0.0}
     : (tensor<3x6xf32>, tensor<3x6xf32>, tensor<5xf32>) -> (tensor<3x6xf32>, tensor<3x6xf32>)
  return
}

// -----

func.func @normed(%x: tensor<3x6xf32>, %w: tensor<6xf32>) {
  // expected-error@+1 {{'llmc.add_rms_norm' op result 'normed' must be tensor<3x6xf32> as 'x' is}}
  %sum, %normed = "llmc.add_rms_norm"(%x, %x, %w) {operandSegmentSizes = array<i32: 1, 1, 1>, epsilon = 1.0e-5, offset = 0.0}
     : (tensor<3x6xf32>, tensor<3x6xf32>, tensor<6xf32>) -> (tensor<3x6xf32>, tensor<3x5xf32>)
  return
}

// -----

func.func @offset(%x: tensor<3x6xf32>) {
  // expected-error@+1 {{'llmc.add_rms_norm' op attribute 'offset' must be 0 without a weight}}
  %sum, %normed = "llmc.add_rms_norm"(%x, %x) {operandSegmentSizes = array<i32: 1, 1, 0>, epsilon = 1.0e-5, offset = 1.0}
     : (tensor<3x6xf32>, tensor<3x6xf32>) -> (tensor<3x6xf32>, tensor<3x6xf32>)
  return
}

// -----

func.func @epsilon(%x: tensor<3x6xf32>) {
  // expected-error@+1 {{'llmc.add_rms_norm' op attribute 'epsilon' must not be negative}}
  %sum, %normed = "llmc.add_rms_norm"(%x, %x) {operandSegmentSizes = array<i32: 1, 1, 0>, epsilon = -1.0, offset = 0.0}
     : (tensor<3x6xf32>, tensor<3x6xf32>) -> (tensor<3x6xf32>, tensor<3x6xf32>)
  return
}

// -----

func.func @room(%x: tensor<1x70000xf16>) {
  // expected-error@+1 {{'llmc.add_rms_norm' op operand 'x' must have a last dimension of at most 65504, but has 70000}}
  %sum, %normed = "llmc.add_rms_norm"(%x, %x) {operandSegmentSizes = array<i32: 1, 1, 0>, epsilon = 1.0e-5, offset = 0.0}
     : (tensor<1x70000xf16>, tensor<1x70000xf16>) -> (tensor<1x70000xf16>, tensor<1x70000xf16>)
  return
}
