// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @plain
// CHECK:         "llmc.attention"(%arg0, %arg1, %arg2) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 5.000000e-01 : f64, softcap = 0.000000e+00 : f64, window = 0 : i64}
//
// Heads are grouped; scores, mask, softmax, mixing.
// LOWER-LABEL: func.func @plain
// LOWER:         %[[Q:.+]] = tensor.expand_shape %arg0 {{.+}} into tensor<1x2x3x?x8xf32>
// LOWER:         %[[SCORES:.+]] = linalg.generic {{.+}} ins(%[[Q]], %arg1 :
// LOWER:         %[[MASKED:.+]] = linalg.generic {{.+}} ins(%[[SCORES]] :
// LOWER-NOT:       math.tanh
// LOWER:           arith.cmpi sle
// LOWER-NOT:       arith.cmpi
// LOWER:           arith.select
// LOWER:         %[[WEIGHTS:.+]] = linalg.softmax dimension(4) ins(%[[MASKED]] :
// LOWER:         %[[MIXED:.+]] = linalg.generic {{.+}} ins(%[[WEIGHTS]], %arg2 :
// LOWER:         tensor.collapse_shape %[[MIXED]] {{.+}} into tensor<1x6x?x4xf32>
func.func @plain(%q: tensor<1x6x?x8xf32>, %k: tensor<1x2x?x8xf32>, %v: tensor<1x2x?x4xf32>) -> tensor<1x6x?x4xf32> {
  %o = "llmc.attention"(%q, %k, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>,
      scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x6x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x4xf32>) -> tensor<1x6x?x4xf32>
  return %o : tensor<1x6x?x4xf32>
}

// CHECK-LABEL: func.func @all_options
// CHECK:         "llmc.attention"(%arg0, %arg1, %arg1, %arg2, %arg3)
// LOWER-LABEL: func.func @all_options
// LOWER:         linalg.generic {{.+}} ins(%{{.+}}, %arg3 :
// LOWER:           math.tanh
// LOWER:           arith.cmpi sle, %{{.+}}, %arg2
// LOWER:           arith.cmpi sgt
// LOWER:           arith.cmpi sge
// LOWER:           arith.select
func.func @all_options(%q: tensor<?x2x1x8xf32>, %k: tensor<?x2x?x8xf32>, %past: index, %start: tensor<?xi64>) -> tensor<?x2x1x8xf32> {
  %o = "llmc.attention"(%q, %k, %k, %past, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>,
      scale = 0.5, window = 3 : i64, softcap = 2.0}
     : (tensor<?x2x1x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, index, tensor<?xi64>) -> tensor<?x2x1x8xf32>
  return %o : tensor<?x2x1x8xf32>
}

// What stands for minus infinity is a number of the element type.
// LOWER-LABEL: func.func @half
// LOWER-DAG:     arith.constant -6.550400e+04 : f16
// LOWER-NOT:     0xFC00 : f16
func.func @half(%q: tensor<1x2x3x8xf16>) -> tensor<1x2x3x8xf16> {
  %o = "llmc.attention"(%q, %q, %q) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x2x3x8xf16>, tensor<1x2x3x8xf16>, tensor<1x2x3x8xf16>) -> tensor<1x2x3x8xf16>
  return %o : tensor<1x2x3x8xf16>
}

// -----

func.func @no_number(%q: tensor<1x2x3x8xf32>) {
  // CHECK: error: 'llmc.attention' op attribute 'scale' must be a finite number of f32, but is nan
  %o = "llmc.attention"(%q, %q, %q) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0x7FF8000000000000 : f64, window = 0 : i64, softcap = 0.0}
     : (tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  return
}

// -----

func.func @no_number_of_half(%q: tensor<1x2x3x8xf16>) {
  // CHECK: error: 'llmc.attention' op attribute 'scale' must be a finite number of f16, but is 100000
  %o = "llmc.attention"(%q, %q, %q) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 1.0e5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x2x3x8xf16>, tensor<1x2x3x8xf16>, tensor<1x2x3x8xf16>) -> tensor<1x2x3x8xf16>
  return
}

// -----

func.func @nearly_zero(%q: tensor<1x2x3x8xf32>) {
  // CHECK: error: 'llmc.attention' op attribute 'softcap' must be 0 or at least 1.1754943508222875e-38, as it is of f32, but is 1e-300
  %o = "llmc.attention"(%q, %q, %q) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 1.0e-300}
     : (tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  return
}

// -----

func.func @narrow_window(%q: tensor<1x2x3x8xf32>) {
  // CHECK: error: 'llmc.attention' op attribute 'window' must be a number of type i64, but is 3 : i8
  %o = "llmc.attention"(%q, %q, %q) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 3 : i8, softcap = 0.0}
     : (tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  return
}

// -----

func.func @heads(%q: tensor<1x5x3x8xf32>, %k: tensor<1x2x3x8xf32>) {
  // CHECK: error: 'llmc.attention' op operand 'query' must have its heads = a multiple of 2, but has 5
  %o = "llmc.attention"(%q, %k, %k) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x5x3x8xf32>, tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>) -> tensor<1x5x3x8xf32>
  return
}

// -----

func.func @key(%q: tensor<1x2x3x8xf32>, %k: tensor<1x2x3x6xf32>) {
  // CHECK: error: 'llmc.attention' op operand 'key' must have its channels = 8, but has 6
  %o = "llmc.attention"(%q, %k, %k) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x2x3x8xf32>, tensor<1x2x3x6xf32>, tensor<1x2x3x6xf32>) -> tensor<1x2x3x6xf32>
  return
}

// -----

func.func @value(%q: tensor<1x2x3x8xf32>, %k: tensor<1x2x3x8xf32>, %v: tensor<1x2x4x8xf32>) {
  // CHECK: error: 'llmc.attention' op operand 'value' must have its tokens = 3, but has 4
  %o = "llmc.attention"(%q, %k, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x3x8xf32>
  return
}

// -----

func.func @start(%q: tensor<2x2x3x8xf32>, %start: tensor<1xi64>) {
  // CHECK: error: 'llmc.attention' op operand 'start' must have its length = 2, but has 1
  %o = "llmc.attention"(%q, %q, %q, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<1xi64>) -> tensor<2x2x3x8xf32>
  return
}

// -----

func.func @result(%q: tensor<2x2x3x8xf32>) {
  // CHECK: error: 'llmc.attention' op result must have dimension 3 = 8, but has 4
  %o = "llmc.attention"(%q, %q, %q) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x4xf32>
  return
}

// -----

func.func @window(%q: tensor<2x2x3x8xf32>) {
  // CHECK: error: 'llmc.attention' op attribute 'window' must be from 0 to 2147483647, but is -1
  %o = "llmc.attention"(%q, %q, %q) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = -1 : i64, softcap = 0.0}
     : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x8xf32>
  return
}

// -----

func.func @segments(%q: tensor<2x2x3x8xf32>) {
  // CHECK: error: 'llmc.attention' op must have 4 operands: 'query', 'key', 'value', 'past', but has 3
  %o = "llmc.attention"(%q, %q, %q) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x8xf32>
  return
}

// -----

func.func @batch(%q: tensor<2x2x3x8xf32>, %k: tensor<1x2x3x8xf32>, %v: tensor<2x2x3x8xf32>) {
  // CHECK: error: 'llmc.attention' op operand 'key' must have its batch = 2, but has 1
  %o = "llmc.attention"(%q, %k, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<2x2x3x8xf32>, tensor<1x2x3x8xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x8xf32>
  return
}

// -----

func.func @value_heads(%q: tensor<2x2x3x8xf32>, %k: tensor<2x2x3x8xf32>, %v: tensor<2x1x3x8xf32>) {
  // CHECK: error: 'llmc.attention' op operand 'value' must have its heads = 2, but has 1
  %o = "llmc.attention"(%q, %k, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x1x3x8xf32>) -> tensor<2x2x3x8xf32>
  return
}

// -----

func.func @no_heads(%q: tensor<2x2x3x8xf32>, %k: tensor<2x0x3x8xf32>, %v: tensor<2x0x3x8xf32>) {
  // CHECK: error: 'llmc.attention' op operand 'key' must not be empty, but is tensor<2x0x3x8xf32>
  %o = "llmc.attention"(%q, %k, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<2x2x3x8xf32>, tensor<2x0x3x8xf32>, tensor<2x0x3x8xf32>) -> tensor<2x2x3x8xf32>
  return
}

// -----

func.func @wide_key(%q: tensor<2x2x3x8xf32>, %k: tensor<2x2x3x8xf64>, %v: tensor<2x2x3x8xf32>) {
  // CHECK: error: 'llmc.attention' op operand 'key' must hold f32 or narrower, but is tensor<2x2x3x8xf64>
  %o = "llmc.attention"(%q, %k, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf64>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x8xf32>
  return
}

// -----

func.func @open_heads(%q: tensor<2x2x3x8xf32>, %k: tensor<2x?x3x8xf32>, %v: tensor<2x2x3x8xf32>) {
  // CHECK: error: 'llmc.attention' op operand 'key' must be static in dimension 1, but is tensor<2x?x3x8xf32>
  %o = "llmc.attention"(%q, %k, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<2x2x3x8xf32>, tensor<2x?x3x8xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x8xf32>
  return
}

// -----

func.func @softcap(%q: tensor<2x2x3x8xf32>, %k: tensor<2x2x3x8xf32>, %v: tensor<2x2x3x8xf32>) {
  // CHECK: error: 'llmc.attention' op attribute 'softcap' must not be negative
  %o = "llmc.attention"(%q, %k, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = -1.0}
     : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x8xf32>
  return
}

// -----

func.func @element(%q: tensor<2x2x3x8xf32>, %k: tensor<2x2x3x8xf32>, %v: tensor<2x2x3x8xf32>) {
  // CHECK: error: 'llmc.attention' op result must hold f32, but is tensor<2x2x3x8xf16>
  %o = "llmc.attention"(%q, %k, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x8xf16>
  return
}
