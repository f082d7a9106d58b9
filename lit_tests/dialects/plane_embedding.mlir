// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// The bytes of the rows that are named are gathered from both parts.
// CHECK-LABEL: func.func @rows
// CHECK:         "llmc.plane_embedding"(%arg0, %arg1, %arg2)
// LOWER-LABEL: func.func @rows
// LOWER:         linalg.generic {{.+}} ins(%arg0 : tensor<1x?xi64>) outs(%{{.+}} : tensor<1x?x2x26xi8>)
// LOWER:           tensor.extract %arg1
// LOWER:         linalg.generic {{.+}} ins(%arg0 : tensor<1x?xi64>) outs(%{{.+}} : tensor<1x?x2x8xi8>)
// LOWER:           tensor.extract %arg2
func.func @rows(%i: tensor<1x?xi64>, %h: tensor<3x2x104xi8>, %l: tensor<3x2x32xi8>) -> tensor<1x?x64xf32> {
  %y = "llmc.plane_embedding"(%i, %h, %l) : (tensor<1x?xi64>, tensor<3x2x104xi8>, tensor<3x2x32xi8>) -> tensor<1x?x64xf32>
  return %y : tensor<1x?x64xf32>
}

// -----

func.func @ids(%i: tensor<3xf32>, %h: tensor<3x2x104xi8>, %l: tensor<3x2x32xi8>) {
  // CHECK: error: 'llmc.plane_embedding' op operand 'ids' must hold integers (i8, i16, i32, i64), but is tensor<3xf32>
  %y = "llmc.plane_embedding"(%i, %h, %l) : (tensor<3xf32>, tensor<3x2x104xi8>, tensor<3x2x32xi8>) -> tensor<3x64xf32>
  return
}

// -----

func.func @panels(%i: tensor<3xi64>, %h: tensor<3x2x104xi8>, %l: tensor<2x2x32xi8>) {
  // CHECK: error: 'llmc.plane_embedding' op operand 'low' must have dimension 0 = 3, but has 2
  %y = "llmc.plane_embedding"(%i, %h, %l) : (tensor<3xi64>, tensor<3x2x104xi8>, tensor<2x2x32xi8>) -> tensor<3x64xf32>
  return
}

// -----

func.func @width(%i: tensor<3xi64>, %h: tensor<3x2x104xi8>, %l: tensor<3x2x32xi8>) {
  // CHECK: error: 'llmc.plane_embedding' op result must have its last dimension = 64, but has 32
  %y = "llmc.plane_embedding"(%i, %h, %l) : (tensor<3xi64>, tensor<3x2x104xi8>, tensor<3x2x32xi8>) -> tensor<3x32xf32>
  return
}
