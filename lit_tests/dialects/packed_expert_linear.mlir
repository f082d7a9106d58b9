// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s

// CHECK-LABEL: func.func @one_token
// CHECK-NEXT:    "llmc.packed_expert_linear"(%arg0, %arg1, %arg2) {top_k = 2 : i64}
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

func.func @top_k(%x: tensor<1x6xf32>, %e: tensor<2xi64>, %w: tensor<8x2x6x4xf32>) {
  // CHECK: error: 'llmc.packed_expert_linear' op attribute 'top_k' must be positive
  %y = "llmc.packed_expert_linear"(%x, %e, %w) {top_k = 0 : i64}
     : (tensor<1x6xf32>, tensor<2xi64>, tensor<8x2x6x4xf32>) -> tensor<2x7xf32>
  return
}
