// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @group
// CHECK-NEXT:    "llmc.group_rows"(%arg0) : (tensor<?xi64>) -> (tensor<?xi32>, tensor<17xi32>, tensor<?xi32>)
//
// LOWER-LABEL: func.func @group
// LOWER:         %[[FIRST:.+]] = linalg.generic {{.+}} ins(%arg0 : tensor<?xi64>) outs(%{{.+}} : tensor<17xi32>)
// LOWER:         %[[PLACE:.+]] = linalg.generic {{.+}} ins(%arg0, %arg0 :
// LOWER:         %[[ORDER:.+]] = linalg.generic {{.+}} ins(%[[PLACE]] :
// LOWER:         return %[[ORDER]], %[[FIRST]], %[[PLACE]]
func.func @group(%expert: tensor<?xi64>) -> (tensor<?xi32>, tensor<17xi32>, tensor<?xi32>) {
  %order, %first, %place = "llmc.group_rows"(%expert) : (tensor<?xi64>) -> (tensor<?xi32>, tensor<17xi32>, tensor<?xi32>)
  return %order, %first, %place : tensor<?xi32>, tensor<17xi32>, tensor<?xi32>
}

// -----

func.func @rows(%expert: tensor<6xi64>) {
  // CHECK: error: 'llmc.group_rows' op result 'order' must have its length = 6, but has 5
  %order, %first, %place = "llmc.group_rows"(%expert) : (tensor<6xi64>) -> (tensor<5xi32>, tensor<17xi32>, tensor<6xi32>)
  return
}

// -----

func.func @experts(%expert: tensor<6xi64>) {
  // CHECK: error: 'llmc.group_rows' op result 'first' must be static in dimension 0, but is tensor<?xi32>
  %order, %first, %place = "llmc.group_rows"(%expert) : (tensor<6xi64>) -> (tensor<6xi32>, tensor<?xi32>, tensor<6xi32>)
  return
}

// -----

func.func @floats(%expert: tensor<6xf32>) {
  // CHECK: error: 'llmc.group_rows' op operand 'expert' must hold integers
  %order, %first, %place = "llmc.group_rows"(%expert) : (tensor<6xf32>) -> (tensor<6xi32>, tensor<17xi32>, tensor<6xi32>)
  return
}

// -----

func.func @element(%expert: tensor<6xi64>) {
  // CHECK: error: 'llmc.group_rows' op result 'order' must hold i32, but is tensor<6xi64>
  %order, %first, %place = "llmc.group_rows"(%expert) : (tensor<6xi64>) -> (tensor<6xi64>, tensor<17xi32>, tensor<6xi32>)
  return
}

// -----

func.func @no_group(%expert: tensor<6xi64>) {
  // CHECK: error: 'llmc.group_rows' op result 'first' must not be empty, but is tensor<0xi32>
  %order, %first, %place = "llmc.group_rows"(%expert) : (tensor<6xi64>) -> (tensor<6xi32>, tensor<0xi32>, tensor<6xi32>)
  return
}
