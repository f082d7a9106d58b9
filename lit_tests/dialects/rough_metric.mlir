// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// A factor for each column; columns of next to nothing count as the least.
// CHECK-LABEL: func.func @columns
// CHECK:         "llmc.rough_metric"(%arg0)
// LOWER-LABEL: func.func @columns
// LOWER:         iterator_types = ["parallel", "reduction"]
// LOWER:         iterator_types = ["reduction"]
// LOWER:         arith.maximumf
// LOWER:         math.rsqrt
func.func @columns(%w: tensor<8x2x!llmc.q8_0>) -> tensor<64xf32> {
  %m = "llmc.rough_metric"(%w) : (tensor<8x2x!llmc.q8_0>) -> tensor<64xf32>
  return %m : tensor<64xf32>
}

// -----

func.func @length(%w: tensor<8x2x!llmc.q8_0>) {
  // CHECK: error: 'llmc.rough_metric' op result must have dimension 0 = 64, but has 8
  %m = "llmc.rough_metric"(%w) : (tensor<8x2x!llmc.q8_0>) -> tensor<8xf32>
  return
}

// -----

// LOWER-LABEL: func.func @floats
// LOWER:         arith.extf
// LOWER:         math.rsqrt
func.func @floats(%w: tensor<8x64xf16>) -> tensor<64xf32> {
  %m = "llmc.rough_metric"(%w) : (tensor<8x64xf16>) -> tensor<64xf32>
  return %m : tensor<64xf32>
}

// -----

func.func @numbers(%w: tensor<8x64xbf16>) {
  // CHECK: error: 'llmc.rough_metric' op operand 'x' must hold f16 or f32, but is tensor<8x64xbf16>
  %m = "llmc.rough_metric"(%w) : (tensor<8x64xbf16>) -> tensor<64xf32>
  return
}

// -----

func.func @format(%w: tensor<8x2x!llmc.q4_0>) {
  // CHECK: error: 'llmc.rough_metric' op 'x' must hold blocks of q8_0, not of q4_0
  %m = "llmc.rough_metric"(%w) : (tensor<8x2x!llmc.q4_0>) -> tensor<64xf32>
  return
}

// -----

func.func @no_columns(%w: tensor<4x0xf32>) {
  // CHECK: error: 'llmc.rough_metric' op operand 'x' must not be empty, but is tensor<4x0xf32>
  %m = "llmc.rough_metric"(%w) : (tensor<4x0xf32>) -> tensor<0xf32>
  return
}
