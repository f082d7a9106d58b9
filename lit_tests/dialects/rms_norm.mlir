// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @llama
// CHECK:         "llmc.rms_norm"(%arg0, %arg1) {epsilon = 1.000000e-05 : f64, offset = 0.000000e+00 : f64, operandSegmentSizes = array<i32: 1, 1>}
// LOWER-LABEL: func.func @llama
// LOWER:         %[[SQUARES:.+]] = linalg.generic {{.+}}iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0 :
// LOWER:           arith.mulf
// LOWER-NEXT:      arith.addf
// LOWER:         linalg.generic {{.+}} ins(%arg0, %[[SQUARES]], %arg1 :
// LOWER:           arith.divf
// LOWER:           math.rsqrt
// LOWER-NOT:       arith.addf
// LOWER:           linalg.yield
func.func @llama(%x: tensor<1x?x6xf32>, %w: tensor<6xf32>) -> tensor<1x?x6xf32> {
  %y = "llmc.rms_norm"(%x, %w) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5, offset = 0.0}
     : (tensor<1x?x6xf32>, tensor<6xf32>) -> tensor<1x?x6xf32>
  return %y : tensor<1x?x6xf32>
}

// Without a weight nothing is multiplied.
// CHECK-LABEL: func.func @plain
// CHECK:         "llmc.rms_norm"(%arg0) {epsilon = 1.000000e-05 : f64, offset = 0.000000e+00 : f64, operandSegmentSizes = array<i32: 1, 0>}
// LOWER-LABEL: func.func @plain
// LOWER:         linalg.generic
// LOWER:         linalg.generic {{.+}} ins(%arg0, %{{[^ ]+}} :
// LOWER:           math.rsqrt
// LOWER-NEXT:      %[[Y:.+]] = arith.mulf
// LOWER-NEXT:      linalg.yield %[[Y]]
func.func @plain(%x: tensor<1x?x6xf32>) -> tensor<1x?x6xf32> {
  %y = "llmc.rms_norm"(%x) {operandSegmentSizes = array<i32: 1, 0>, epsilon = 1.0e-5, offset = 0.0}
     : (tensor<1x?x6xf32>) -> tensor<1x?x6xf32>
  return %y : tensor<1x?x6xf32>
}

// The offset is added to the weight.
// CHECK-LABEL: func.func @gemma
// CHECK:         offset = 1.000000e+00 : f64
// LOWER-LABEL: func.func @gemma
// LOWER:         math.rsqrt
// LOWER:         arith.addf %{{.+}}, %cst{{.*}} : f32
// LOWER:         linalg.yield
func.func @gemma(%x: tensor<3x6xf32>, %w: tensor<6xf32>) -> tensor<3x6xf32> {
  %y = "llmc.rms_norm"(%x, %w) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-6, offset = 1.0} : (tensor<3x6xf32>, tensor<6xf32>) -> tensor<3x6xf32>
  return %y : tensor<3x6xf32>
}

// -----

func.func @length(%x: tensor<3x6xf32>, %w: tensor<5xf32>) {
  // CHECK: error: 'llmc.rms_norm' op operand 'weight' must have its length = 6, but has 5
  %y = "llmc.rms_norm"(%x, %w) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5, offset = 0.0} : (tensor<3x6xf32>, tensor<5xf32>) -> tensor<3x6xf32>
  return
}

// -----

func.func @element(%x: tensor<3x6xf32>, %w: tensor<6xf16>) {
  // CHECK: error: 'llmc.rms_norm' op operand 'weight' must hold f32, but is tensor<6xf16>
  %y = "llmc.rms_norm"(%x, %w) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5, offset = 0.0} : (tensor<3x6xf32>, tensor<6xf16>) -> tensor<3x6xf32>
  return
}

// -----

func.func @result(%x: tensor<3x6xf32>, %w: tensor<6xf32>) {
  // CHECK: error: 'llmc.rms_norm' op result must be tensor<3x6xf32> as 'x' is
  %y = "llmc.rms_norm"(%x, %w) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5, offset = 0.0} : (tensor<3x6xf32>, tensor<6xf32>) -> tensor<?x6xf32>
  return
}

// -----

func.func @epsilon(%x: tensor<3x6xf32>, %w: tensor<6xf32>) {
  // CHECK: error: 'llmc.rms_norm' op attribute 'epsilon' must not be negative
  %y = "llmc.rms_norm"(%x, %w) {operandSegmentSizes = array<i32: 1, 1>, epsilon = -1.0e-5, offset = 0.0} : (tensor<3x6xf32>, tensor<6xf32>) -> tensor<3x6xf32>
  return
}

// -----

func.func @offset(%x: tensor<3x6xf32>) {
  // CHECK: error: 'llmc.rms_norm' op attribute 'offset' must be 0 without a weight
  %y = "llmc.rms_norm"(%x) {operandSegmentSizes = array<i32: 1, 0>, epsilon = 1.0e-5, offset = 1.0} : (tensor<3x6xf32>) -> tensor<3x6xf32>
  return
}

// -----

func.func @width(%x: tensor<3x?xf32>) {
  // CHECK: error: 'llmc.rms_norm' op operand 'x' must be static in dimension 1, but is tensor<3x?xf32>
  %y = "llmc.rms_norm"(%x) {operandSegmentSizes = array<i32: 1, 0>, epsilon = 1.0e-5, offset = 0.0} : (tensor<3x?xf32>) -> tensor<3x?xf32>
  return
}

// -----

func.func @room(%x: tensor<1x70000xf16>) {
  // CHECK: error: 'llmc.rms_norm' op operand 'x' must have a last dimension of at most 65504, but has 70000
  %y = "llmc.rms_norm"(%x) {operandSegmentSizes = array<i32: 1, 0>, epsilon = 1.0e-5, offset = 0.0} : (tensor<1x70000xf16>) -> tensor<1x70000xf16>
  return
}

// -----

func.func @room_by_weight(%x: tensor<1x?xf16>, %w: tensor<70000xf16>) {
  // CHECK: error: 'llmc.rms_norm' op operand 'weight' must have a last dimension of at most 65504, but has 70000
  %y = "llmc.rms_norm"(%x, %w) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5, offset = 0.0} : (tensor<1x?xf16>, tensor<70000xf16>) -> tensor<1x?xf16>
  return
}
