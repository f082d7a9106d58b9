// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @take
// CHECK-NEXT:    "llmc.take_rows"(%arg0, %arg1)
//
// LOWER-LABEL: func.func @take
// LOWER:         linalg.generic {{.+}} ins(%arg0 : tensor<?xi32>) outs(%{{.+}} : tensor<?x2x32xi8>)
// LOWER:         ^bb0(%[[ID:.+]]: i32,
// LOWER:           %[[ROW:.+]] = arith.index_cast %[[ID]]
// LOWER:           tensor.extract %arg1[%[[ROW]],
func.func @take(%ids: tensor<?xi32>, %x: tensor<?x2x32xi8>) -> tensor<?x2x32xi8> {
  %y = "llmc.take_rows"(%ids, %x) {top_k = 1 : i64} : (tensor<?xi32>, tensor<?x2x32xi8>) -> tensor<?x2x32xi8>
  return %y : tensor<?x2x32xi8>
}

// -----

// LOWER-LABEL: func.func @narrow_ids
// LOWER:         %[[MANY:.+]] = arith.constant 300 : index
// LOWER:         %[[ID:.+]] = arith.index_cast %{{.+}} : i8 to index
// LOWER:         arith.divui %[[ID]], %[[MANY]] : index
func.func @narrow_ids(%ids: tensor<?xi8>, %x: tensor<?x18xf32>) -> tensor<?x18xf32> {
  %y = "llmc.take_rows"(%ids, %x) {top_k = 300 : i64} : (tensor<?xi8>, tensor<?x18xf32>) -> tensor<?x18xf32>
  return %y : tensor<?x18xf32>
}

// -----

func.func @blocks(%ids: tensor<?xi32>, %x: tensor<?x18x!llmc.q8_0>) {
  // CHECK: error: 'llmc.take_rows' op operand 'x' must hold integers or floats, but is tensor<?x18x!llmc.q8_0>
  %y = "llmc.take_rows"(%ids, %x) {top_k = 1 : i64} : (tensor<?xi32>, tensor<?x18x!llmc.q8_0>) -> tensor<?x18x!llmc.q8_0>
  return
}

// -----

func.func @count(%ids: tensor<5xi32>, %x: tensor<3x4xf32>) {
  // CHECK: error: 'llmc.take_rows' op result must have dimension 0 = 5, but has 3
  %y = "llmc.take_rows"(%ids, %x) {top_k = 1 : i64} : (tensor<5xi32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @width(%ids: tensor<5xi32>, %x: tensor<3x4xf32>) {
  // CHECK: error: 'llmc.take_rows' op result must have dimension 1 = 4, but has 3
  %y = "llmc.take_rows"(%ids, %x) {top_k = 1 : i64} : (tensor<5xi32>, tensor<3x4xf32>) -> tensor<5x3xf32>
  return
}

// -----

func.func @element(%ids: tensor<5xi32>, %x: tensor<3x4xf32>) {
  // CHECK: error: 'llmc.take_rows' op result must hold f32, but is tensor<5x4xf16>
  %y = "llmc.take_rows"(%ids, %x) {top_k = 1 : i64} : (tensor<5xi32>, tensor<3x4xf32>) -> tensor<5x4xf16>
  return
}

// -----

func.func @ids(%ids: tensor<5xf32>, %x: tensor<3x4xf32>) {
  // CHECK: error: 'llmc.take_rows' op operand 'ids' must hold integers
  %y = "llmc.take_rows"(%ids, %x) {top_k = 1 : i64} : (tensor<5xf32>, tensor<3x4xf32>) -> tensor<5x4xf32>
  return
}

// -----

func.func @no_row(%ids: tensor<5xi32>, %x: tensor<3x4xf32>) -> tensor<5x4xf32> {
  // CHECK: error: 'llmc.take_rows' op attribute 'top_k'
  %y = "llmc.take_rows"(%ids, %x) {top_k = 0 : i64} : (tensor<5xi32>, tensor<3x4xf32>) -> tensor<5x4xf32>
  return %y : tensor<5x4xf32>
}
