// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// Each bit of a float16 is chosen from one part or the other.
// CHECK-LABEL: func.func @whole
// CHECK:         "llmc.join_float"(%arg0, %arg1)
// LOWER-LABEL: func.func @whole
// LOWER-DAG:     %[[LOW:.+]] = arith.constant 16511 : i16
// LOWER-DAG:     %[[HIGH:.+]] = arith.constant -16512 : i16
// LOWER:         %[[MOVED:.+]] = arith.shli
// LOWER-DAG:     arith.andi %{{.+}}, %[[LOW]]
// LOWER-DAG:     arith.andi %[[MOVED]], %[[HIGH]]
// LOWER:         %[[BITS:.+]] = arith.ori
// LOWER:         arith.bitcast %[[BITS]] : i16 to f16
// LOWER:         arith.extf
func.func @whole(%h: tensor<3x4xi8>, %l: tensor<3x4xi8>) -> tensor<3x4xf32> {
  %w = "llmc.join_float"(%h, %l) {operandSegmentSizes = array<i32: 1, 1>} : (tensor<3x4xi8>, tensor<3x4xi8>) -> tensor<3x4xf32>
  return %w : tensor<3x4xf32>
}

// -----

// The high bits alone are those of a float32, the next lower one of which is 1.
// LOWER-LABEL: func.func @rough
// LOWER-DAG:     %[[PLACE:.+]] = arith.constant 20 : i32
// LOWER-DAG:     %[[KEPT:.+]] = arith.constant -2014314496 : i32
// LOWER-DAG:     %[[UNREAD:.+]] = arith.constant 940048384 : i32
// LOWER:         %[[MOVED:.+]] = arith.shli %{{.+}}, %[[PLACE]]
// LOWER:         %[[READ:.+]] = arith.andi %[[MOVED]], %[[KEPT]]
// LOWER:         %[[BITS:.+]] = arith.ori %[[READ]], %[[UNREAD]]
// LOWER:         arith.bitcast %[[BITS]] : i32 to f32
func.func @rough(%h: tensor<?x4xi8>) -> tensor<?x4xf32> {
  %w = "llmc.join_float"(%h) {operandSegmentSizes = array<i32: 1, 0>} : (tensor<?x4xi8>) -> tensor<?x4xf32>
  return %w : tensor<?x4xf32>
}

// -----

func.func @parts(%h: tensor<8xi8>, %l: tensor<8xi16>) {
  // CHECK: error: 'llmc.join_float' op operand 'low' must be tensor<8xi8>, but is tensor<8xi16>
  %w = "llmc.join_float"(%h, %l) {operandSegmentSizes = array<i32: 1, 1>} : (tensor<8xi8>, tensor<8xi16>) -> tensor<8xf32>
  return
}

// -----

func.func @element(%h: tensor<8xi32>) {
  // CHECK: error: 'llmc.join_float' op operand 'high' must hold i8 or i16, but is tensor<8xi32>
  %w = "llmc.join_float"(%h) {operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xi32>) -> tensor<8xf32>
  return
}

// -----

func.func @narrow(%h: tensor<8xi8>) {
  // CHECK: error: 'llmc.join_float' op result must hold f32, but is tensor<8xf16>
  %w = "llmc.join_float"(%h) {operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xi8>) -> tensor<8xf16>
  return
}
