// RUN: llmc-opt %s --pass-pipeline='builtin.module(propagate-shardings)' | filecheck %s

shard.grid @grid(shape = 2) {llmc.axes = ["tp"]}

// Outputs that are split stay so from row to row; the weight that is multiplied with them is split
// by inputs, and what that leaves is whole again.
// CHECK-LABEL: func.func @mlp
func.func @mlp(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  // CHECK-DAG:  %[[UP:.+]] = "llmc.parameter"() {sources = ["up"]}
  // CHECK-DAG:  %[[DOWN:.+]] = "llmc.parameter"() {sources = ["down"]}
  // CHECK:      %[[SPLIT:.+]] = shard.shard %[[UP]] to %{{.+}} : tensor<128x64xf32>
  %up = "llmc.parameter"() {sources = ["up"]} : () -> tensor<128x64xf32>
  %down = "llmc.parameter"() {sources = ["down"]} : () -> tensor<64x128xf32>
  %rows = shard.sharding @grid split_axes = [[0], []] : !shard.sharding
  %split = shard.shard %up to %rows : tensor<128x64xf32>
  // CHECK-NEXT: %[[H:.+]] = "llmc.linear"(%arg0, %[[SPLIT]])
  // CHECK-NEXT: %[[BY_COLUMNS:.+]] = shard.sharding @grid split_axes = {{\[\[}}], [0]]
  // CHECK-NEXT: %[[HS:.+]] = shard.shard %[[H]] to %[[BY_COLUMNS]] : tensor<4x128xf32>
  %h = "llmc.linear"(%x, %split) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<4x64xf32>, tensor<128x64xf32>) -> tensor<4x128xf32>
  // CHECK:      %[[EMPTY:.+]] = tensor.empty() : tensor<4x128xf32>
  // CHECK:      %[[ROOM:.+]] = shard.shard %[[EMPTY]] to %{{.+}} annotate_for_users
  // CHECK-NEXT: %[[A:.+]] = linalg.generic {{.*}} ins(%[[HS]] : {{.*}} outs(%[[ROOM]] :
  %room = tensor.empty() : tensor<4x128xf32>
  %a = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%h : tensor<4x128xf32>) outs(%room : tensor<4x128xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.tanh %in : f32
    linalg.yield %0 : f32
  } -> tensor<4x128xf32>
  // CHECK:      %[[AS:.+]] = shard.shard %[[A]] to %{{.+}} : tensor<4x128xf32>
  // CHECK-NEXT: %[[INPUTS:.+]] = shard.sharding @grid split_axes = {{\[\[}}], [0]]
  // CHECK-NEXT: %[[DOWNS:.+]] = shard.shard %[[DOWN]] to %[[INPUTS]] annotate_for_users
  // CHECK-NEXT: %[[Y:.+]] = "llmc.linear"(%[[AS]], %[[DOWNS]])
  // CHECK-NEXT: return %[[Y]]
  %y = "llmc.linear"(%a, %down) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<4x128xf32>, tensor<64x128xf32>) -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// A norm needs whole rows; what it is given split is asked for whole. So is what is returned.
// CHECK-LABEL: func.func @norm
func.func @norm(%x: tensor<4x64xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<64x64xf32>
  %rows = shard.sharding @grid split_axes = [[0], []] : !shard.sharding
  %split = shard.shard %w to %rows : tensor<64x64xf32>
  // CHECK:      %[[S:.+]] = shard.shard %{{.+}} to %{{.+}} : tensor<4x64xf32>
  // CHECK:      shard.sharding @grid split_axes = {{\[\[}}], []]
  // CHECK-NEXT: %[[WHOLE:.+]] = shard.shard %[[S]] to %{{.+}} annotate_for_users : tensor<4x64xf32>
  // CHECK-NEXT: %[[N:.+]] = "llmc.rms_norm"(%[[WHOLE]])
  %h = "llmc.linear"(%x, %split) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %n = "llmc.rms_norm"(%h) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64,
      operandSegmentSizes = array<i32: 1, 0>} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  // CHECK:      %[[TOO:.+]] = shard.shard %[[S]] to %{{.+}} annotate_for_users
  // CHECK-NEXT: return %[[TOO]], %[[N]]
  return %h, %n : tensor<4x64xf32>, tensor<4x64xf32>
}

// Heads are split through rotary embedding and attention, as long as each rank has whole groups.
// CHECK-LABEL: func.func @heads
func.func @heads(%cos: tensor<1x5x8xf32>, %q: tensor<1x4x5x8xf32>, %k: tensor<1x2x5x8xf32>)
    -> tensor<1x4x5x8xf32> {
  %sharding = shard.sharding @grid split_axes = [[], [0]] : !shard.sharding
  %qs = shard.shard %q to %sharding : tensor<1x4x5x8xf32>
  // CHECK:      "llmc.rotary"
  // CHECK:      %[[Q:.+]] = shard.shard %{{.+}} to %{{.+}} : tensor<1x4x5x8xf32>
  %0 = "llmc.rotary"(%qs, %cos, %cos) {interleaved = 0 : i64}
      : (tensor<1x4x5x8xf32>, tensor<1x5x8xf32>, tensor<1x5x8xf32>) -> tensor<1x4x5x8xf32>
  // CHECK:      %[[K:.+]] = shard.shard %arg2 to %{{.+}} annotate_for_users : tensor<1x2x5x8xf32>
  // CHECK:      "llmc.attention"(%[[Q]], %[[K]], %{{.+}})
  // CHECK:      shard.sharding @grid split_axes = {{\[\[}}], [0], [], []]
  %1 = "llmc.attention"(%0, %k, %k) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>,
      scale = 1.0 : f64, softcap = 0.0 : f64, window = 0 : i64}
      : (tensor<1x4x5x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>) -> tensor<1x4x5x8xf32>
  return %1 : tensor<1x4x5x8xf32>
}

// What a region reads element by element is asked for whole.
// CHECK-LABEL: func.func @captured
func.func @captured(%ids: tensor<4xi64>) -> tensor<4x8xf32> {
  // CHECK:      %[[SPLIT:.+]] = shard.shard %{{.+}} to %{{.+}} : tensor<16x8xf32>
  // CHECK:      %[[WHOLE:.+]] = shard.shard %[[SPLIT]] to %{{.+}} annotate_for_users
  // CHECK:      tensor.extract %[[WHOLE]]
  %table = "llmc.parameter"() {sources = ["table"]} : () -> tensor<16x8xf32>
  %columns = shard.sharding @grid split_axes = [[], [0]] : !shard.sharding
  %split = shard.shard %table to %columns : tensor<16x8xf32>
  %room = tensor.empty() : tensor<4x8xf32>
  %rows = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%ids : tensor<4xi64>) outs(%room : tensor<4x8xf32>) {
  ^bb0(%id: i64, %out: f32):
    %i = arith.index_cast %id : i64 to index
    %j = linalg.index 1 : index
    %element = tensor.extract %split[%i, %j] : tensor<16x8xf32>
    linalg.yield %element : f32
  } -> tensor<4x8xf32>
  return %rows : tensor<4x8xf32>
}

// What is dealt out, as its size is open, is so in no dimension of another size.
// CHECK-LABEL: func.func @dealt
func.func @dealt(%x: tensor<2x?x8xf32>) -> tensor<2x?xf32> {
  // CHECK:      %[[DEALT:.+]] = shard.shard %arg0 to %{{.+}} : tensor<2x?x8xf32>
  // CHECK:      %[[WHOLE:.+]] = shard.shard %[[DEALT]] to %{{.+}} annotate_for_users
  // CHECK:      tensor.collapse_shape %[[WHOLE]]
  %columns = shard.sharding @grid split_axes = [[], [0]] : !shard.sharding
  %dealt = shard.shard %x to %columns : tensor<2x?x8xf32>
  %y = tensor.collapse_shape %dealt [[0], [1, 2]] : tensor<2x?x8xf32> into tensor<2x?xf32>
  return %y : tensor<2x?xf32>
}

// Each rank adds up its part where a sum begins at zero. Else each would add what it begins with.
// CHECK-LABEL: func.func @sums
func.func @sums(%x: tensor<4x8xf32>, %bias: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK:      %[[SPLIT:.+]] = shard.shard %arg0 to %{{.+}} : tensor<4x8xf32>
  // CHECK:      %[[ZEROS:.+]] = linalg.fill
  // CHECK-NEXT: linalg.generic {{.*}} ins(%[[SPLIT]] : {{.*}} outs(%[[ZEROS]] :
  // CHECK:      %[[WHOLE:.+]] = shard.shard %[[SPLIT]] to %{{.+}} annotate_for_users
  // CHECK-NEXT: linalg.generic {{.*}} ins(%[[WHOLE]] : {{.*}} outs(%arg1 :
  %columns = shard.sharding @grid split_axes = [[], [0]] : !shard.sharding
  %split = shard.shard %x to %columns : tensor<4x8xf32>
  %zero = arith.constant 0.0 : f32
  %room = tensor.empty() : tensor<4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%room : tensor<4xf32>) -> tensor<4xf32>
  %alone = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%split : tensor<4x8xf32>) outs(%zeros : tensor<4xf32>) {
  ^bb0(%in: f32, %sum: f32):
    %0 = arith.addf %in, %sum : f32
    linalg.yield %0 : f32
  } -> tensor<4xf32>
  %biased = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%split : tensor<4x8xf32>) outs(%bias : tensor<4xf32>) {
  ^bb0(%in: f32, %sum: f32):
    %0 = arith.addf %in, %sum : f32
    linalg.yield %0 : f32
  } -> tensor<4xf32>
  return %alone, %biased : tensor<4xf32>, tensor<4xf32>
}
