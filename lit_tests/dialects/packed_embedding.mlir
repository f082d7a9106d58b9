// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// The bytes of the blocks that are named are gathered, and these alone are decoded.
// CHECK-LABEL: func.func @rows
// CHECK:         "llmc.packed_embedding"(%arg0, %arg1) {format = "q8_0"}
// LOWER-LABEL: func.func @rows
// LOWER:         %[[ROWS:.+]] = linalg.generic {{.+}} ins(%arg0 : tensor<1x?xi64>) outs(%{{.+}} : tensor<1x?x2x34xi8>)
// LOWER:           arith.divui
// LOWER:           arith.remui
// LOWER:           tensor.extract %arg1
// LOWER:         tensor.extract_slice %[[ROWS]]
// LOWER:         -> tensor<1x?x2x32xf32>
func.func @rows(%i: tensor<1x?xi64>, %t: tensor<3x2x136xi8>) -> tensor<1x?x64xf32> {
  %y = "llmc.packed_embedding"(%i, %t) {format = "q8_0"} : (tensor<1x?xi64>, tensor<3x2x136xi8>) -> tensor<1x?x64xf32>
  return %y : tensor<1x?x64xf32>
}

// -----

func.func @ids(%i: tensor<3xf32>, %t: tensor<3x2x136xi8>) {
  // CHECK: error: 'llmc.packed_embedding' op operand 'ids' must hold integers (i8, i16, i32, i64), but is tensor<3xf32>
  %y = "llmc.packed_embedding"(%i, %t) {format = "q8_0"}
     : (tensor<3xf32>, tensor<3x2x136xi8>) -> tensor<3x64xf32>
  return
}

// -----

func.func @unknown(%i: tensor<3xi64>, %t: tensor<3x2x136xi8>) {
  // CHECK: error: 'llmc.packed_embedding' op attribute 'format' must be one of q4_0, q4_1, q5_0, q5_1, q6_g16, q8_0, int4_g64, int4_g128, not "f16"
  %y = "llmc.packed_embedding"(%i, %t) {format = "f16"}
     : (tensor<3xi64>, tensor<3x2x136xi8>) -> tensor<3x64xf32>
  return
}

// -----

func.func @width(%i: tensor<3xi64>, %t: tensor<3x2x136xi8>) {
  // CHECK: error: 'llmc.packed_embedding' op result must have its last dimension = 64, but has 96
  %y = "llmc.packed_embedding"(%i, %t) {format = "q8_0"}
     : (tensor<3xi64>, tensor<3x2x136xi8>) -> tensor<3x96xf32>
  return
}

// -----

func.func @rows(%i: tensor<3xi64>, %t: tensor<3x2x136xi8>) {
  // CHECK: error: 'llmc.packed_embedding' op result must have dimension 0 = 3, but has 4
  %y = "llmc.packed_embedding"(%i, %t) {format = "q8_0"}
     : (tensor<3xi64>, tensor<3x2x136xi8>) -> tensor<4x64xf32>
  return
}

// -----

func.func @rank(%i: tensor<3xi64>, %t: tensor<3x2xi8>) {
  // CHECK: error: 'llmc.packed_embedding' op operand 'table' must have rank 3, but is tensor<3x2xi8>
  %y = "llmc.packed_embedding"(%i, %t) {format = "q8_0"}
     : (tensor<3xi64>, tensor<3x2xi8>) -> tensor<3x64xf32>
  return
}

// -----

func.func @element(%i: tensor<3xi64>, %t: tensor<3x2x136xi8>) {
  // CHECK: error: 'llmc.packed_embedding' op result must hold f32, but is tensor<3x64xf16>
  %y = "llmc.packed_embedding"(%i, %t) {format = "q8_0"}
     : (tensor<3xi64>, tensor<3x2x136xi8>) -> tensor<3x64xf16>
  return
}
