// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @floats
// CHECK-NEXT:    "llmc.embedding"(%arg0, %arg1) : (tensor<1x?xi64>, tensor<9x6xf16>) -> tensor<1x?x6xf32>
// LOWER-LABEL: func.func @floats
// LOWER:         linalg.generic {{.+}} ins(%arg0 :
// LOWER:           %[[ROW:.+]] = arith.index_cast %{{.+}} : i64 to index
// LOWER:           tensor.extract %arg1[%[[ROW]], %{{.+}}] : tensor<9x6xf16>
// LOWER:           arith.extf
func.func @floats(%ids: tensor<1x?xi64>, %table: tensor<9x6xf16>) -> tensor<1x?x6xf32> {
  %y = "llmc.embedding"(%ids, %table) : (tensor<1x?xi64>, tensor<9x6xf16>) -> tensor<1x?x6xf32>
  return %y : tensor<1x?x6xf32>
}

// Only the rows that are named are decoded.
// CHECK-LABEL: func.func @blocks
// LOWER-LABEL: func.func @blocks
// LOWER:         %[[BYTES:.+]] = "llmc.blocks_to_bytes"(%arg1)
// LOWER:         linalg.generic {{.+}} ins(%arg0 : tensor<3xi64>) outs(%{{.+}} : tensor<3x2x34xi8>)
// LOWER:           tensor.extract %[[BYTES]]
func.func @blocks(%ids: tensor<3xi64>, %table: tensor<9x2x!llmc.q8_0>) -> tensor<3x64xf32> {
  %y = "llmc.embedding"(%ids, %table) : (tensor<3xi64>, tensor<9x2x!llmc.q8_0>) -> tensor<3x64xf32>
  return %y : tensor<3x64xf32>
}

// -----

func.func @ids(%ids: tensor<3xf32>, %table: tensor<9x6xf32>) {
  // CHECK: error: 'llmc.embedding' op operand 'ids' must hold integers (i8, i16, i32, i64), but is tensor<3xf32>
  %y = "llmc.embedding"(%ids, %table) : (tensor<3xf32>, tensor<9x6xf32>) -> tensor<3x6xf32>
  return
}

// -----

func.func @width(%ids: tensor<3xi64>, %table: tensor<9x2x!llmc.q8_0>) {
  // CHECK: error: 'llmc.embedding' op result must have its last dimension = 64, but has 68
  %y = "llmc.embedding"(%ids, %table) : (tensor<3xi64>, tensor<9x2x!llmc.q8_0>) -> tensor<3x68xf32>
  return
}

// -----

func.func @rows(%ids: tensor<3xi64>, %table: tensor<9x6xf32>) {
  // CHECK: error: 'llmc.embedding' op result must have dimension 0 = 3, but has 4
  %y = "llmc.embedding"(%ids, %table) : (tensor<3xi64>, tensor<9x6xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @narrowed(%ids: tensor<3xi64>, %table: tensor<9x6xf32>) {
  // CHECK: error: 'llmc.embedding' op operand 'table' must hold f16 or narrower, but is tensor<9x6xf32>
  %y = "llmc.embedding"(%ids, %table) : (tensor<3xi64>, tensor<9x6xf32>) -> tensor<3x6xf16>
  return
}

// -----

func.func @open(%ids: tensor<3xi64>, %table: tensor<?x?xf32>) {
  // CHECK: error: 'llmc.embedding' op operand 'table' must be static in dimension 1, but is tensor<?x?xf32>
  %y = "llmc.embedding"(%ids, %table) : (tensor<3xi64>, tensor<?x?xf32>) -> tensor<3x6xf32>
  return
}
