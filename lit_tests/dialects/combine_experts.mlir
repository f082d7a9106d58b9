// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @combine
// CHECK-NEXT:    "llmc.combine_experts"(%arg0, %arg1)
//
// LOWER-LABEL: func.func @combine
// LOWER:         %[[ROWS:.+]] = tensor.expand_shape %arg0 {{.+}} into tensor<?x2x6xf32>
// LOWER:         linalg.generic {{.+}} ins(%[[ROWS]], %arg1 :
// LOWER:           arith.mulf
// LOWER:           arith.addf
func.func @combine(%y: tensor<?x6xf32>, %w: tensor<?x2xf32>) -> tensor<?x6xf32> {
  %sum = "llmc.combine_experts"(%y, %w) : (tensor<?x6xf32>, tensor<?x2xf32>) -> tensor<?x6xf32>
  return %sum : tensor<?x6xf32>
}

// -----

func.func @rows(%y: tensor<7x6xf32>, %w: tensor<3x2xf32>) {
  // CHECK: error: 'llmc.combine_experts' op operand 'y' must have dimension 0 = 6, but has 7
  %sum = "llmc.combine_experts"(%y, %w) : (tensor<7x6xf32>, tensor<3x2xf32>) -> tensor<3x6xf32>
  return
}

// -----

func.func @columns(%y: tensor<6x6xf32>, %w: tensor<3x2xf32>) {
  // CHECK: error: 'llmc.combine_experts' op result must have dimension 1 = 6, but has 5
  %sum = "llmc.combine_experts"(%y, %w) : (tensor<6x6xf32>, tensor<3x2xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @element(%y: tensor<6x6xf32>, %w: tensor<3x2xf16>) {
  // CHECK: error: 'llmc.combine_experts' op operand 'weights' must hold f32, but is tensor<3x2xf16>
  %sum = "llmc.combine_experts"(%y, %w) : (tensor<6x6xf32>, tensor<3x2xf16>) -> tensor<3x6xf32>
  return
}

// -----

func.func @result(%y: tensor<8x256xf32>, %w: tensor<?x8xf32>) {
  // CHECK: error: 'llmc.combine_experts' op operand 'y' must have dimension 0 = 16, but has 8
  %sum = "llmc.combine_experts"(%y, %w) : (tensor<8x256xf32>, tensor<?x8xf32>) -> tensor<2x256xf32>
  return
}
