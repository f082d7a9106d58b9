// RUN: llmc-opt %s --pass-pipeline='builtin.module(screen-argmax{columns=16 rows=64},cse)' | filecheck %s
// RUN: llmc-opt %s --pass-pipeline='builtin.module(screen-argmax{columns=16 rows=65},cse)' | filecheck %s --check-prefix=SMALL
// RUN: llmc-opt %s --pass-pipeline='builtin.module(screen-argmax{columns=16 rows=64},bind-parameters)' | filecheck %s --check-prefix=BOUND

// Who wants but the best token calls a copy that reads the high bits of all rows, and both of few.
// CHECK-LABEL: func.func private @step.best(
// CHECK-SAME:    -> tensor<1xi64> attributes {llmc.part}
// CHECK-DAG:     %[[HIGH:.+]] = "llmc.pack_planes"(%[[W:.+]]) {columns = 16 : i64, part = "high"} : (tensor<64x2x!llmc.q8_0>) -> tensor<4x2x416xi8>
// CHECK-DAG:     %[[LOW:.+]] = "llmc.pack_planes"(%[[W]]) {columns = 16 : i64, part = "low"} : (tensor<64x2x!llmc.q8_0>) -> tensor<4x2x128xi8>
// CHECK:         %[[ROUGH:.+]] = "llmc.plane_linear"(%arg0, %[[HIGH]])
// CHECK:         %[[EXACT:.+]] = "llmc.plane_linear"(%arg0, %[[HIGH]], %[[LOW]])
// CHECK:         %[[METRIC:.+]] = "llmc.rough_metric"(%[[W]])
// CHECK:         %[[SPREAD:.+]] = "llmc.rough_spread"(%[[W]], %[[METRIC]])
// CHECK:         "llmc.quantize_rows"(%arg0) {group = 32 : i64}
// CHECK:         %[[E:.+]] = tensor.collapse_shape %[[EXACT]]
// CHECK:         %[[R:.+]] = tensor.collapse_shape %[[ROUGH]]
// CHECK:         "llmc.screened_argmax"(%[[E]], %[[R]], %{{.+}}, %[[METRIC]], %[[SPREAD]], %{{.+}})
// CHECK-LABEL: func.func @step(
// CHECK:         %[[LOGITS:.+]] = "llmc.plane_linear"(%arg0, %{{.+}}, %{{.+}}) {operandSegmentSizes = array<i32: 1, 1, 1>}
// CHECK:         %[[ROW:.+]] = tensor.collapse_shape %[[LOGITS]]
// CHECK:         "llmc.argmax"(%[[ROW]])
// CHECK-LABEL: func.func @best(
// CHECK:         call @step.best(%arg0)
// CHECK-LABEL: func.func @rows(
// CHECK:         "llmc.plane_embedding"

// The archive stores both parts, and nothing beside them but two vectors.
// BOUND:         ml_program.global private @w.high({{.+}}) : tensor<4x2x416xi8>
// BOUND:         ml_program.global private @w.low({{.+}}) : tensor<4x2x128xi8>
// BOUND:         ml_program.global private @w.metric({{.+}}) : tensor<64xf32>
// BOUND:         ml_program.global private @w.spread({{.+}}) : tensor<64xf32>
// BOUND-NOT:     ml_program.global private

// SMALL:         "llmc.quantized_linear"
// SMALL-NOT:     plane
func.func @step(%x: tensor<1x1x64xf32>) -> (tensor<1x64xf32>, tensor<1xi64>) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<64x64xf32>
  %q = "llmc.quantize"(%w) : (tensor<64x64xf32>) -> tensor<64x2x!llmc.q8_0>
  %y = "llmc.quantized_linear"(%x, %q) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
     : (tensor<1x1x64xf32>, tensor<64x2x!llmc.q8_0>) -> tensor<1x1x64xf32>
  %row = tensor.collapse_shape %y [[0, 1], [2]] : tensor<1x1x64xf32> into tensor<1x64xf32>
  %best = "llmc.argmax"(%row) : (tensor<1x64xf32>) -> tensor<1xi64>
  return %row, %best : tensor<1x64xf32>, tensor<1xi64>
}
func.func @best(%x: tensor<1x1x64xf32>) -> tensor<1xi64> {
  %row, %best = call @step(%x) : (tensor<1x1x64xf32>) -> (tensor<1x64xf32>, tensor<1xi64>)
  return %best : tensor<1xi64>
}
func.func @rows(%i: tensor<3xi64>) -> tensor<3x64xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<64x64xf32>
  %q = "llmc.quantize"(%w) : (tensor<64x64xf32>) -> tensor<64x2x!llmc.q8_0>
  %e = "llmc.embedding"(%i, %q) : (tensor<3xi64>, tensor<64x2x!llmc.q8_0>) -> tensor<3x64xf32>
  return %e : tensor<3x64xf32>
}

// Several tokens are searched for as one is, and all steps read the same parts.
// CHECK-LABEL: func.func private @steps.best(
// CHECK:         %[[EXACT:.+]] = "llmc.plane_linear"(%arg0, %{{.+}}, %{{.+}})
// CHECK:         "llmc.screened_argmax"(
// CHECK-SAME:    -> tensor<?xi64>
// CHECK-LABEL: func.func @bests(
// CHECK:         call @steps.best(%arg0)
func.func @steps(%x: tensor<?x1x64xf32>) -> (tensor<?x64xf32>, tensor<?xi64>) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<64x64xf32>
  %q = "llmc.quantize"(%w) : (tensor<64x64xf32>) -> tensor<64x2x!llmc.q8_0>
  %y = "llmc.quantized_linear"(%x, %q) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
     : (tensor<?x1x64xf32>, tensor<64x2x!llmc.q8_0>) -> tensor<?x1x64xf32>
  %rows = tensor.collapse_shape %y [[0, 1], [2]] : tensor<?x1x64xf32> into tensor<?x64xf32>
  %best = "llmc.argmax"(%rows) : (tensor<?x64xf32>) -> tensor<?xi64>
  return %rows, %best : tensor<?x64xf32>, tensor<?xi64>
}
func.func @bests(%x: tensor<?x1x64xf32>) -> tensor<?xi64> {
  %rows, %best = call @steps(%x) : (tensor<?x1x64xf32>) -> (tensor<?x64xf32>, tensor<?xi64>)
  return %best : tensor<?xi64>
}

// What else a step makes of the logits it makes of the exact ones.
// CHECK-LABEL: func.func private @limited.best(
// CHECK:         %[[EXACT:.+]] = "llmc.plane_linear"(%arg0, %{{.+}}, %{{.+}}) {operandSegmentSizes = array<i32: 1, 1, 1>}
// CHECK:         %[[ROW:.+]] = tensor.collapse_shape %[[EXACT]]
// CHECK:         tensor.extract_slice %[[ROW]][0, 0] [1, 1]
// CHECK-LABEL: func.func @limited(
#m = affine_map<(d0) -> (d0)>
func.func @limited(%x: tensor<1x1x64xf32>) -> (tensor<1x64xf32>, tensor<1xi64>) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<64x64xf32>
  %q = "llmc.quantize"(%w) : (tensor<64x64xf32>) -> tensor<64x2x!llmc.q8_0>
  %y = "llmc.quantized_linear"(%x, %q) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
     : (tensor<1x1x64xf32>, tensor<64x2x!llmc.q8_0>) -> tensor<1x1x64xf32>
  %row = tensor.collapse_shape %y [[0, 1], [2]] : tensor<1x1x64xf32> into tensor<1x64xf32>
  %best = "llmc.argmax"(%row) : (tensor<1x64xf32>) -> tensor<1xi64>
  %room = tensor.empty() : tensor<1xi64>
  %first = tensor.extract_slice %row[0, 0] [1, 1] [1, 1] : tensor<1x64xf32> to tensor<1xf32>
  %chosen = linalg.generic {indexing_maps = [#m, #m, #m], iterator_types = ["parallel"]}
      ins(%best, %first : tensor<1xi64>, tensor<1xf32>) outs(%room : tensor<1xi64>) {
  ^bb0(%a: i64, %b: f32, %old: i64):
    %limit = arith.constant 1.0 : f32
    %end = arith.constant 0 : i64
    %is = arith.cmpf ogt, %b, %limit : f32
    %c = arith.select %is, %end, %a : i64
    linalg.yield %c : i64
  } -> tensor<1xi64>
  return %row, %chosen : tensor<1x64xf32>, tensor<1xi64>
}
func.func @best_limited(%x: tensor<1x1x64xf32>) -> tensor<1xi64> {
  %row, %best = call @limited(%x) : (tensor<1x1x64xf32>) -> (tensor<1x64xf32>, tensor<1xi64>)
  return %best : tensor<1xi64>
}

