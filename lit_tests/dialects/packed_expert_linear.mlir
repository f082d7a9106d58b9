// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @one_token
// CHECK-NEXT:    "llmc.packed_expert_linear"(%arg0, %arg1, %arg2) {top_k = 2 : i64}
//
// The chosen matrix is read where it lies, panel by panel.
// LOWER-LABEL: func.func @one_token
// LOWER:         linalg.generic {{.+}} ins(%arg0, %{{.+}} : tensor<1x6xf32>, tensor<1x2xi64>)
// LOWER:           %[[PANEL:.+]] = arith.divui
// LOWER:           %[[COLUMN:.+]] = arith.remui
// LOWER:           tensor.extract %arg2[%{{.+}}, %[[PANEL]], %{{.+}}, %[[COLUMN]]]
// LOWER:         tensor.collapse_shape
func.func @one_token(%x: tensor<1x6xf32>, %e: tensor<2xi64>, %w: tensor<8x2x6x4xf16>) -> tensor<2x7xf32> {
  %y = "llmc.packed_expert_linear"(%x, %e, %w) {top_k = 2 : i64}
     : (tensor<1x6xf32>, tensor<2xi64>, tensor<8x2x6x4xf16>) -> tensor<2x7xf32>
  return %y : tensor<2x7xf32>
}

// -----

func.func @panels(%x: tensor<1x6xf32>, %e: tensor<2xi64>, %w: tensor<8x3x6x4xf32>) {
  // CHECK: error: 'llmc.packed_expert_linear' op operand 'weight' must have its panels = 2, but has 3
  %y = "llmc.packed_expert_linear"(%x, %e, %w) {top_k = 2 : i64}
     : (tensor<1x6xf32>, tensor<2xi64>, tensor<8x3x6x4xf32>) -> tensor<2x7xf32>
  return
}

// -----

func.func @rows(%x: tensor<1x6xf32>, %e: tensor<3xi64>, %w: tensor<8x2x6x4xf32>) {
  // CHECK: error: 'llmc.packed_expert_linear' op operand 'expert' must have its length = 2, but has 3
  %y = "llmc.packed_expert_linear"(%x, %e, %w) {top_k = 2 : i64}
     : (tensor<1x6xf32>, tensor<3xi64>, tensor<8x2x6x4xf32>) -> tensor<2x7xf32>
  return
}

// -----

func.func @rest(%x: tensor<?x6xf32>, %e: tensor<3xi64>, %w: tensor<8x2x6x4xf32>) {
  // CHECK: error: 'llmc.packed_expert_linear' op operand 'expert' must have its length = a multiple of 2, but has 3
  %y = "llmc.packed_expert_linear"(%x, %e, %w) {top_k = 2 : i64}
     : (tensor<?x6xf32>, tensor<3xi64>, tensor<8x2x6x4xf32>) -> tensor<?x7xf32>
  return
}

// -----

func.func @columns(%x: tensor<1x6xf32>, %e: tensor<2xi64>, %w: tensor<8x2x6x0xf32>) {
  // CHECK: error: 'llmc.packed_expert_linear' op operand 'weight' must have columns
  %y = "llmc.packed_expert_linear"(%x, %e, %w) {top_k = 2 : i64}
     : (tensor<1x6xf32>, tensor<2xi64>, tensor<8x2x6x0xf32>) -> tensor<2x7xf32>
  return
}

// -----

func.func @top_k(%x: tensor<1x6xf32>, %e: tensor<2xi64>, %w: tensor<8x2x6x4xf32>) {
  // CHECK: error: 'llmc.packed_expert_linear' op attribute 'top_k' must be from 1 to 2147483647, but is 0
  %y = "llmc.packed_expert_linear"(%x, %e, %w) {top_k = 0 : i64}
     : (tensor<1x6xf32>, tensor<2xi64>, tensor<8x2x6x4xf32>) -> tensor<2x7xf32>
  return
}
