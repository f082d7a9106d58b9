// expected-error {{is not here}}
func.func @valid() {
  return
}

// -----

func.func @invalid(%x: tensor<1x2x3x6xf32>, %w: tensor<1x5x6xf32>) -> tensor<1x2x3x6xf32> {
  // expected-error@+1 {{of another kind}}
  %y = "llmc.rotary"(%x, %w, %w) {interleaved = 0 : i64} : (tensor<1x2x3x6xf32>, tensor<1x5x6xf32>, tensor<1x5x6xf32>) -> tensor<1x2x3x6xf32>
  return %y : tensor<1x2x3x6xf32>
}
