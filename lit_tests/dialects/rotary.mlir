// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @whole
// CHECK:         "llmc.rotary"(%arg0, %arg1, %arg2)
//
// One pass over the data: each pair of channels is turned, and nothing is concatenated.
// LOWER-LABEL: func.func @whole
// LOWER:         %[[PAIRS:.+]] = tensor.expand_shape %arg0 {{.+}} into tensor<1x3x?x2x4xf32>
// LOWER:         %[[TURNED:.+]] = linalg.generic {{.+}} ins(%[[PAIRS]],
// LOWER:           arith.negf
// LOWER:           arith.addf
// LOWER:         %[[Y:.+]] = tensor.collapse_shape %[[TURNED]]
// LOWER:         return %[[Y]]
func.func @whole(%x: tensor<1x3x?x8xf32>, %cos: tensor<1x?x8xf32>, %sin: tensor<1x?x8xf32>) -> tensor<1x3x?x8xf32> {
  %y = "llmc.rotary"(%x, %cos, %sin) {interleaved = 0 : i64}
     : (tensor<1x3x?x8xf32>, tensor<1x?x8xf32>, tensor<1x?x8xf32>) -> tensor<1x3x?x8xf32>
  return %y : tensor<1x3x?x8xf32>
}

// So are channels side by side.
// CHECK-LABEL: func.func @interleaved
// LOWER-LABEL: func.func @interleaved
// LOWER:         %[[PAIRS:.+]] = tensor.expand_shape %arg0 {{.+}} into tensor<1x3x?x4x2xf32>
// LOWER:         %[[TURNED:.+]] = linalg.generic {{.+}} ins(%[[PAIRS]],
// LOWER:         tensor.collapse_shape %[[TURNED]]
func.func @interleaved(%x: tensor<1x3x?x8xf32>, %cos: tensor<1x?x8xf32>, %sin: tensor<1x?x8xf32>) -> tensor<1x3x?x8xf32> {
  %y = "llmc.rotary"(%x, %cos, %sin) {interleaved = 1 : i64}
     : (tensor<1x3x?x8xf32>, tensor<1x?x8xf32>, tensor<1x?x8xf32>) -> tensor<1x3x?x8xf32>
  return %y : tensor<1x3x?x8xf32>
}

// The channels behind those that are rotated stay as they are.
// CHECK-LABEL: func.func @partial
// LOWER-LABEL: func.func @partial
// LOWER:         tensor.extract_slice %arg0[0, 0, 0, 0] [5, 3, 7, 4]
// LOWER:         linalg.generic
// LOWER:         %[[REST:.+]] = tensor.extract_slice %arg0[0, 0, 0, 4] [5, 3, 7, 4]
// LOWER:         tensor.concat dim(3) %{{.+}}, %[[REST]]
func.func @partial(%x: tensor<5x3x7x8xf32>, %cos: tensor<5x7x4xf32>, %sin: tensor<5x7x4xf32>) -> tensor<5x3x7x8xf32> {
  %y = "llmc.rotary"(%x, %cos, %sin) {interleaved = 0 : i64}
     : (tensor<5x3x7x8xf32>, tensor<5x7x4xf32>, tensor<5x7x4xf32>) -> tensor<5x3x7x8xf32>
  return %y : tensor<5x3x7x8xf32>
}

// -----

func.func @batch(%x: tensor<5x3x7x8xf32>, %t: tensor<2x7x8xf32>) {
  // CHECK: error: 'llmc.rotary' op operand 'cos' must have its batch = 5, but has 2
  %y = "llmc.rotary"(%x, %t, %t) {interleaved = 0 : i64} : (tensor<5x3x7x8xf32>, tensor<2x7x8xf32>, tensor<2x7x8xf32>) -> tensor<5x3x7x8xf32>
  return
}

// -----

func.func @tokens(%x: tensor<1x3x7x8xf32>, %t: tensor<1x7x8xf32>, %u: tensor<1x6x8xf32>) {
  // CHECK: error: 'llmc.rotary' op operand 'sin' must have its tokens = 7, but has 6
  %y = "llmc.rotary"(%x, %t, %u) {interleaved = 0 : i64} : (tensor<1x3x7x8xf32>, tensor<1x7x8xf32>, tensor<1x6x8xf32>) -> tensor<1x3x7x8xf32>
  return
}

// -----

func.func @odd(%x: tensor<1x3x7x8xf32>, %t: tensor<1x7x5xf32>) {
  // CHECK: error: 'llmc.rotary' op operand 'cos' must have its last dimension = a multiple of 2, but has 5
  %y = "llmc.rotary"(%x, %t, %t) {interleaved = 0 : i64} : (tensor<1x3x7x8xf32>, tensor<1x7x5xf32>, tensor<1x7x5xf32>) -> tensor<1x3x7x8xf32>
  return
}

// -----

func.func @channels(%x: tensor<1x3x7x8xf32>, %t: tensor<1x7x10xf32>) {
  // CHECK: error: 'llmc.rotary' op operand 'cos' must have a last dimension of at most 8, but has 10
  %y = "llmc.rotary"(%x, %t, %t) {interleaved = 0 : i64} : (tensor<1x3x7x8xf32>, tensor<1x7x10xf32>, tensor<1x7x10xf32>) -> tensor<1x3x7x8xf32>
  return
}

// -----

func.func @rank(%x: tensor<3x7x8xf32>, %cos: tensor<1x7x8xf32>, %sin: tensor<1x7x8xf32>) {
  // CHECK: error: 'llmc.rotary' op operand 'x' must have rank 4, but is tensor<3x7x8xf32>
  %y = "llmc.rotary"(%x, %cos, %sin) {interleaved = 0 : i64} : (tensor<3x7x8xf32>, tensor<1x7x8xf32>, tensor<1x7x8xf32>) -> tensor<1x3x7x8xf32>
  return
}

// -----

func.func @element(%x: tensor<1x3x7x8xf32>, %cos: tensor<1x7x8xf16>, %sin: tensor<1x7x8xf32>) {
  // CHECK: error: 'llmc.rotary' op operand 'cos' must hold f32, but is tensor<1x7x8xf16>
  %y = "llmc.rotary"(%x, %cos, %sin) {interleaved = 0 : i64} : (tensor<1x3x7x8xf32>, tensor<1x7x8xf16>, tensor<1x7x8xf32>) -> tensor<1x3x7x8xf32>
  return
}

// -----

func.func @open_width(%x: tensor<1x3x7x8xf32>, %cos: tensor<1x7x8xf32>, %sin: tensor<1x7x?xf32>) {
  // CHECK: error: 'llmc.rotary' op operand 'sin' must be static in dimension 2, but is tensor<1x7x?xf32>
  %y = "llmc.rotary"(%x, %cos, %sin) {interleaved = 0 : i64} : (tensor<1x3x7x8xf32>, tensor<1x7x8xf32>, tensor<1x7x?xf32>) -> tensor<1x3x7x8xf32>
  return
}

// -----

func.func @tables(%x: tensor<1x3x7x8xf32>, %cos: tensor<1x7x8xf32>, %sin: tensor<1x7x4xf32>) {
  // CHECK: error: 'llmc.rotary' op operand 'sin' must be tensor<1x7x8xf32> as 'cos' is, but is tensor<1x7x4xf32>
  %y = "llmc.rotary"(%x, %cos, %sin) {interleaved = 0 : i64} : (tensor<1x3x7x8xf32>, tensor<1x7x8xf32>, tensor<1x7x4xf32>) -> tensor<1x3x7x8xf32>
  return
}

// -----

func.func @result(%x: tensor<1x3x7x8xf32>, %cos: tensor<1x7x8xf32>, %sin: tensor<1x7x8xf32>) {
  // CHECK: error: 'llmc.rotary' op result must be tensor<1x3x7x8xf32> as 'x' is
  %y = "llmc.rotary"(%x, %cos, %sin) {interleaved = 0 : i64} : (tensor<1x3x7x8xf32>, tensor<1x7x8xf32>, tensor<1x7x8xf32>) -> tensor<1x3x?x8xf32>
  return
}

// -----

func.func @flag(%x: tensor<1x3x7x8xf32>, %cos: tensor<1x7x8xf32>, %sin: tensor<1x7x8xf32>) {
  // CHECK: error: 'llmc.rotary' op attribute 'interleaved' must be 0 or 1, but is 2
  %y = "llmc.rotary"(%x, %cos, %sin) {interleaved = 2 : i64} : (tensor<1x3x7x8xf32>, tensor<1x7x8xf32>, tensor<1x7x8xf32>) -> tensor<1x3x7x8xf32>
  return
}
