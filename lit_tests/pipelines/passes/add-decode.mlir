// RUN: llmc-opt %s --split-input-file --add-decode --canonicalize | filecheck %s

// The step of one sequence is before that of several, and has layers of its own.
// CHECK-LABEL: func.func private @decode_batch.layer0(%arg0: tensor<?x1x6xf32>
// CHECK-LABEL: func.func private @decode.layer0(
// CHECK-SAME:      %arg0: tensor<1x1x6xf32>, %arg1: index) -> tensor<1x1x6xf32> attributes {llmc.layer_argument = 1 : index}
// CHECK:         "llmc.rms_norm"(%arg0, %{{.+}}) {{.+}} -> tensor<1x1x6xf32>
// CHECK-LABEL: func.func @decode(%arg0: tensor<1x1xi64>) -> tensor<1x1x6xf32>
// CHECK:         call @decode.layer0(%{{.+}}, %c0) : (tensor<1x1x6xf32>, index) -> tensor<1x1x6xf32>
// CHECK-LABEL: func.func @decode_batch(%arg0: tensor<?x1xi64>) -> tensor<?x1x6xf32>
// CHECK:         call @decode_batch.layer0(
func.func private @decode_batch.layer0(%x: tensor<?x1x6xf32>, %layer: index) -> tensor<?x1x6xf32> attributes {llmc.layer_argument = 1 : index} {
  %w = "llmc.parameter"() {sources = ["a", "b"]} : () -> tensor<6xf32>
  %n = "llmc.rms_norm"(%x, %w) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5, offset = 0.0} : (tensor<?x1x6xf32>, tensor<6xf32>) -> tensor<?x1x6xf32>
  return %n : tensor<?x1x6xf32>
}
func.func @decode_batch(%tokens: tensor<?x1xi64>) -> tensor<?x1x6xf32> {
  %c0 = arith.constant 0 : index
  %table = "llmc.parameter"() {sources = ["embedding"]} : () -> tensor<10x6xf32>
  %x = "llmc.embedding"(%tokens, %table) : (tensor<?x1xi64>, tensor<10x6xf32>) -> tensor<?x1x6xf32>
  %0 = call @decode_batch.layer0(%x, %c0) : (tensor<?x1x6xf32>, index) -> tensor<?x1x6xf32>
  return %0 : tensor<?x1x6xf32>
}

// -----

// Rows of which there are as many as sequences times experts are a number of their own.
// CHECK-LABEL: func.func @decode(%arg0: tensor<1x2x6xf32>, %arg1: tensor<1x2xf32>) -> tensor<1x6xf32>
// CHECK:         "llmc.combine_experts"(%{{.+}}, %arg1) : (tensor<2x6xf32>, tensor<1x2xf32>) -> tensor<1x6xf32>
func.func @decode_batch(%rows: tensor<?x2x6xf32>, %weights: tensor<?x2xf32>) -> tensor<?x6xf32> {
  %flat = tensor.collapse_shape %rows [[0, 1], [2]] : tensor<?x2x6xf32> into tensor<?x6xf32>
  %0 = "llmc.combine_experts"(%flat, %weights) : (tensor<?x6xf32>, tensor<?x2xf32>) -> tensor<?x6xf32>
  return %0 : tensor<?x6xf32>
}

// -----

// One that is there stays the only one.
// CHECK-LABEL: func.func @decode(
// CHECK-NOT:   func.func @decode(
// CHECK-LABEL: func.func @decode_batch(
// CHECK-NOT:   func.func @decode(
func.func @decode(%tokens: tensor<1x1xi64>) -> tensor<1x1xi64> {
  return %tokens : tensor<1x1xi64>
}
func.func @decode_batch(%tokens: tensor<?x1xi64>) -> tensor<?x1xi64> {
  return %tokens : tensor<?x1xi64>
}

// -----

// Of a prompt alone nothing is made.
// CHECK-NOT:   @decode
// CHECK-LABEL: func.func @prefill(
// CHECK-NOT:   @decode
func.func @prefill(%tokens: tensor<1x?xi64>) -> tensor<1x?xi64> {
  return %tokens : tensor<1x?xi64>
}
