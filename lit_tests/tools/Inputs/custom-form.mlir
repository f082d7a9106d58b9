// Read by ../locations.mlir, which knows the lines: llmc.linear is a word here.
func.func @f(%x: tensor<2x4xf32>) attributes {llmc.linear, text = "llmc.linear"} {
  // llmc.rms_norm
  %y = llmc.rms_norm %x {epsilon = 1.0e-5} : tensor<2x4xf32>
  return
}
