// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @one_token
// CHECK-NEXT:    "llmc.packed_quantized_expert_linear"(%arg0, %arg1, %arg2) {format = "q4_0", top_k = 2 : i64}
//
// The panels of the chosen are taken out, and multiplied in integers.
// LOWER-LABEL: func.func @one_token
// LOWER:         linalg.generic {{.+}} ins(%arg1 : tensor<2xi64>) outs(%{{.+}} : tensor<2x2x2x72xi8>)
// LOWER:           tensor.extract %arg2
// LOWER:         linalg.generic {{.+}} outs(%{{.+}} : tensor<2x2x2x4xi32>)
// LOWER:           arith.muli
// LOWER:         tensor.extract_slice %{{.+}}[0, 0] [2, 7]
func.func @one_token(%x: tensor<1x64xf32>, %e: tensor<2xi64>, %w: tensor<8x2x2x72xi8>) -> tensor<2x7xf32> {
  %y = "llmc.packed_quantized_expert_linear"(%x, %e, %w) {format = "q4_0", top_k = 2 : i64}
     : (tensor<1x64xf32>, tensor<2xi64>, tensor<8x2x2x72xi8>) -> tensor<2x7xf32>
  return %y : tensor<2x7xf32>
}

// -----

func.func @format(%x: tensor<1x64xf32>, %e: tensor<2xi64>, %w: tensor<8x2x2x72xi8>) {
  // CHECK: error: 'llmc.packed_quantized_expert_linear' op attribute 'format' must be one of q4_0,
  %y = "llmc.packed_quantized_expert_linear"(%x, %e, %w) {format = "q4", top_k = 2 : i64}
     : (tensor<1x64xf32>, tensor<2xi64>, tensor<8x2x2x72xi8>) -> tensor<2x7xf32>
  return
}

// -----

func.func @panels(%x: tensor<1x64xf32>, %e: tensor<2xi64>, %w: tensor<8x3x2x72xi8>) {
  // CHECK: error: 'llmc.packed_quantized_expert_linear' op operand 'weight' must have its panels = 2, but has 3
  %y = "llmc.packed_quantized_expert_linear"(%x, %e, %w) {format = "q4_0", top_k = 2 : i64}
     : (tensor<1x64xf32>, tensor<2xi64>, tensor<8x3x2x72xi8>) -> tensor<2x7xf32>
  return
}

// -----

func.func @inputs(%x: tensor<1x32xf32>, %e: tensor<2xi64>, %w: tensor<8x2x2x72xi8>) {
  // CHECK: error: 'llmc.packed_quantized_expert_linear' op operand 'x' must have its last dimension = 64, but has 32
  %y = "llmc.packed_quantized_expert_linear"(%x, %e, %w) {format = "q4_0", top_k = 2 : i64}
     : (tensor<1x32xf32>, tensor<2xi64>, tensor<8x2x2x72xi8>) -> tensor<2x7xf32>
  return
}

// -----

func.func @rows(%x: tensor<1x64xf32>, %e: tensor<3xi64>, %w: tensor<8x2x2x72xi8>) {
  // CHECK: error: 'llmc.packed_quantized_expert_linear' op operand 'expert' must have its length = 2, but has 3
  %y = "llmc.packed_quantized_expert_linear"(%x, %e, %w) {format = "q4_0", top_k = 2 : i64}
     : (tensor<1x64xf32>, tensor<3xi64>, tensor<8x2x2x72xi8>) -> tensor<2x7xf32>
  return
}
