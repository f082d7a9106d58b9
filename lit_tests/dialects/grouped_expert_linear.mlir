// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @prefill
// CHECK-NEXT:    "llmc.grouped_expert_linear"(%arg0, %arg1, %arg2, %arg3) {tile = 4 : i64, top_k = 2 : i64}
//
// Each row's place in the order says its group, and that its matrix.
// LOWER-LABEL: func.func @prefill
// LOWER:         %[[PLACE:.+]] = linalg.generic {{.+}} ins(%arg1 : tensor<?xi32>)
// LOWER:         %[[EXPERT:.+]] = linalg.generic {{.+}} ins(%[[PLACE]], %arg2 : tensor<?xi32>, tensor<9xi32>)
// LOWER:         %[[CHOSEN:.+]] = tensor.expand_shape %[[EXPERT]]
// LOWER:         linalg.generic {{.+}} ins(%arg0, %[[CHOSEN]] :
// LOWER:           tensor.extract %arg3
func.func @prefill(%x: tensor<?x6xf32>, %order: tensor<?xi32>, %first: tensor<9xi32>, %w: tensor<8x2x6x4xf32>) -> tensor<?x7xf32> {
  %y = "llmc.grouped_expert_linear"(%x, %order, %first, %w) {tile = 4 : i64, top_k = 2 : i64}
     : (tensor<?x6xf32>, tensor<?xi32>, tensor<9xi32>, tensor<8x2x6x4xf32>) -> tensor<?x7xf32>
  return %y : tensor<?x7xf32>
}

// -----

func.func @experts(%x: tensor<?x6xf32>, %order: tensor<?xi32>, %first: tensor<8xi32>, %w: tensor<8x2x6x4xf32>) {
  // CHECK: error: 'llmc.grouped_expert_linear' op operand 'first' must have its length = 9, but has 8
  %y = "llmc.grouped_expert_linear"(%x, %order, %first, %w) {tile = 4 : i64, top_k = 2 : i64}
     : (tensor<?x6xf32>, tensor<?xi32>, tensor<8xi32>, tensor<8x2x6x4xf32>) -> tensor<?x7xf32>
  return
}

// -----

func.func @rows(%x: tensor<3x6xf32>, %order: tensor<3xi32>, %first: tensor<9xi32>, %w: tensor<8x2x6x4xf32>) {
  // CHECK: error: 'llmc.grouped_expert_linear' op operand 'order' must have its length = 6, but has 3
  %y = "llmc.grouped_expert_linear"(%x, %order, %first, %w) {tile = 4 : i64, top_k = 2 : i64}
     : (tensor<3x6xf32>, tensor<3xi32>, tensor<9xi32>, tensor<8x2x6x4xf32>) -> tensor<6x7xf32>
  return
}

// -----

func.func @tile(%x: tensor<3x6xf32>, %order: tensor<6xi32>, %first: tensor<9xi32>, %w: tensor<8x2x6x4xf32>) {
  // CHECK: error: 'llmc.grouped_expert_linear' op attribute 'tile' must be from 1 to 2147483647, but is 0
  %y = "llmc.grouped_expert_linear"(%x, %order, %first, %w) {tile = 0 : i64, top_k = 2 : i64}
     : (tensor<3x6xf32>, tensor<6xi32>, tensor<9xi32>, tensor<8x2x6x4xf32>) -> tensor<6x7xf32>
  return
}
