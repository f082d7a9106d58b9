// RUN: llmc-opt %s --pass-pipeline='builtin.module(partition-shards{rank=0},canonicalize)' | filecheck %s
// RUN: llmc-opt %s --pass-pipeline='builtin.module(partition-shards{rank=1},canonicalize)' | filecheck %s --check-prefix=SECOND
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(partition-shards{rank=2})' 2>&1 | filecheck %s --check-prefix=NONE

// NONE: error: there is no rank 2 in a grid of 2
shard.grid @grid(shape = 2) {llmc.axes = ["tp"]}

// A rank has its part of the weights, and sums what all computed of their inputs. The bias is added
// to the sum, once.
// CHECK-LABEL: func.func @inputs
// SECOND-LABEL: func.func @inputs
func.func @inputs(%x: tensor<4x96xf32>) -> tensor<4x64xf32> {
  // CHECK-DAG:  %[[W:.+]] = "llmc.parameter"() {sources = ["w"]} : () -> tensor<64x96xf32>
  // CHECK-DAG:  %[[B:.+]] = "llmc.parameter"() {sources = ["b"]}
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<64x96xf32>
  %b = "llmc.parameter"() {sources = ["b"]} : () -> tensor<64xf32>
  %columns = shard.sharding @grid split_axes = [[], [0]] sharded_dims_offsets = [0, 32, 96]
      : !shard.sharding
  // CHECK-DAG:  %[[XS:.+]] = tensor.extract_slice %arg0[0, 0] [4, 32] [1, 1]
  // CHECK-DAG:  %[[WS:.+]] = tensor.extract_slice %[[W]][0, 0] [64, 32] [1, 1]
  // SECOND-DAG: tensor.extract_slice %arg0[0, 32] [4, 64] [1, 1]
  // SECOND-DAG: tensor.extract_slice %{{.+}}[0, 32] [64, 64] [1, 1]
  %xs = shard.shard %x to %columns annotate_for_users : tensor<4x96xf32>
  %ws = shard.shard %w to %columns annotate_for_users : tensor<64x96xf32>
  // CHECK:      %[[Y:.+]] = "llmc.linear"(%[[XS]], %[[WS]]) {{.*}} -> tensor<4x64xf32>
  // CHECK-NEXT: %[[SUM:.+]] = shard.all_reduce %[[Y]] on @grid grid_axes = [0]
  // CHECK:      linalg.generic {{.*}} ins(%[[SUM]], %[[B]] :
  // CHECK:      arith.addf
  %y = "llmc.linear"(%xs, %ws, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, transposed = 0 : i64}
      : (tensor<4x96xf32>, tensor<64x96xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// Parts of different sizes are filled up to be gathered, and cut out of what is gathered.
// CHECK-LABEL: func.func @outputs
func.func @outputs(%x: tensor<4x8xf32>) -> tensor<4x48xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<48x8xf32>
  %rows = shard.sharding @grid split_axes = [[0]] sharded_dims_offsets = [0, 16, 48] : !shard.sharding
  %ws = shard.shard %w to %rows : tensor<48x8xf32>
  // CHECK:      %[[Y:.+]] = "llmc.linear"({{.*}} -> tensor<4x16xf32>
  // CHECK:      %[[ROOM:.+]] = tensor.insert_slice %[[Y]] into %{{.+}}[0, 0] [4, 16] [1, 1]
  // CHECK-NEXT: %[[ALL:.+]] = shard.all_gather %[[ROOM]] on @grid grid_axes = [0] gather_axis = 1
  // CHECK-SAME:   tensor<4x32xf32> -> tensor<4x64xf32>
  // CHECK-DAG:  %[[FIRST:.+]] = tensor.extract_slice %[[ALL]][0, 0] [4, 16] [1, 1]
  // CHECK-DAG:  %[[REST:.+]] = tensor.extract_slice %[[ALL]][0, 32] [4, 32] [1, 1]
  // CHECK:      tensor.concat dim(1) %[[FIRST]], %[[REST]]
  %y = "llmc.linear"(%x, %ws) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<4x8xf32>, tensor<48x8xf32>) -> tensor<4x48xf32>
  %columns = shard.sharding @grid split_axes = [[], [0]] sharded_dims_offsets = [0, 16, 48]
      : !shard.sharding
  %ys = shard.shard %y to %columns : tensor<4x48xf32>
  %whole = shard.sharding @grid split_axes = [[], []] : !shard.sharding
  %all = shard.shard %ys to %whole annotate_for_users : tensor<4x48xf32>
  return %all : tensor<4x48xf32>
}

// Heads of which two ranks share a key head: each has it, for the query heads of its own.
// CHECK-LABEL: func.func @shared_heads
func.func @shared_heads(%q: tensor<1x4x5x8xf32>, %k: tensor<1x1x5x8xf32>) -> tensor<1x4x5x8xf32> {
  %heads = shard.sharding @grid split_axes = [[], [0]] : !shard.sharding
  %both = shard.sharding @grid split_axes = [[], [0]] {llmc.ranges = [[[0, 1], [0, 1]]]}
      : !shard.sharding
  %qs = shard.shard %q to %heads : tensor<1x4x5x8xf32>
  %ks = shard.shard %k to %both annotate_for_users : tensor<1x1x5x8xf32>
  // CHECK:      "llmc.attention"(%{{.+}}, %arg1, %arg1)
  // CHECK-SAME:   (tensor<1x2x5x8xf32>, tensor<1x1x5x8xf32>, tensor<1x1x5x8xf32>) -> tensor<1x2x5x8xf32>
  // CHECK:      shard.all_gather {{.*}} gather_axis = 1
  %o = "llmc.attention"(%qs, %ks, %ks) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>,
      scale = 1.0 : f64, softcap = 0.0 : f64, window = 0 : i64}
      : (tensor<1x4x5x8xf32>, tensor<1x1x5x8xf32>, tensor<1x1x5x8xf32>) -> tensor<1x4x5x8xf32>
  %whole = shard.sharding @grid split_axes = [[]] : !shard.sharding
  %all = shard.shard %o to %whole annotate_for_users : tensor<1x4x5x8xf32>
  return %all : tensor<1x4x5x8xf32>
}

// A token that another rank has the row of adds zeros.
// SECOND-LABEL: func.func @embedding
func.func @embedding(%ids: tensor<1x3xi64>) -> tensor<1x3x8xf32> {
  %table = "llmc.parameter"() {sources = ["table"]} : () -> tensor<10x8xf32>
  %rows = shard.sharding @grid split_axes = [[0]] : !shard.sharding
  %part = shard.shard %table to %rows : tensor<10x8xf32>
  // SECOND:     arith.subi %{{.+}}, %{{.*}}5
  // SECOND:     %[[ROWS:.+]] = "llmc.embedding"({{.*}}tensor<5x8xf32>)
  // SECOND:     %[[KEPT:.+]] = linalg.generic {{.*}} ins(%[[ROWS]], %arg0
  // SECOND:     arith.cmpi ult
  // SECOND:     shard.all_reduce %[[KEPT]]
  %0 = "llmc.embedding"(%ids, %part) : (tensor<1x3xi64>, tensor<10x8xf32>) -> tensor<1x3x8xf32>
  return %0 : tensor<1x3x8xf32>
}
