// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @prefill
// CHECK-NEXT:    "llmc.grouped_quantized_expert_linear"(%arg0, %arg1, %arg2) {format = "q4_0"}
//
// How many groups begin at a row or before says its expert.
// LOWER-LABEL: func.func @prefill
// LOWER:         %[[EXPERT:.+]] = linalg.generic {{.+}} ins(%arg1 : tensor<9xi32>) outs(%{{.+}} : tensor<?xi64>)
// LOWER:           arith.cmpi sle
// LOWER:         linalg.generic {{.+}} ins(%[[EXPERT]] : tensor<?xi64>) outs(%{{.+}} : tensor<?x2x2x72xi8>)
// LOWER:           tensor.extract %arg2
func.func @prefill(%x: tensor<?x64xf32>, %first: tensor<9xi32>, %w: tensor<8x2x2x72xi8>) -> tensor<?x7xf32> {
  %y = "llmc.grouped_quantized_expert_linear"(%x, %first, %w) {format = "q4_0"}
     : (tensor<?x64xf32>, tensor<9xi32>, tensor<8x2x2x72xi8>) -> tensor<?x7xf32>
  return %y : tensor<?x7xf32>
}

// -----

func.func @experts(%x: tensor<?x64xf32>, %first: tensor<8xi32>, %w: tensor<8x2x2x72xi8>) {
  // CHECK: error: 'llmc.grouped_quantized_expert_linear' op operand 'first' must have its length = 9, but has 8
  %y = "llmc.grouped_quantized_expert_linear"(%x, %first, %w) {format = "q4_0"}
     : (tensor<?x64xf32>, tensor<8xi32>, tensor<8x2x2x72xi8>) -> tensor<?x7xf32>
  return
}

// -----

func.func @rows(%x: tensor<5x64xf32>, %first: tensor<9xi32>, %w: tensor<8x2x2x72xi8>) {
  // CHECK: error: 'llmc.grouped_quantized_expert_linear' op result must have dimension 0 = 5, but has 6
  %y = "llmc.grouped_quantized_expert_linear"(%x, %first, %w) {format = "q4_0"}
     : (tensor<5x64xf32>, tensor<9xi32>, tensor<8x2x2x72xi8>) -> tensor<6x7xf32>
  return
}
