// RUN: llmc-opt %s --pass-pipeline='builtin.module(overlap-collectives,canonicalize,cse)' | filecheck %s

shard.grid @grid(shape = 2) {llmc.axes = ["tp"]}

// What follows attention, whose rows read one another, is computed for two halves of the rows by
// turns: while the sum of one half goes on, the other is computed.
// CHECK-LABEL: func.func @layer(
// CHECK-SAME:      %[[X:.+]]: tensor<1x?x16xf32>, %[[Q:.+]]: tensor<1x2x?x8xf32>, %[[W:.+]]: tensor<16x16xf32>
func.func @layer(%x: tensor<1x?x16xf32>, %q: tensor<1x2x?x8xf32>, %w: tensor<16x16xf32>, %up: tensor<32x16xf32>) -> tensor<1x?x32xf32> {
  // Few rows are all in the first half.
  // CHECK:      %[[HEADS:.+]] = "llmc.attention"
  // CHECK-DAG:  %[[ROWS:.+]] = tensor.dim %[[X]], %c1
  // CHECK-DAG:  %[[SHORT:.+]] = arith.cmpi ult, %[[ROWS]], %c64
  // CHECK-DAG:  %[[HALF:.+]] = arith.divui %[[ROWS]], %c2
  // CHECK:      %[[A:.+]] = arith.select %[[SHORT]], %[[ROWS]], %[[HALF]]
  // CHECK:      %[[B:.+]] = arith.subi %[[ROWS]], %[[A]]
  // CHECK:      tensor.extract_slice %[[HEADS]][0, 0, 0, 0] [1, 2, %[[A]], 8]
  // CHECK:      %[[PART_A:.+]] = "llmc.linear"(%{{.+}}, %[[W]])
  // CHECK-NEXT: %[[SUM_A:.+]] = shard.all_reduce %[[PART_A]] {{.*}} {llmc.half = 0 : i64, llmc.started}
  // CHECK:      tensor.extract_slice %[[HEADS]][0, 0, %[[A]], 0] [1, 2, %[[B]], 8]
  // CHECK:      %[[PART_B:.+]] = "llmc.linear"(%{{.+}}, %[[W]])
  // CHECK-NEXT: %[[SUM_B:.+]] = shard.all_reduce %[[PART_B]] {{.*}} {llmc.half = 1 : i64, llmc.started}
  // CHECK:      %[[UP_A:.+]] = "llmc.linear"(%[[SUM_A]],
  // CHECK-NEXT: %[[ALL_A:.+]] = shard.all_gather %[[UP_A]] {{.*}} {llmc.half = 0 : i64, llmc.started}
  // CHECK-NEXT: %[[UP_B:.+]] = "llmc.linear"(%[[SUM_B]],
  // CHECK-NEXT: %[[ALL_B:.+]] = shard.all_gather %[[UP_B]] {{.*}} {llmc.half = 1 : i64, llmc.started}
  // CHECK-NEXT: %[[END_A:.+]] = tensor.extract_slice %[[ALL_A]][0, 0, 0] [1, %[[A]], 32]
  // CHECK-NEXT: %[[END_B:.+]] = tensor.extract_slice %[[ALL_B]][0, 0, 0] [1, %[[B]], 32]
  // CHECK-NEXT: %[[Y:.+]] = tensor.concat dim(1) %[[END_A]], %[[END_B]]
  // CHECK-NEXT: return %[[Y]]
  %c2 = arith.constant 2 : index
  %heads = "llmc.attention"(%q, %q, %q) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 1.0 : f64, softcap = 0.0 : f64, window = 0 : i64}
      : (tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>) -> tensor<1x2x?x8xf32>
  %rows = tensor.dim %heads, %c2 : tensor<1x2x?x8xf32>
  %room = tensor.empty(%rows) : tensor<1x?x2x8xf32>
  %turned = linalg.transpose ins(%heads : tensor<1x2x?x8xf32>) outs(%room : tensor<1x?x2x8xf32>) permutation = [0, 2, 1, 3]
  %joined = tensor.collapse_shape %turned [[0], [1], [2, 3]] : tensor<1x?x2x8xf32> into tensor<1x?x16xf32>
  %part = "llmc.linear"(%joined, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x?x16xf32>, tensor<16x16xf32>) -> tensor<1x?x16xf32>
  %sum = shard.all_reduce %part on @grid grid_axes = [0] : tensor<1x?x16xf32> -> tensor<1x?x16xf32>
  %out = "llmc.linear"(%sum, %up) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x?x16xf32>, tensor<32x16xf32>) -> tensor<1x?x32xf32>
  %all = shard.all_gather %out on @grid grid_axes = [0] gather_axis = 2 : tensor<1x?x32xf32> -> tensor<1x?x64xf32>
  %mine = tensor.extract_slice %all[0, 0, 0] [1, %rows, 32] [1, 1, 1] : tensor<1x?x64xf32> to tensor<1x?x32xf32>
  return %mine : tensor<1x?x32xf32>
}

// Rows that are gathered stay together, and so do those of several sequences.
// CHECK-LABEL: func.func @gathered_rows
// CHECK-NOT:   llmc.started
func.func @gathered_rows(%x: tensor<1x?x16xf32>) -> tensor<1x?x16xf32> {
  %all = shard.all_gather %x on @grid grid_axes = [0] gather_axis = 1 : tensor<1x?x16xf32> -> tensor<1x?x16xf32>
  return %all : tensor<1x?x16xf32>
}

// CHECK-LABEL: func.func @batch
// CHECK-NOT:   llmc.started
func.func @batch(%x: tensor<?x1x16xf32>) -> tensor<?x1x16xf32> {
  %sum = shard.all_reduce %x on @grid grid_axes = [0] : tensor<?x1x16xf32> -> tensor<?x1x16xf32>
  return %sum : tensor<?x1x16xf32>
}
