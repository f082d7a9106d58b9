// RUN: llmc-opt %s --split-blocks | filecheck %s

// Integers of 4 bits are read as they lie, in the order of what they multiply.
// CHECK-LABEL: func.func @row(
// CHECK:         %[[W:.+]] = "llmc.parameter"()
// CHECK:         "llmc.block_field"(%[[W]]) {field = "integers"}
// CHECK:         %[[SCALE:.+]] = "llmc.block_field"(%[[W]]) {field = "scale"}
// CHECK:         %[[MINIMUM:.+]] = "llmc.block_field"(%[[W]]) {field = "minimum"}
// CHECK:         %[[X:.+]] = tensor.expand_shape %{{.+}} output_shape [1, 2, 32]
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

// What a lookup reads are the same fields.
// CHECK-LABEL: func.func @lookup(
// CHECK-DAG:     %[[INTEGERS:.+]] = "llmc.block_field"(%{{.+}}) {field = "integers"}
// CHECK-DAG:     %[[SCALE:.+]] = "llmc.block_field"(%{{.+}}) {field = "scale"}
// CHECK:         tensor.extract %[[INTEGERS]]
// CHECK:         tensor.extract %[[SCALE]]
// CHECK-NOT:     llmc.embedding
func.func @lookup(%ids: tensor<?xi64>) -> tensor<?x64xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<3x2x!llmc.q8_0>
  %y = "llmc.embedding"(%ids, %w) : (tensor<?xi64>, tensor<3x2x!llmc.q8_0>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// Of experts, a row reads those that it has chosen.
// CHECK-LABEL: func.func @experts(
// CHECK:         linalg.generic {{.+}} iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%{{.+}}, %{{.+}} : tensor<1x2x32xf32>, tensor<1x2xi64>) outs(%{{.+}} : tensor<1x2x3xf32>)
// CHECK:           tensor.extract %{{.+}} : tensor<5x3x2x32xi4>
// CHECK:           tensor.extract %{{.+}} : tensor<5x3x2xf16>
// CHECK-NOT:     llmc.expert_linear
func.func @experts(%x: tensor<1x64xf32>, %expert: tensor<2xi64>) -> tensor<2x3xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<5x3x2x!llmc.q4_0>
  %y = "llmc.expert_linear"(%x, %expert, %w) {top_k = 2 : i64, transposed = 0 : i64} : (tensor<1x64xf32>, tensor<2xi64>, tensor<5x3x2x!llmc.q4_0>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// Blocks that are no weight stay together.
// CHECK-LABEL: func.func @computed(
// CHECK:         llmc.quantized_linear
func.func @computed(%x: tensor<1x64xf32>, %w: tensor<3x2x!llmc.q8_0>) -> tensor<1x3xf32> {
  %y = "llmc.quantized_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (tensor<1x64xf32>, tensor<3x2x!llmc.q8_0>) -> tensor<1x3xf32>
  return %y : tensor<1x3xf32>
}
