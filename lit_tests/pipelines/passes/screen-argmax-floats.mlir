// RUN: llmc-opt %s --pass-pipeline='builtin.module(screen-argmax{columns=16 rows=64 storage=f16},cse)' | filecheck %s
// RUN: llmc-opt %s --pass-pipeline='builtin.module(screen-argmax{columns=16 rows=64 storage=bf16})' | filecheck %s --check-prefix=BF16
// RUN: llmc-opt %s --pass-pipeline='builtin.module(screen-argmax{columns=16 rows=64 storage=f16},bind-parameters{storage=f16})' | filecheck %s --check-prefix=BOUND
// RUN: llmc-opt %s --pass-pipeline='builtin.module(screen-argmax{columns=16 rows=64},bind-parameters)' | filecheck %s --check-prefix=F32

// Who wants but the best token calls a copy that reads half of each number, and all of few rows.
// CHECK-LABEL: func.func private @step.best(
// CHECK:         %[[W:.+]] = arith.truncf %{{.+}} : tensor<64x32xf32> to tensor<64x32xf16>
// CHECK:         %[[HIGH:.+]] = "llmc.split_float"(%[[W]]) {part = "high"} : (tensor<64x32xf16>) -> tensor<64x32xi8>
// CHECK:         %[[HIGHS:.+]] = linalg.pack %[[HIGH]] {{.+}} -> tensor<4x32x16xi8>
// CHECK:         %[[LOW:.+]] = "llmc.split_float"(%[[W]]) {part = "low"}
// CHECK:         %[[LOWS:.+]] = linalg.pack %[[LOW]]
// CHECK:         %[[NEAR:.+]] = "llmc.join_float"(%[[HIGHS]]) {{.+}} -> tensor<4x32x16xf32>
// CHECK:         %[[ROUGH:.+]] = "llmc.packed_linear"(%arg0, %[[NEAR]])
// CHECK:         %[[WHOLE:.+]] = "llmc.join_float"(%[[HIGHS]], %[[LOWS]])
// CHECK:         %[[EXACT:.+]] = "llmc.packed_linear"(%arg0, %[[WHOLE]])
// CHECK:         %[[METRIC:.+]] = "llmc.rough_metric"(%[[W]])
// CHECK:         %[[SPREAD:.+]] = "llmc.rough_spread"(%[[W]], %[[METRIC]])
// CHECK:         %[[X:.+]] = tensor.collapse_shape %arg0
// CHECK:         %[[E:.+]] = tensor.collapse_shape %[[EXACT]]
// CHECK:         %[[R:.+]] = tensor.collapse_shape %[[ROUGH]]
// CHECK:         "llmc.screened_argmax"(%[[E]], %[[R]], %[[X]], %[[METRIC]], %[[SPREAD]])
// CHECK-LABEL: func.func @step(
// CHECK:         %[[JOINED:.+]] = "llmc.join_float"(%{{.+}}, %{{.+}})
// CHECK:         %[[LOGITS:.+]] = "llmc.packed_linear"(%arg0, %[[JOINED]])
// CHECK:         %[[ROW:.+]] = tensor.collapse_shape %[[LOGITS]]
// CHECK:         "llmc.argmax"(%[[ROW]])
// CHECK-LABEL: func.func @best(
// CHECK:         call @step.best(%arg0)
// CHECK-LABEL: func.func @rows(
// CHECK:         linalg.generic
// CHECK-COUNT-2:   tensor.extract

// The archive stores both parts, and nothing beside them but two vectors.
// BOUND-DAG:     ml_program.global private @w.high({{.+}}) : tensor<4x32x16xi8>
// BOUND-DAG:     ml_program.global private @w.low({{.+}}) : tensor<4x32x16xi8>
// BOUND-DAG:     ml_program.global private @w.metric({{.+}}) : tensor<32xf32>
// BOUND-DAG:     ml_program.global private @w.spread({{.+}}) : tensor<64xf32>
// BOUND-NOT:     ml_program.global private

// F32-DAG:       ml_program.global private @w.high({{.+}}) : tensor<4x32x16xi16>
// F32-DAG:       ml_program.global private @w.low({{.+}}) : tensor<4x32x16xi16>
// F32-NOT:       truncf

// BF16-NOT:      split_float
func.func @step(%x: tensor<1x1x32xf32>) -> (tensor<1x64xf32>, tensor<1xi64>) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<64x32xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x1x32xf32>, tensor<64x32xf32>) -> tensor<1x1x64xf32>
  %row = tensor.collapse_shape %y [[0, 1], [2]] : tensor<1x1x64xf32> into tensor<1x64xf32>
  %best = "llmc.argmax"(%row) : (tensor<1x64xf32>) -> tensor<1xi64>
  return %row, %best : tensor<1x64xf32>, tensor<1xi64>
}
func.func @best(%x: tensor<1x1x32xf32>) -> tensor<1xi64> {
  %row, %best = call @step(%x) : (tensor<1x1x32xf32>) -> (tensor<1x64xf32>, tensor<1xi64>)
  return %best : tensor<1xi64>
}
func.func @rows(%i: tensor<3xi64>) -> tensor<3x32xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<64x32xf32>
  %e = "llmc.embedding"(%i, %w) : (tensor<3xi64>, tensor<64x32xf32>) -> tensor<3x32xf32>
  return %e : tensor<3x32xf32>
}
