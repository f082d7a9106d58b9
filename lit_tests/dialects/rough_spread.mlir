// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// The length of each row's low bits over the metric, and something for rounding.
// CHECK-LABEL: func.func @rows
// CHECK:         "llmc.rough_spread"(%arg0, %arg1)
// LOWER-LABEL: func.func @rows
// LOWER:         %[[LOW:.+]] = arith.constant 3 : i8
// LOWER:         arith.andi %{{.+}}, %[[LOW]] : i8
// LOWER:         math.sqrt
func.func @rows(%w: tensor<8x2x!llmc.q8_0>, %m: tensor<64xf32>) -> tensor<8xf32> {
  %s = "llmc.rough_spread"(%w, %m) : (tensor<8x2x!llmc.q8_0>, tensor<64xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// -----

// Of floats what is left out is the difference from what their high bits make.
// LOWER-LABEL: func.func @floats
// LOWER:         %[[HIGH:.+]] = arith.trunci
// LOWER:         arith.extsi %[[HIGH]] : i16 to i32
// LOWER:         arith.subf
func.func @floats(%w: tensor<8x64xf32>, %m: tensor<64xf32>) -> tensor<8xf32> {
  %s = "llmc.rough_spread"(%w, %m) : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// -----

func.func @metric(%w: tensor<8x2x!llmc.q8_0>, %m: tensor<8xf32>) {
  // CHECK: error: 'llmc.rough_spread' op operand 'metric' must have dimension 0 = 64, but has 8
  %s = "llmc.rough_spread"(%w, %m) : (tensor<8x2x!llmc.q8_0>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @length(%w: tensor<8x2x!llmc.q8_0>, %m: tensor<64xf32>) {
  // CHECK: error: 'llmc.rough_spread' op result must have dimension 0 = 8, but has 64
  %s = "llmc.rough_spread"(%w, %m) : (tensor<8x2x!llmc.q8_0>, tensor<64xf32>) -> tensor<64xf32>
  return
}
