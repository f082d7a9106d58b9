// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @prefill
// CHECK-NEXT:    "llmc.grouped_expert_linear"(%arg0, %arg1, %arg2) : (tensor<?x6xf32>, tensor<9xi32>, tensor<8x2x6x4xf32>) -> tensor<?x7xf32>
//
// How many groups begin at a row or before says its expert, and that its matrix.
// LOWER-LABEL: func.func @prefill
// LOWER:         %[[EXPERT:.+]] = linalg.generic {{.+}} ins(%arg1 : tensor<9xi32>) outs(%{{.+}} : tensor<?xi64>)
// LOWER:         %[[CHOSEN:.+]] = tensor.expand_shape %[[EXPERT]]
// LOWER:         linalg.generic {{.+}} ins(%arg0, %[[CHOSEN]] :
// LOWER:           tensor.extract %arg2
func.func @prefill(%x: tensor<?x6xf32>, %first: tensor<9xi32>, %w: tensor<8x2x6x4xf32>) -> tensor<?x7xf32> {
  %y = "llmc.grouped_expert_linear"(%x, %first, %w) : (tensor<?x6xf32>, tensor<9xi32>, tensor<8x2x6x4xf32>) -> tensor<?x7xf32>
  return %y : tensor<?x7xf32>
}

// -----

func.func @experts(%x: tensor<?x6xf32>, %first: tensor<8xi32>, %w: tensor<8x2x6x4xf32>) {
  // CHECK: error: 'llmc.grouped_expert_linear' op operand 'first' must have its length = 9, but has 8
  %y = "llmc.grouped_expert_linear"(%x, %first, %w) : (tensor<?x6xf32>, tensor<8xi32>, tensor<8x2x6x4xf32>) -> tensor<?x7xf32>
  return
}

// -----

func.func @rows(%x: tensor<3x6xf32>, %first: tensor<9xi32>, %w: tensor<8x2x6x4xf32>) {
  // CHECK: error: 'llmc.grouped_expert_linear' op result must have dimension 0 = 3, but has 6
  %y = "llmc.grouped_expert_linear"(%x, %first, %w) : (tensor<3x6xf32>, tensor<9xi32>, tensor<8x2x6x4xf32>) -> tensor<6x7xf32>
  return
}

// -----

func.func @width(%x: tensor<3x5xf32>, %first: tensor<9xi32>, %w: tensor<8x2x6x4xf32>) {
  // CHECK: error: 'llmc.grouped_expert_linear' op operand 'x' must have its last dimension = 6, but has 5
  %y = "llmc.grouped_expert_linear"(%x, %first, %w) : (tensor<3x5xf32>, tensor<9xi32>, tensor<8x2x6x4xf32>) -> tensor<3x7xf32>
  return
}

// -----

func.func @element(%x: tensor<3x6xf32>, %first: tensor<9xf32>, %w: tensor<8x2x6x4xf32>) {
  // CHECK: error: 'llmc.grouped_expert_linear' op operand 'first' must hold integers
  %y = "llmc.grouped_expert_linear"(%x, %first, %w) : (tensor<3x6xf32>, tensor<9xf32>, tensor<8x2x6x4xf32>) -> tensor<3x7xf32>
  return
}
