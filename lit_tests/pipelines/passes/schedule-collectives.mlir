// RUN: llmc-opt %s --pass-pipeline='builtin.module(schedule-collectives{variant=gather})' | filecheck %s
// RUN: llmc-opt %s --pass-pipeline='builtin.module(schedule-collectives{rank=1 variant=ring})' | filecheck %s --check-prefix=RING
// RUN: llmc-opt %s --pass-pipeline='builtin.module(schedule-collectives{variant=scatter})' | filecheck %s --check-prefix=SCATTER
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(schedule-collectives{rank=3})' 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(schedule-collectives{variant=tree})' 2>&1 | filecheck %s --check-prefix=UNKNOWN

// NONE: error: there is no rank 3 in a grid of 3
// UNKNOWN: variant must be one of gather, ring, scatter, not tree
shard.grid @grid(shape = 3) {llmc.axes = ["tp"]}

// One matmul has all of x, and rows of the weight.
// CHECK-LABEL: func.func @columns(
// CHECK-SAME:      %[[X:.+]]: tensor<?x32xf32>, %[[W:.+]]: tensor<16x96xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:  %[[ALL:.+]] = shard.all_gather %[[X]] on @grid grid_axes = [0] gather_axis = 1
// CHECK-NEXT:  %[[Y:.+]] = "llmc.linear"(%[[ALL]], %[[W]])
// CHECK-NEXT:  return %[[Y]]

// Each piece of x meets its columns of the rows, while it goes on to the next rank: here that of
// rank 1 first, then that of rank 0, then that of rank 2.
// RING-LABEL:  func.func @columns(
// RING-SAME:       %[[X:.+]]: tensor<?x32xf32>, %[[W:.+]]: tensor<16x96xf32>) -> tensor<?x16xf32>
// RING-NEXT:   %[[X0:.+]] = shard.shift %[[X]] on @grid grid_axes = [0] shift_axis = 0 offset = 1 rotate {llmc.started}
// RING-NEXT:   %[[W1:.+]] = tensor.extract_slice %[[W]][0, 32] [16, 32] [1, 1]
// RING-NEXT:   %[[Y1:.+]] = "llmc.linear"(%[[X]], %[[W1]])
// RING-NEXT:   %[[X2:.+]] = shard.shift %[[X0]] {{.*}} {llmc.started}
// RING-NEXT:   %[[W0:.+]] = tensor.extract_slice %[[W]][0, 0] [16, 32] [1, 1]
// RING-NEXT:   %[[Y0:.+]] = "llmc.linear"(%[[X0]], %[[W0]])
// RING-NEXT:   %[[SUM:.+]] = linalg.add ins(%[[Y1]], %[[Y0]] : {{.*}}) outs(%[[Y1]] :
// RING-NEXT:   %[[W2:.+]] = tensor.extract_slice %[[W]][0, 64] [16, 32] [1, 1]
// RING-NEXT:   %[[Y2:.+]] = "llmc.linear"(%[[X2]], %[[W2]])
// RING-NEXT:   linalg.add ins(%[[SUM]], %[[Y2]] : {{.*}}) outs(%[[SUM]] :
// RING-NOT:    shard.

// The weight is split as x is, and of the sum every rank has a part.
// SCATTER-LABEL: func.func @columns(
// SCATTER-SAME:      %[[X:.+]]: tensor<?x32xf32>, %[[W:.+]]: tensor<48x32xf32>) -> tensor<?x16xf32>
// SCATTER-NEXT:  %[[Y:.+]] = "llmc.linear"(%[[X]], %[[W]])
// SCATTER-NEXT:  %[[PART:.+]] = shard.reduce_scatter %[[Y]] on @grid grid_axes = [0] scatter_dim = 1
// SCATTER-NEXT:  return %[[PART]]
func.func @columns(%x: tensor<?x96xf32>, %w: tensor<48x96xf32>) -> tensor<?x48xf32> {
  %columns = shard.sharding @grid split_axes = [[], [0]] : !shard.sharding
  %xs = shard.shard %x to %columns annotate_for_users : tensor<?x96xf32>
  %y = "llmc.linear"(%xs, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<?x96xf32>, tensor<48x96xf32>) -> tensor<?x48xf32>
  %ys = shard.shard %y to %columns : tensor<?x48xf32>
  return %ys : tensor<?x48xf32>
}

// A result that is to be whole is gathered.
// CHECK-LABEL: func.func @whole(
// CHECK-SAME:      tensor<96x16xf32>) -> tensor<4x48xf32>
// CHECK:       shard.all_gather
// CHECK:       %[[Y:.+]] = "llmc.linear"
// CHECK:       shard.all_gather %[[Y]]
// RING-LABEL:  func.func @whole(
// RING:        shard.all_gather
// SCATTER-LABEL: func.func @whole(
// SCATTER-SAME:      tensor<32x48xf32>) -> tensor<4x48xf32>
// SCATTER:       %[[PART:.+]] = shard.reduce_scatter
// SCATTER-NEXT:  shard.all_gather %[[PART]]
func.func @whole(%x: tensor<4x96xf32>, %w: tensor<96x48xf32>) -> tensor<4x48xf32> {
  %columns = shard.sharding @grid split_axes = [[], [0]] : !shard.sharding
  %xs = shard.shard %x to %columns annotate_for_users : tensor<4x96xf32>
  %y = "llmc.linear"(%xs, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 1 : i64}
      : (tensor<4x96xf32>, tensor<96x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// What nobody splits stays.
// CHECK-LABEL: func.func @alone
// CHECK-SAME:      tensor<4x96xf32>
func.func @alone(%x: tensor<4x96xf32>, %w: tensor<48x96xf32>) -> tensor<4x48xf32> {
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<4x96xf32>, tensor<48x96xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}
