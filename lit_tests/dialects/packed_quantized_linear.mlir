// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// Integers and scales are taken from their parts of a cell, x is rounded, and a block's products are
// summed in integers; one row of 5 in two panels of 4.
// CHECK-LABEL: func.func @layer
// CHECK:         "llmc.packed_quantized_linear"(%arg0, %arg1, %arg2) {format = "q4_0", operandSegmentSizes = array<i32: 1, 1, 1>}
// LOWER-LABEL: func.func @layer
// LOWER-DAG:     tensor.extract_slice %arg1[0, 0, 8] [2, 2, 64] [1, 1, 1]
// LOWER-DAG:     tensor.extract_slice %arg1[0, 0, 0] [2, 2, 8] [1, 1, 1]
// LOWER:         math.round
// LOWER:         arith.fptosi %{{.+}} : f32 to i8
// LOWER:         arith.muli %{{.+}} : i32
// LOWER-NEXT:    arith.addi %{{.+}} : i32
// LOWER-NEXT:    linalg.yield
// LOWER-NEXT:    -> tensor<?x2x2x4xi32>
// LOWER:         arith.sitofp %{{.+}} : i32 to f32
// LOWER:         tensor.extract_slice %{{.+}} [%{{.+}}, 5] [1, 1]
func.func @layer(%x: tensor<1x?x64xf32>, %w: tensor<2x2x72xi8>, %b: tensor<5xf32>) -> tensor<1x?x5xf32> {
  %y = "llmc.packed_quantized_linear"(%x, %w, %b) {format = "q4_0", operandSegmentSizes = array<i32: 1, 1, 1>}
     : (tensor<1x?x64xf32>, tensor<2x2x72xi8>, tensor<5xf32>) -> tensor<1x?x5xf32>
  return %y : tensor<1x?x5xf32>
}

// A minimum counts once for each sum of activations.
// LOWER-LABEL: func.func @minimum
// LOWER:         arith.extsi %{{.+}} : i8 to i32
// LOWER:         -> tensor<3x2xi32>
func.func @minimum(%x: tensor<3x64xf32>, %w: tensor<1x2x80xi8>) -> tensor<3x4xf32> {
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q4_1", operandSegmentSizes = array<i32: 1, 1, 0>}
     : (tensor<3x64xf32>, tensor<1x2x80xi8>) -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// -----

func.func @unknown(%x: tensor<3x64xf32>, %w: tensor<2x2x72xi8>) {
  // CHECK: error: 'llmc.packed_quantized_linear' op attribute 'format' must be one of q4_0, q4_1, q5_0, q5_1, q6_g16, q8_0, int4_g64, int4_g128, not "q6_0"
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q6_0", operandSegmentSizes = array<i32: 1, 1, 0>}
     : (tensor<3x64xf32>, tensor<2x2x72xi8>) -> tensor<3x5xf32>
  return
}

// -----

func.func @width(%x: tensor<3x96xf32>, %w: tensor<2x2x72xi8>) {
  // CHECK: error: 'llmc.packed_quantized_linear' op operand 'x' must have its last dimension = 64, but has 96
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q4_0", operandSegmentSizes = array<i32: 1, 1, 0>}
     : (tensor<3x96xf32>, tensor<2x2x72xi8>) -> tensor<3x5xf32>
  return
}

// -----

func.func @panels(%x: tensor<3x64xf32>, %w: tensor<3x2x72xi8>) {
  // CHECK: error: 'llmc.packed_quantized_linear' op operand 'weight' must have its panels = 2, but has 3
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q4_0", operandSegmentSizes = array<i32: 1, 1, 0>}
     : (tensor<3x64xf32>, tensor<3x2x72xi8>) -> tensor<3x5xf32>
  return
}

// -----

func.func @cells(%x: tensor<3x64xf32>, %w: tensor<2x2x70xi8>) {
  // CHECK: error: 'llmc.packed_quantized_linear' op operand 'weight' must have cells = a multiple of 18, but has 70
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q4_0", operandSegmentSizes = array<i32: 1, 1, 0>}
     : (tensor<3x64xf32>, tensor<2x2x70xi8>) -> tensor<3x5xf32>
  return
}

// -----

func.func @open(%x: tensor<3x64xf32>, %w: tensor<?x2x72xi8>) {
  // CHECK: error: 'llmc.packed_quantized_linear' op operand 'weight' must be static in dimension 0, but is tensor<?x2x72xi8>
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q4_0", operandSegmentSizes = array<i32: 1, 1, 0>}
     : (tensor<3x64xf32>, tensor<?x2x72xi8>) -> tensor<3x5xf32>
  return
}

// -----

func.func @empty(%x: tensor<3x64xf32>, %w: tensor<2x0x72xi8>) {
  // CHECK: error: 'llmc.packed_quantized_linear' op operand 'weight' must not be empty, but is tensor<2x0x72xi8>
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q4_0", operandSegmentSizes = array<i32: 1, 1, 0>}
     : (tensor<3x64xf32>, tensor<2x0x72xi8>) -> tensor<3x5xf32>
  return
}

// -----

func.func @element(%x: tensor<3x64xf32>, %w: tensor<2x2x72xf32>) {
  // CHECK: error: 'llmc.packed_quantized_linear' op operand 'weight' must hold i8, but is tensor<2x2x72xf32>
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q4_0", operandSegmentSizes = array<i32: 1, 1, 0>}
     : (tensor<3x64xf32>, tensor<2x2x72xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @narrow(%x: tensor<3x64xf16>, %w: tensor<2x2x72xi8>) {
  // CHECK: error: 'llmc.packed_quantized_linear' op operand 'x' must hold f32, but is tensor<3x64xf16>
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q4_0", operandSegmentSizes = array<i32: 1, 1, 0>}
     : (tensor<3x64xf16>, tensor<2x2x72xi8>) -> tensor<3x5xf32>
  return
}

// -----

func.func @bias(%x: tensor<3x64xf32>, %w: tensor<2x2x72xi8>, %b: tensor<4xf32>) {
  // CHECK: error: 'llmc.packed_quantized_linear' op operand 'bias' must have its length = 5, but has 4
  %y = "llmc.packed_quantized_linear"(%x, %w, %b) {format = "q4_0", operandSegmentSizes = array<i32: 1, 1, 1>}
     : (tensor<3x64xf32>, tensor<2x2x72xi8>, tensor<4xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @open_result(%x: tensor<3x64xf32>, %w: tensor<2x2x72xi8>) {
  // CHECK: error: 'llmc.packed_quantized_linear' op result must be static in dimension 1, but is tensor<3x?xf32>
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q4_0", operandSegmentSizes = array<i32: 1, 1, 0>}
     : (tensor<3x64xf32>, tensor<2x2x72xi8>) -> tensor<3x?xf32>
  return
}
