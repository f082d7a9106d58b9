// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// A factor for each column; columns of next to nothing count as the least.
// CHECK-LABEL: func.func @columns
// CHECK:         "llmc.plane_metric"(%arg0)
// LOWER-LABEL: func.func @columns
// LOWER:         iterator_types = ["parallel", "parallel", "reduction"]
// LOWER:         iterator_types = ["reduction", "reduction"]
// LOWER:         arith.maximumf
// LOWER:         math.rsqrt
func.func @columns(%w: tensor<8x2x!llmc.q8_0>) -> tensor<64xf32> {
  %m = "llmc.plane_metric"(%w) : (tensor<8x2x!llmc.q8_0>) -> tensor<64xf32>
  return %m : tensor<64xf32>
}

// -----

func.func @length(%w: tensor<8x2x!llmc.q8_0>) {
  // CHECK: error: 'llmc.plane_metric' op result must have dimension 0 = 64, but has 8
  %m = "llmc.plane_metric"(%w) : (tensor<8x2x!llmc.q8_0>) -> tensor<8xf32>
  return
}

// -----

func.func @numbers(%w: tensor<8x64xf32>) {
  // CHECK: error: 'llmc.plane_metric' op operand 'x' must hold blocks, but is tensor<8x64xf32>
  %m = "llmc.plane_metric"(%w) : (tensor<8x64xf32>) -> tensor<64xf32>
  return
}
