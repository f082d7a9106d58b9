// Read by ../locations.mlir, which knows the lines.

func.func @invalid(%x: tensor<1x2x3x6xf32>, %w: tensor<1x5x6xf32>) {
  %y = "llmc.rotary"(%x, %w, %w) {interleaved = 0 : i64} : (tensor<1x2x3x6xf32>, tensor<1x5x6xf32>, tensor<1x5x6xf32>) -> tensor<1x2x3x6xf32>
  return
}
// -----
func.func @valid() {
  return
}

// -----

func.func @unfinished( {
