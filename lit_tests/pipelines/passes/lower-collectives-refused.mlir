// What there is no code for is refused, and not taken for something else.
// RUN: not llmc-opt %s --split-input-file --pass-pipeline='builtin.module(simplify-collectives,lower-collectives)' 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline='builtin.module(simplify-collectives,lower-collectives-to-flow)' 2>&1 | filecheck %s --check-prefix=GPU

// CHECK: error: ranks can only add up, and f32 alone
// GPU:   error: ranks can only add up, and f32 alone
shard.grid @grid(shape = 2) {llmc.axes = ["tp"]}
func.func @largest(%x: tensor<4x8xf32>) -> tensor<4x4xf32> {
  %0 = shard.all_reduce %x on @grid grid_axes = [0] reduction = max : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tensor.extract_slice %0[0, 4] [4, 4] [1, 1] {llmc.part_along = 0 : i64} : tensor<4x8xf32> to tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

// CHECK: error: between CPUs only tensors of f32 can be moved, and no scalars
// GPU:   error: between GPUs only f32 can be moved
shard.grid @grid(shape = 2) {llmc.axes = ["tp"]}
func.func @integers(%x: tensor<4xi32>) -> tensor<4xi32> {
  %0 = shard.all_reduce %x on @grid grid_axes = [0] : tensor<4xi32> -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

// CHECK: error: ranks can only add up, and f32 alone
// GPU:   error: 'shard.reduce_scatter' is for CPUs alone
shard.grid @grid(shape = 2) {llmc.axes = ["tp"]}
func.func @scatter(%x: tensor<4x8xf32>) -> tensor<4x4xf32> {
  %0 = shard.reduce_scatter %x on @grid grid_axes = [0] reduction = max scatter_dim = 1 : tensor<4x8xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// CHECK: error: parts have one length: dimension 0 must be static, and not empty
// GPU:   error: parts have one length: dimension 0 must be static, and not empty
shard.grid @grid(shape = 2) {llmc.axes = ["tp"]}
func.func @open(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %0 = shard.all_gather %x on @grid grid_axes = [0] gather_axis = 0 : tensor<?x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// -----

// CHECK: error: parts have one length: dimension 0 must be static, and not empty
// GPU:   error: parts have one length: dimension 0 must be static, and not empty
shard.grid @grid(shape = 2) {llmc.axes = ["tp"]}
func.func @empty(%x: tensor<0x8xf32>) -> tensor<0x8xf32> {
  %0 = shard.all_gather %x on @grid grid_axes = [0] gather_axis = 0 : tensor<0x8xf32> -> tensor<0x8xf32>
  return %0 : tensor<0x8xf32>
}

// -----

// CHECK: error: the grid needs a size of at least 1 for each of its axes
shard.grid @grid(shape = ?) {llmc.axes = ["tp"]}
func.func @open_grid(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = shard.all_reduce %x on @grid grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// GPU:   error: there is no rank 9 in a grid of 2
shard.grid @grid(shape = 2) {llmc.axes = ["tp"], llmc.rank = 9 : i64}
func.func @elsewhere(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = shard.all_reduce %x on @grid grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// GPU:   error: 'shard.shift' is for CPUs alone
shard.grid @grid(shape = 2) {llmc.axes = ["tp"]}
func.func @shift(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = shard.shift %x on @grid grid_axes = [0] shift_axis = 0 offset = 1 rotate : tensor<8xf32> -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// CHECK: error: a shift must go along the one axis of its groups
shard.grid @grid(shape = 2x2) {llmc.axes = ["dp", "tp"]}
func.func @shift(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = shard.shift %x on @grid grid_axes = [0, 1] shift_axis = 1 offset = 1 rotate : tensor<4xf32> -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// CHECK: error: 'root' must be one place, and a known one
shard.grid @grid(shape = 2x2) {llmc.axes = ["dp", "tp"]}
func.func @root(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = shard.broadcast %x on @grid grid_axes = [0, 1] root = [1, 0] : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// CHECK: error: a broadcast must be of a tensor with one open extent at most
shard.grid @grid(shape = 2x2) {llmc.axes = ["dp", "tp"]}
func.func @open(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %y = shard.broadcast %x on @grid grid_axes = [0] root = [1] : (tensor<?x?xf32>) -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// -----

// CHECK: error: a send ends at once
shard.grid @grid(shape = 2x2) {llmc.axes = ["dp", "tp"]}
func.func @send(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = shard.send %x on @grid grid_axes = [0] destination = [1] {llmc.started} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
