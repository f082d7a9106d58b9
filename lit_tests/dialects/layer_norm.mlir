// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// The variance is of what is left once the mean is subtracted.
// CHECK-LABEL: func.func @gpt2
// CHECK:         "llmc.layer_norm"(%arg0, %arg1, %arg2) {epsilon = 1.000000e-05 : f64, operandSegmentSizes = array<i32: 1, 1, 1>}
// LOWER-LABEL: func.func @gpt2
// LOWER:         %[[SUM:.+]] = linalg.generic {{.+}}iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0 :
// LOWER-NEXT:    ^bb0
// LOWER-NEXT:      arith.addf
// LOWER:         %[[SQUARES:.+]] = linalg.generic {{.+}}iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0, %[[SUM]] :
// LOWER:           arith.divf
// LOWER-NEXT:      %[[CENTRED:.+]] = arith.subf
// LOWER-NEXT:      arith.mulf %[[CENTRED]], %[[CENTRED]]
// LOWER-NEXT:      arith.addf
// LOWER:         linalg.generic {{.+}} ins(%arg0, %[[SUM]], %[[SQUARES]], %arg1, %arg2 :
// LOWER:           math.rsqrt
// LOWER:           arith.subf
// LOWER-NEXT:      arith.mulf
// LOWER-NEXT:      arith.mulf
// LOWER-NEXT:      %[[Y:.+]] = arith.addf
// LOWER-NEXT:      linalg.yield %[[Y]]
func.func @gpt2(%x: tensor<1x?x6xf32>, %w: tensor<6xf32>, %b: tensor<6xf32>) -> tensor<1x?x6xf32> {
  %y = "llmc.layer_norm"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, epsilon = 1.0e-5}
     : (tensor<1x?x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<1x?x6xf32>
  return %y : tensor<1x?x6xf32>
}

// Without weight and bias nothing is multiplied or added.
// CHECK-LABEL: func.func @plain
// CHECK:         "llmc.layer_norm"(%arg0) {epsilon = 1.000000e-05 : f64, operandSegmentSizes = array<i32: 1, 0, 0>}
// LOWER-LABEL: func.func @plain
// LOWER:         math.rsqrt
// LOWER:         arith.subf
// LOWER-NEXT:    %[[Y:.+]] = arith.mulf
// LOWER-NEXT:    linalg.yield %[[Y]]
func.func @plain(%x: tensor<3x6xf32>) -> tensor<3x6xf32> {
  %y = "llmc.layer_norm"(%x) {operandSegmentSizes = array<i32: 1, 0, 0>, epsilon = 1.0e-5} : (tensor<3x6xf32>) -> tensor<3x6xf32>
  return %y : tensor<3x6xf32>
}

// -----

func.func @length(%x: tensor<3x6xf32>, %b: tensor<5xf32>) {
  // CHECK: error: 'llmc.layer_norm' op operand 'bias' must have its length = 6, but has 5
  %y = "llmc.layer_norm"(%x, %b) {operandSegmentSizes = array<i32: 1, 0, 1>, epsilon = 1.0e-5} : (tensor<3x6xf32>, tensor<5xf32>) -> tensor<3x6xf32>
  return
}

// -----

func.func @element(%x: tensor<3x6xf32>, %w: tensor<6xf16>) {
  // CHECK: error: 'llmc.layer_norm' op operand 'weight' must hold f32, but is tensor<6xf16>
  %y = "llmc.layer_norm"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, epsilon = 1.0e-5} : (tensor<3x6xf32>, tensor<6xf16>) -> tensor<3x6xf32>
  return
}

// -----

func.func @result(%x: tensor<3x6xf32>) {
  // CHECK: error: 'llmc.layer_norm' op result must be tensor<3x6xf32> as 'x' is
  %y = "llmc.layer_norm"(%x) {operandSegmentSizes = array<i32: 1, 0, 0>, epsilon = 1.0e-5} : (tensor<3x6xf32>) -> tensor<?x6xf32>
  return
}

// -----

func.func @epsilon(%x: tensor<3x6xf32>) {
  // CHECK: error: 'llmc.layer_norm' op attribute 'epsilon' must not be negative
  %y = "llmc.layer_norm"(%x) {operandSegmentSizes = array<i32: 1, 0, 0>, epsilon = -1.0e-5} : (tensor<3x6xf32>) -> tensor<3x6xf32>
  return
}

// -----

func.func @width(%x: tensor<3x?xf32>) {
  // CHECK: error: 'llmc.layer_norm' op operand 'x' must be static in dimension 1, but is tensor<3x?xf32>
  %y = "llmc.layer_norm"(%x) {operandSegmentSizes = array<i32: 1, 0, 0>, epsilon = 1.0e-5} : (tensor<3x?xf32>) -> tensor<3x?xf32>
  return
}

// -----

func.func @room(%x: tensor<1x70000xf16>) {
  // CHECK: error: 'llmc.layer_norm' op operand 'x' must have a last dimension of at most 65504, but has 70000
  %y = "llmc.layer_norm"(%x) {operandSegmentSizes = array<i32: 1, 0, 0>, epsilon = 1.0e-5} : (tensor<1x70000xf16>) -> tensor<1x70000xf16>
  return
}
