// RUN: llmc-opt %s --split-input-file --verify-diagnostics --lower-collectives

// What ranks have no code for is refused where it stands.
shard.grid @grid(shape = 2x2) {llmc.axes = ["dp", "tp"]}
func.func @shift(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{a shift must go along the one axis of its groups}}
  %y = shard.shift %x on @grid grid_axes = [0, 1] shift_axis = 1 offset = 1 rotate : tensor<4xf32> -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

shard.grid @grid(shape = 2x2) {llmc.axes = ["dp", "tp"]}
func.func @root(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'root' must be one place, and a known one}}
  %y = shard.broadcast %x on @grid grid_axes = [0, 1] root = [1, 0] : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

shard.grid @grid(shape = 2x2) {llmc.axes = ["dp", "tp"]}
func.func @open(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  // expected-error@+1 {{a broadcast must be of a tensor with one open extent at most}}
  %y = shard.broadcast %x on @grid grid_axes = [0] root = [1] : (tensor<?x?xf32>) -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// -----

shard.grid @grid(shape = 2x2) {llmc.axes = ["dp", "tp"]}
func.func @send(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{a send ends at once}}
  %y = shard.send %x on @grid grid_axes = [0] destination = [1] {llmc.started} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
