// RUN: llmc-opt %s --pass-pipeline='builtin.module(fill-panels{columns=8 panels=2 rows=64})' | filecheck %s

// 70 rows, and ten of them once more, fill ten panels. The search sees all of them, the logits are as
// many as before, and the table of the embedding is the same weight.
// CHECK-LABEL: func.func @step(
// CHECK:         %[[W:.+]] = "llmc.parameter"
// CHECK-NEXT:    %[[FILLED:.+]] = "llmc.repeat_rows"(%[[W]]) : (tensor<70x32xf32>) -> tensor<80x32xf32>
// CHECK:         %[[Y:.+]] = "llmc.linear"(%arg0, %[[FILLED]]) {{.+}} -> tensor<?x1x80xf32>
// CHECK:         %[[KEPT:.+]] = tensor.extract_slice %[[Y]][0, 0, 0] [%{{.+}}, 1, 70] [1, 1, 1]
// CHECK:         %[[ALL:.+]] = tensor.collapse_shape %[[Y]] {{.+}} into tensor<?x80xf32>
// CHECK:         %[[LOGITS:.+]] = tensor.collapse_shape %[[KEPT]] {{.+}} into tensor<?x70xf32>
// CHECK:         %[[BEST:.+]] = "llmc.argmax"(%[[ALL]])
// CHECK:         return %[[LOGITS]], %[[BEST]]
func.func @step(%x: tensor<?x1x32xf32>) -> (tensor<?x70xf32>, tensor<?xi64>) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<70x32xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<?x1x32xf32>, tensor<70x32xf32>) -> tensor<?x1x70xf32>
  %rows = tensor.collapse_shape %y [[0, 1], [2]] : tensor<?x1x70xf32> into tensor<?x70xf32>
  %best = "llmc.argmax"(%rows) : (tensor<?x70xf32>) -> tensor<?xi64>
  return %rows, %best : tensor<?x70xf32>, tensor<?xi64>
}

// CHECK-LABEL: func.func @rows(
// CHECK:         %[[TABLE:.+]] = "llmc.repeat_rows"
// CHECK:         "llmc.embedding"(%arg0, %[[TABLE]])
func.func @rows(%i: tensor<3xi64>) -> tensor<3x32xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<70x32xf32>
  %e = "llmc.embedding"(%i, %w) : (tensor<3xi64>, tensor<70x32xf32>) -> tensor<3x32xf32>
  return %e : tensor<3x32xf32>
}

// Blocks have rows as floats do. What is no head, has a bias, or has full panels, is left alone.
// CHECK-LABEL: func.func @others(
// CHECK:         "llmc.repeat_rows"(%{{.+}}) : (tensor<70x1x!llmc.q8_0>) -> tensor<80x1x!llmc.q8_0>
// CHECK-NOT:     llmc.repeat_rows
func.func @others(%x: tensor<1x1x32xf32>, %bias: tensor<70xf32>)
    -> (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1x1x70xf32>) {
  %blocks = "llmc.parameter"() {sources = ["blocks"]} : () -> tensor<70x1x!llmc.q8_0>
  %a = "llmc.quantized_linear"(%x, %blocks) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
     : (tensor<1x1x32xf32>, tensor<70x1x!llmc.q8_0>) -> tensor<1x1x70xf32>
  %a_row = tensor.collapse_shape %a [[0, 1], [2]] : tensor<1x1x70xf32> into tensor<1x70xf32>
  %a_best = "llmc.argmax"(%a_row) : (tensor<1x70xf32>) -> tensor<1xi64>

  %shifted = "llmc.parameter"() {sources = ["shifted"]} : () -> tensor<70x32xf32>
  %b = "llmc.linear"(%x, %shifted, %bias) {operandSegmentSizes = array<i32: 1, 1, 1>, transposed = 0 : i64}
     : (tensor<1x1x32xf32>, tensor<70x32xf32>, tensor<70xf32>) -> tensor<1x1x70xf32>
  %b_row = tensor.collapse_shape %b [[0, 1], [2]] : tensor<1x1x70xf32> into tensor<1x70xf32>
  %b_best = "llmc.argmax"(%b_row) : (tensor<1x70xf32>) -> tensor<1xi64>

  %even = "llmc.parameter"() {sources = ["even"]} : () -> tensor<64x32xf32>
  %c = "llmc.linear"(%x, %even) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x1x32xf32>, tensor<64x32xf32>) -> tensor<1x1x64xf32>
  %c_row = tensor.collapse_shape %c [[0, 1], [2]] : tensor<1x1x64xf32> into tensor<1x64xf32>
  %c_best = "llmc.argmax"(%c_row) : (tensor<1x64xf32>) -> tensor<1xi64>

  %layer = "llmc.parameter"() {sources = ["layer"]} : () -> tensor<70x32xf32>
  %d = "llmc.linear"(%x, %layer) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x1x32xf32>, tensor<70x32xf32>) -> tensor<1x1x70xf32>
  return %a_best, %b_best, %c_best, %d : tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1x1x70xf32>
}

// A search of all rows at once is none of each row's best output.
// CHECK-LABEL: func.func @merged
// CHECK-NOT:     llmc.repeat_rows
// CHECK:         tensor.collapse_shape %{{.+}} into tensor<1x140xf32>
func.func @merged(%x: tensor<1x2x32xf32>) -> tensor<1xi64> {
  %w = "llmc.parameter"() {sources = ["merged"]} : () -> tensor<70x32xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x2x32xf32>, tensor<70x32xf32>) -> tensor<1x2x70xf32>
  %rows = tensor.collapse_shape %y [[0], [1, 2]] : tensor<1x2x70xf32> into tensor<1x140xf32>
  %best = "llmc.argmax"(%rows) : (tensor<1x140xf32>) -> tensor<1xi64>
  return %best : tensor<1xi64>
}
