// RUN: llmc-opt %s --pass-pipeline='builtin.module(annotate-shardings{grid=tp=2})' | filecheck %s
// RUN: llmc-opt %s --pass-pipeline='builtin.module(annotate-shardings{grid=tp=3})' | filecheck %s --check-prefix=OVERLAP
// RUN: llmc-opt %s --pass-pipeline='builtin.module(annotate-shardings{grid="dp=2,ep=2"})' | filecheck %s --check-prefix=EXPERTS
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(annotate-shardings{grid=tp=9})' 2>&1 | filecheck %s --check-prefix=FEW
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(annotate-shardings{grid=xp=2})' 2>&1 | filecheck %s --check-prefix=AXIS

// CHECK:   shard.grid @grid(shape = 2) {llmc.axes = ["tp"]}
// EXPERTS: shard.grid @grid(shape = 2x2) {llmc.axes = ["dp", "ep"]}
// FEW:     error: along tp: 4 heads cannot be split among 9 ranks
// AXIS:    there is no axis 'xp': a grid has tp, pp, dp, ep

// The weights of heads are split by outputs, with the key heads that they share: of two groups of
// two heads, three ranks have two, one and one. What reads them is left to propagation.
// CHECK-LABEL: func.func private @decode.layer0
// OVERLAP-LABEL: func.func private @decode.layer0
func.func private @decode.layer0(%x: tensor<1x1x32xf32>) -> tensor<1x1x32xf32> {
  // CHECK:      %[[Q:.+]] = "llmc.parameter"() {sources = ["q"]}
  // CHECK-NEXT: %[[ROWS:.+]] = shard.sharding @grid split_axes = {{\[\[}}0], []] : !shard.sharding
  // CHECK-NEXT: %[[QS:.+]] = shard.shard %[[Q]] to %[[ROWS]] : tensor<32x32xf32>
  // OVERLAP:    {sources = ["q"]}
  // OVERLAP:    shard.sharding @grid split_axes = {{\[\[}}0], []] sharded_dims_offsets = [0, 16, 24, 32]
  %q = "llmc.parameter"() {sources = ["q"]} : () -> tensor<32x32xf32>
  // OVERLAP:    {sources = ["k"]}
  // OVERLAP:    shard.sharding @grid split_axes = {{\[\[}}0], []] {llmc.ranges = {{\[\[\[}}0, 8], [8, 16], [8, 16]]]}
  %k = "llmc.parameter"() {sources = ["k"]} : () -> tensor<16x32xf32>
  %v = "llmc.parameter"() {sources = ["v"]} : () -> tensor<16x32xf32>
  // CHECK:      %[[O:.+]] = "llmc.parameter"() {sources = ["o"]}
  // CHECK-NOT:  shard.shard %[[O]]
  %o = "llmc.parameter"() {sources = ["o"]} : () -> tensor<32x32xf32>
  // CHECK:      "llmc.linear"(%arg0, %[[QS]])
  %0 = "llmc.linear"(%x, %q) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x1x32xf32>, tensor<32x32xf32>) -> tensor<1x1x32xf32>
  %1 = "llmc.linear"(%x, %k) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x1x32xf32>, tensor<16x32xf32>) -> tensor<1x1x16xf32>
  %2 = "llmc.linear"(%x, %v) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x1x32xf32>, tensor<16x32xf32>) -> tensor<1x1x16xf32>
  %3 = tensor.expand_shape %0 [[0], [1, 2], [3, 4]] output_shape [1, 1, 1, 4, 8]
      : tensor<1x1x32xf32> into tensor<1x1x1x4x8xf32>
  %4 = tensor.collapse_shape %3 [[0], [1, 2, 3], [4]] : tensor<1x1x1x4x8xf32> into tensor<1x4x8xf32>
  %5 = tensor.expand_shape %4 [[0], [1], [2, 3]] output_shape [1, 4, 1, 8]
      : tensor<1x4x8xf32> into tensor<1x4x1x8xf32>
  %6 = tensor.expand_shape %1 [[0], [1], [2, 3]] output_shape [1, 1, 2, 8]
      : tensor<1x1x16xf32> into tensor<1x1x2x8xf32>
  %7 = tensor.empty() : tensor<1x2x1x8xf32>
  %8 = linalg.transpose ins(%6 : tensor<1x1x2x8xf32>) outs(%7 : tensor<1x2x1x8xf32>)
      permutation = [0, 2, 1, 3]
  %9 = tensor.expand_shape %2 [[0], [1], [2, 3]] output_shape [1, 1, 2, 8]
      : tensor<1x1x16xf32> into tensor<1x1x2x8xf32>
  %10 = linalg.transpose ins(%9 : tensor<1x1x2x8xf32>) outs(%7 : tensor<1x2x1x8xf32>)
      permutation = [0, 2, 1, 3]
  %11 = "llmc.attention"(%5, %8, %10) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>,
      scale = 1.0 : f64, softcap = 0.0 : f64, window = 0 : i64}
      : (tensor<1x4x1x8xf32>, tensor<1x2x1x8xf32>, tensor<1x2x1x8xf32>) -> tensor<1x4x1x8xf32>
  %12 = tensor.collapse_shape %11 [[0], [1, 2, 3]] : tensor<1x4x1x8xf32> into tensor<1x32xf32>
  %13 = tensor.expand_shape %12 [[0, 1], [2]] output_shape [1, 1, 32]
      : tensor<1x32xf32> into tensor<1x1x32xf32>
  %14 = "llmc.linear"(%13, %o) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x1x32xf32>, tensor<32x32xf32>) -> tensor<1x1x32xf32>
  return %14 : tensor<1x1x32xf32>
}

// Hidden units are what lies between two linear layers: whole blocks of 32.
// CHECK-LABEL: func.func private @decode.layer1
func.func private @decode.layer1(%x: tensor<1x96xf32>) -> tensor<1x96xf32> {
  // CHECK:      {sources = ["up"]}
  // CHECK-NEXT: shard.sharding @grid split_axes = {{\[\[}}0], []] sharded_dims_offsets = [0, 32, 96]
  %up = "llmc.parameter"() {sources = ["up"]} : () -> tensor<96x96xf32>
  %down = "llmc.parameter"() {sources = ["down"]} : () -> tensor<96x96xf32>
  %0 = "llmc.linear"(%x, %up) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x96xf32>, tensor<96x96xf32>) -> tensor<1x96xf32>
  %1 = "llmc.linear"(%0, %down) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x96xf32>, tensor<96x96xf32>) -> tensor<1x96xf32>
  return %1 : tensor<1x96xf32>
}

// Along ep each rank has experts of its own.
// EXPERTS-LABEL: func.func private @decode.layer2
func.func private @decode.layer2(%x: tensor<1x32xf32>, %chosen: tensor<2xi64>) -> tensor<2x32xf32> {
  // EXPERTS:    shard.sharding @grid split_axes = {{\[\[}}1], [], []]
  %w = "llmc.parameter"() {sources = ["experts"]} : () -> tensor<4x32x32xf32>
  %0 = "llmc.expert_linear"(%x, %chosen, %w) {top_k = 2 : i64, transposed = 0 : i64}
      : (tensor<1x32xf32>, tensor<2xi64>, tensor<4x32x32xf32>) -> tensor<2x32xf32>
  return %0 : tensor<2x32xf32>
}

// Table and head are split by tokens.
// CHECK-LABEL: func.func @decode
func.func @decode(%ids: tensor<1x1xi64>) -> tensor<1x1x101xf32> {
  // CHECK:      sharded_dims_offsets = [0, 50, 101]
  // CHECK-NEXT: %[[TABLE:.+]] = shard.shard
  %table = "llmc.parameter"() {sources = ["table"]} : () -> tensor<101x32xf32>
  // CHECK:      "llmc.embedding"(%arg0, %[[TABLE]])
  %0 = "llmc.embedding"(%ids, %table) : (tensor<1x1xi64>, tensor<101x32xf32>) -> tensor<1x1x32xf32>
  %1 = call @decode.layer0(%0) : (tensor<1x1x32xf32>) -> tensor<1x1x32xf32>
  // CHECK:      "llmc.linear"(%{{.+}}, %[[TABLE]])
  %2 = "llmc.linear"(%1, %table) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x1x32xf32>, tensor<101x32xf32>) -> tensor<1x1x101xf32>
  return %2 : tensor<1x1x101xf32>
}
