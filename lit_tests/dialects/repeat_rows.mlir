// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// The first rows come once more at the end.
// CHECK-LABEL: func.func @floats
// CHECK:         "llmc.repeat_rows"(%arg0)
// LOWER-LABEL: func.func @floats
// LOWER:         %[[AGAIN:.+]] = tensor.extract_slice %arg0[0, 0] [3, 4] [1, 1]
// LOWER:         tensor.concat dim(0) %arg0, %[[AGAIN]] : (tensor<5x4xf32>, tensor<3x4xf32>) -> tensor<8x4xf32>
func.func @floats(%w: tensor<5x4xf32>) -> tensor<8x4xf32> {
  %r = "llmc.repeat_rows"(%w) : (tensor<5x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// -----

// CHECK-LABEL: func.func @blocks
// LOWER-LABEL: func.func @blocks
// LOWER:         tensor.concat dim(0) {{.+}} -> tensor<8x2x!llmc.q8_0>
func.func @blocks(%w: tensor<5x2x!llmc.q8_0>) -> tensor<8x2x!llmc.q8_0> {
  %r = "llmc.repeat_rows"(%w) : (tensor<5x2x!llmc.q8_0>) -> tensor<8x2x!llmc.q8_0>
  return %r : tensor<8x2x!llmc.q8_0>
}

// -----

func.func @columns(%w: tensor<5x4xf32>) {
  // CHECK: error: 'llmc.repeat_rows' op result must have dimension 1 = 4, but has 3
  %r = "llmc.repeat_rows"(%w) : (tensor<5x4xf32>) -> tensor<8x3xf32>
  return
}

// -----

func.func @other(%w: tensor<5x4xf32>) {
  // CHECK: error: 'llmc.repeat_rows' op result must hold what 'x' holds, but is tensor<8x4xf16>
  %r = "llmc.repeat_rows"(%w) : (tensor<5x4xf32>) -> tensor<8x4xf16>
  return
}

// -----

func.func @many(%w: tensor<5x4xf32>) {
  // CHECK: error: 'llmc.repeat_rows' op result must have from 5 to 10 rows, but is tensor<11x4xf32>
  %r = "llmc.repeat_rows"(%w) : (tensor<5x4xf32>) -> tensor<11x4xf32>
  return
}

// -----

func.func @open(%w: tensor<?x4xf32>) {
  // CHECK: error: 'llmc.repeat_rows' op operand 'x' must be static in dimension 0, but is tensor<?x4xf32>
  %r = "llmc.repeat_rows"(%w) : (tensor<?x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @no_columns(%w: tensor<4x0xf32>) {
  // CHECK: error: 'llmc.repeat_rows' op operand 'x' must not be empty, but is tensor<4x0xf32>
  %r = "llmc.repeat_rows"(%w) : (tensor<4x0xf32>) -> tensor<6x0xf32>
  return
}
