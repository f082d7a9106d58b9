// Read by ../llmc-opt.mlir, which knows the lines.

func.func @invalid(%x: tensor<3x6xf32>, %w: tensor<5xf32>) {
  %y = "llmc.rms_norm"(%x, %w) {epsilon = 1.0e-5, offset = 0.0} : (tensor<3x6xf32>, tensor<5xf32>) -> tensor<3x6xf32>
  return
}
// -----
func.func @valid() {
  return
}

// -----

func.func @unfinished( {
