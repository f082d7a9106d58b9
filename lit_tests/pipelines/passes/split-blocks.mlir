// RUN: llmc-opt %s --split-blocks | filecheck %s

// Integers of 4 bits are read as they lie, and what they multiply is put in their order.
// CHECK-LABEL: func.func @row(
// CHECK:         %[[W:.+]] = "llmc.parameter"()
// CHECK:         "llmc.block_field"(%[[W]]) {field = "packed"}
// CHECK:         %[[SCALE:.+]] = "llmc.block_field"(%[[W]]) {field = "scale"}
// CHECK:         %[[MINIMUM:.+]] = "llmc.block_field"(%[[W]]) {field = "minimum"}
// CHECK:         %[[HALVES:.+]] = tensor.expand_shape %{{.+}} output_shape [1, 2, 2, 16]
// CHECK:         %[[TURNED:.+]] = linalg.generic {{.+}} ins(%[[HALVES]] : tensor<1x2x2x16xf32>) outs(%{{.+}} : tensor<1x2x16x2xf32>)
// CHECK:         %[[X:.+]] = tensor.collapse_shape %[[TURNED]]
// CHECK:         linalg.generic {{.+}} iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%[[X]], %{{.+}}, %[[SCALE]], %[[MINIMUM]] : tensor<1x2x32xf32>, tensor<3x2x32xi4>, tensor<3x2xf16>, tensor<3x2xf16>)
// CHECK:           arith.extui
// CHECK-NOT:     llmc.quantized_linear
func.func @row(%x: tensor<1x1x64xf32>) -> tensor<1x1x3xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<3x2x!llmc.q4_1>
  %y = "llmc.quantized_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (tensor<1x1x64xf32>, tensor<3x2x!llmc.q4_1>) -> tensor<1x1x3xf32>
  return %y : tensor<1x1x3xf32>
}

// Many rows get float16.
// CHECK-LABEL: func.func @rows(
// CHECK:         %[[W16:.+]] = linalg.generic {{.+}} outs(%{{.+}} : tensor<3x2x32xf16>)
// CHECK:           arith.extsi
// CHECK:           arith.truncf
// CHECK:         "llmc.linear"(%{{.+}}, %{{.+}}) {{.+}} : (tensor<16x64xf32>, tensor<3x64xf16>) -> tensor<16x3xf32>
func.func @rows(%x: tensor<16x64xf32>) -> tensor<16x3xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<3x2x!llmc.q8_0>
  %y = "llmc.quantized_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (tensor<16x64xf32>, tensor<3x2x!llmc.q8_0>) -> tensor<16x3xf32>
  return %y : tensor<16x3xf32>
}

// Blocks that are no weight stay together.
// CHECK-LABEL: func.func @computed(
// CHECK:         llmc.quantized_linear
func.func @computed(%x: tensor<1x64xf32>, %w: tensor<3x2x!llmc.q8_0>) -> tensor<1x3xf32> {
  %y = "llmc.quantized_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (tensor<1x64xf32>, tensor<3x2x!llmc.q8_0>) -> tensor<1x3xf32>
  return %y : tensor<1x3xf32>
}
