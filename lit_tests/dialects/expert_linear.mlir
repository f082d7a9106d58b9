// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @two_of_eight
// CHECK:         "llmc.expert_linear"(%arg0, %arg1, %arg2) {top_k = 2 : i64, transposed = 0 : i64}
//
// The chosen matrix is read where it lies: no copy of it for every row.
// LOWER-LABEL: func.func @two_of_eight
// LOWER-NOT:     linalg.generic
// LOWER:         %[[CHOSEN:.+]] = tensor.expand_shape %arg1 {{.+}} into tensor<?x2xi64>
// LOWER:         linalg.generic {{.+}} ins(%arg0, %[[CHOSEN]] :
// LOWER:           %[[E:.+]] = arith.index_cast %{{.+}} : i64 to index
// LOWER:           %[[W:.+]] = tensor.extract %arg2[%[[E]], %{{.+}}, %{{.+}}] : tensor<8x5x6xf16>
// LOWER:           arith.extf %[[W]]
// LOWER:         tensor.collapse_shape
func.func @two_of_eight(%x: tensor<?x6xf32>, %e: tensor<?xi64>, %w: tensor<8x5x6xf16>) -> tensor<?x5xf32> {
  %y = "llmc.expert_linear"(%x, %e, %w) {top_k = 2 : i64, transposed = 0 : i64}
     : (tensor<?x6xf32>, tensor<?xi64>, tensor<8x5x6xf16>) -> tensor<?x5xf32>
  return %y : tensor<?x5xf32>
}

// -----

func.func @rows(%x: tensor<3x6xf32>, %e: tensor<5xi64>, %w: tensor<8x5x6xf32>) {
  // CHECK: error: 'llmc.expert_linear' op operand 'expert' must have its length = 6, but has 5
  %y = "llmc.expert_linear"(%x, %e, %w) {top_k = 2 : i64, transposed = 0 : i64}
     : (tensor<3x6xf32>, tensor<5xi64>, tensor<8x5x6xf32>) -> tensor<6x5xf32>
  return
}

// -----

func.func @choices(%x: tensor<3x6xf32>, %e: tensor<4xi64>, %w: tensor<8x5x6xf32>) {
  // CHECK: error: 'llmc.expert_linear' op operand 'expert' must have its length = 6, but has 4
  %y = "llmc.expert_linear"(%x, %e, %w) {top_k = 2 : i64, transposed = 0 : i64}
     : (tensor<3x6xf32>, tensor<4xi64>, tensor<8x5x6xf32>) -> tensor<?x5xf32>
  return
}

// -----

func.func @result(%x: tensor<3x6xf32>, %e: tensor<6xi64>, %w: tensor<8x5x6xf32>) {
  // CHECK: error: 'llmc.expert_linear' op result must have dimension 0 = 6, but has 3
  %y = "llmc.expert_linear"(%x, %e, %w) {top_k = 2 : i64, transposed = 0 : i64}
     : (tensor<3x6xf32>, tensor<6xi64>, tensor<8x5x6xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @width(%x: tensor<3x6xf32>, %e: tensor<3xi64>, %w: tensor<8x5x6xf32>) {
  // CHECK: error: 'llmc.expert_linear' op operand 'x' must have its last dimension = 5, but has 6
  %y = "llmc.expert_linear"(%x, %e, %w) {top_k = 1 : i64, transposed = 1 : i64}
     : (tensor<3x6xf32>, tensor<3xi64>, tensor<8x5x6xf32>) -> tensor<3x6xf32>
  return
}

// -----

func.func @floats(%x: tensor<3x6xf32>, %e: tensor<3xf32>, %w: tensor<8x5x6xf32>) {
  // CHECK: error: 'llmc.expert_linear' op operand 'expert' must hold integers
  %y = "llmc.expert_linear"(%x, %e, %w) {top_k = 1 : i64, transposed = 0 : i64}
     : (tensor<3x6xf32>, tensor<3xf32>, tensor<8x5x6xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @transposed(%x: tensor<3x6xf32>, %e: tensor<3xi64>, %w: tensor<8x5x6xf32>) {
  // CHECK: error: 'llmc.expert_linear' op attribute 'transposed' must be 0 or 1, but is 2
  %y = "llmc.expert_linear"(%x, %e, %w) {top_k = 1 : i64, transposed = 2 : i64}
     : (tensor<3x6xf32>, tensor<3xi64>, tensor<8x5x6xf32>) -> tensor<3x5xf32>
  return
}
