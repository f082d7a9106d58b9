// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @combine
// CHECK-NEXT:    "llmc.combine_grouped_experts"(%arg0, %arg1, %arg2)
//
// LOWER-LABEL: func.func @combine
// LOWER:         linalg.generic {{.+}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg2 :
// LOWER:           %[[WHERE:.+]] = tensor.extract %arg1
// LOWER:           %[[ROW:.+]] = arith.index_cast %[[WHERE]]
// LOWER:           tensor.extract %arg0[%[[ROW]],
// LOWER:           arith.mulf
// LOWER:           arith.addf
func.func @combine(%y: tensor<?x6xf32>, %place: tensor<?xi32>, %w: tensor<?x2xf32>) -> tensor<?x6xf32> {
  %sum = "llmc.combine_grouped_experts"(%y, %place, %w) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<?x6xf32>, tensor<?xi32>, tensor<?x2xf32>) -> tensor<?x6xf32>
  return %sum : tensor<?x6xf32>
}

// -----

func.func @rows(%y: tensor<7x6xf32>, %place: tensor<7xi32>, %w: tensor<3x2xf32>) {
  // CHECK: error: 'llmc.combine_grouped_experts' op operand 'y' must have dimension 0 = 6, but has 7
  %sum = "llmc.combine_grouped_experts"(%y, %place, %w) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<7x6xf32>, tensor<7xi32>, tensor<3x2xf32>) -> tensor<3x6xf32>
  return
}

// -----

func.func @places(%y: tensor<6x6xf32>, %place: tensor<5xi32>, %w: tensor<3x2xf32>) {
  // CHECK: error: 'llmc.combine_grouped_experts' op operand 'place' must have its length = 6, but has 5
  %sum = "llmc.combine_grouped_experts"(%y, %place, %w) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<6x6xf32>, tensor<5xi32>, tensor<3x2xf32>) -> tensor<3x6xf32>
  return
}

// -----

func.func @numbers(%y: tensor<6x6xf32>, %place: tensor<6xi64>, %w: tensor<3x2xf32>) {
  // CHECK: error: 'llmc.combine_grouped_experts' op operand 'place' must hold i32, but is tensor<6xi64>
  %sum = "llmc.combine_grouped_experts"(%y, %place, %w) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<6x6xf32>, tensor<6xi64>, tensor<3x2xf32>) -> tensor<3x6xf32>
  return
}

// -----

func.func @residual(%y: tensor<6x6xf32>, %place: tensor<6xi32>, %w: tensor<3x2xf32>, %r: tensor<2x6xf32>) {
  // CHECK: error: 'llmc.combine_grouped_experts' op operand 'residual' must have dimension 0 = 3, but has 2
  %sum = "llmc.combine_grouped_experts"(%y, %place, %w, %r) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (tensor<6x6xf32>, tensor<6xi32>, tensor<3x2xf32>, tensor<2x6xf32>) -> tensor<3x6xf32>
  return
}
