// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// The sign of a float16 and the seven bits from number 7 on.
// CHECK-LABEL: func.func @high
// CHECK:         "llmc.split_float"(%arg0) {part = "high"}
// LOWER-LABEL: func.func @high
// LOWER-DAG:     %[[SIGN:.+]] = arith.constant 8 : i16
// LOWER-DAG:     %[[SEVEN:.+]] = arith.constant 7 : i16
// LOWER-DAG:     %[[REST:.+]] = arith.constant 127 : i16
// LOWER-DAG:     %[[FIRST:.+]] = arith.constant -128 : i16
// LOWER:         %[[BITS:.+]] = arith.bitcast %{{.+}} : f16 to i16
// LOWER-DAG:     %[[A:.+]] = arith.shrui %[[BITS]], %[[SIGN]]
// LOWER-DAG:     %[[B:.+]] = arith.shrui %[[BITS]], %[[SEVEN]]
// LOWER-DAG:     arith.andi %[[B]], %[[REST]]
// LOWER-DAG:     arith.andi %[[A]], %[[FIRST]]
// LOWER:         arith.trunci %{{.+}} : i16 to i8
func.func @high(%w: tensor<?x4xf16>) -> tensor<?x4xi8> {
  %p = "llmc.split_float"(%w) {part = "high"} : (tensor<?x4xf16>) -> tensor<?x4xi8>
  return %p : tensor<?x4xi8>
}

// -----

// Of a float32 one half.
// LOWER-LABEL: func.func @low
// LOWER:         arith.bitcast %{{.+}} : f32 to i32
// LOWER:         arith.trunci %{{.+}} : i32 to i16
func.func @low(%w: tensor<8xf32>) -> tensor<8xi16> {
  %p = "llmc.split_float"(%w) {part = "low"} : (tensor<8xf32>) -> tensor<8xi16>
  return %p : tensor<8xi16>
}

// -----

func.func @part(%w: tensor<8xf32>) {
  // CHECK: error: 'llmc.split_float' op 'part' must be one of high, low, but is 'middle'
  %p = "llmc.split_float"(%w) {part = "middle"} : (tensor<8xf32>) -> tensor<8xi16>
  return
}

// -----

func.func @element(%w: tensor<8xbf16>) {
  // CHECK: error: 'llmc.split_float' op operand 'x' must hold f16 or f32, but is tensor<8xbf16>
  %p = "llmc.split_float"(%w) {part = "high"} : (tensor<8xbf16>) -> tensor<8xi8>
  return
}

// -----

func.func @width(%w: tensor<8xf16>) {
  // CHECK: error: 'llmc.split_float' op result must hold i8, but is tensor<8xi16>
  %p = "llmc.split_float"(%w) {part = "high"} : (tensor<8xf16>) -> tensor<8xi16>
  return
}
