// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(quantize-activations)' | filecheck %s

// CHECK-LABEL: func.func @layer
// CHECK-NEXT:    %[[ROWS:.+]]:2 = "llmc.quantize_rows"(%arg0) {group = 32 : i64} : (tensor<1x?x64xf32>) -> (tensor<1x?x64xi8>, tensor<1x?x2xf32>)
// CHECK-NEXT:    "llmc.quantized_linear"(%[[ROWS]]#0, %arg1, %[[ROWS]]#1, %arg2) {operandSegmentSizes = array<i32: 1, 1, 1, 1>}
func.func @layer(%x: tensor<1x?x64xf32>, %w: tensor<8x2x!llmc.q4_1>, %b: tensor<8xf32>) -> tensor<1x?x8xf32> {
  %y = "llmc.quantized_linear"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 1>}
     : (tensor<1x?x64xf32>, tensor<8x2x!llmc.q4_1>, tensor<8xf32>) -> tensor<1x?x8xf32>
  return %y : tensor<1x?x8xf32>
}

// Integers stay, and so does a linear layer on floats.
// CHECK-LABEL: func.func @others
// CHECK-NOT:     llmc.quantize_rows
// CHECK:         return
func.func @others(%x: tensor<3x64xi8>, %s: tensor<3x2xf32>, %q: tensor<8x2x!llmc.q4_0>, %t: tensor<3x64xf32>, %w: tensor<8x64xf32>)
    -> (tensor<3x8xf32>, tensor<3x8xf32>) {
  %y = "llmc.quantized_linear"(%x, %q, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0>}
     : (tensor<3x64xi8>, tensor<8x2x!llmc.q4_0>, tensor<3x2xf32>) -> tensor<3x8xf32>
  %z = "llmc.linear"(%t, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<3x64xf32>, tensor<8x64xf32>) -> tensor<3x8xf32>
  return %y, %z : tensor<3x8xf32>, tensor<3x8xf32>
}

// -----

// An invalid layer is an error.
func.func @invalid(%x: tensor<3x32xf32>, %w: tensor<8x2x!llmc.q4_0>) {
  // expected-error@+1 {{'llmc.quantized_linear' op operand 'x' must have its last dimension = 64, but has 32}}
  %y = "llmc.quantized_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
     : (tensor<3x32xf32>, tensor<8x2x!llmc.q4_0>) -> tensor<3x8xf32>
  return
}
