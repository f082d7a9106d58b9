// RUN: llmc-opt %s --round-activations | filecheck %s

// CHECK-LABEL: func.func @linear(
// CHECK-SAME:      %[[X:.+]]: tensor<2x16x6xf32>, %[[W:.+]]: tensor<5x6xf16>, %[[BIAS:.+]]: tensor<5xf32>)
// CHECK:         %[[ROWS:.+]] = tensor.collapse_shape %[[X]] {{\[\[}}0, 1], [2]]
// CHECK:         %[[ROUNDED:.+]] = linalg.generic {{.+}} ins(%[[ROWS]] : tensor<32x6xf32>) outs(%{{.+}} : tensor<32x6xf16>)
// CHECK:           arith.truncf
// CHECK:         %[[Y:.+]] = linalg.generic {{.+}} ins(%[[ROUNDED]], %[[W]] : tensor<32x6xf16>, tensor<5x6xf16>) outs(%{{.+}} : tensor<32x5xf32>)
// CHECK:           arith.extf
// CHECK:           arith.extf
// CHECK:           arith.mulf %{{.+}} : f32
// CHECK:         linalg.generic {{.+}} ins(%[[Y]], %[[BIAS]]
// CHECK:         tensor.expand_shape %{{.+}} output_shape [2, 16, 5]
func.func @linear(%x: tensor<2x16x6xf32>, %w: tensor<5x6xf16>, %bias: tensor<5xf32>) -> tensor<2x16x5xf32> {
  %y = "llmc.linear"(%x, %w, %bias) {operandSegmentSizes = array<i32: 1, 1, 1>, transposed = 0 : i64} : (tensor<2x16x6xf32>, tensor<5x6xf16>, tensor<5xf32>) -> tensor<2x16x5xf32>
  return %y : tensor<2x16x5xf32>
}

// A weight of 32 bits, and rows that are few or of no known number, stay as they are.
// CHECK-LABEL: func.func @left(
// CHECK-NOT:     linalg.generic
func.func @left(%x: tensor<16x6xf32>, %w: tensor<5x6xf32>, %few: tensor<1x6xf32>, %some: tensor<?x6xf32>, %half: tensor<5x6xf16>) -> (tensor<16x5xf32>, tensor<1x5xf32>, tensor<?x5xf32>) {
  %a = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64} : (tensor<16x6xf32>, tensor<5x6xf32>) -> tensor<16x5xf32>
  %b = "llmc.linear"(%few, %half) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64} : (tensor<1x6xf32>, tensor<5x6xf16>) -> tensor<1x5xf32>
  %c = "llmc.linear"(%some, %half) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64} : (tensor<?x6xf32>, tensor<5x6xf16>) -> tensor<?x5xf32>
  return %a, %b, %c : tensor<16x5xf32>, tensor<1x5xf32>, tensor<?x5xf32>
}
