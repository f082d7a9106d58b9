// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @best
// CHECK-NEXT:    "llmc.argmax"(%arg0) : (tensor<?x7xf32>) -> tensor<?xi64>
//
// LOWER-LABEL: func.func @best
// LOWER:         %[[LARGEST:.+]] = linalg.generic {{.+}} ins(%arg0 : tensor<?x7xf32>) outs(%{{.+}} : tensor<?xf32>)
// LOWER:           arith.maximumf
// LOWER:         %[[PLACE:.+]] = linalg.generic {{.+}} ins(%arg0, %[[LARGEST]] :
// LOWER:           arith.minsi
// LOWER:         return %[[PLACE]]
func.func @best(%x: tensor<?x7xf32>) -> tensor<?xi64> {
  %best = "llmc.argmax"(%x) : (tensor<?x7xf32>) -> tensor<?xi64>
  return %best : tensor<?xi64>
}

// -----

func.func @rank(%x: tensor<7xf32>) {
  // CHECK: error: 'llmc.argmax' op operand 'x' must have rank 2, but is tensor<7xf32>
  %best = "llmc.argmax"(%x) : (tensor<7xf32>) -> tensor<1xi64>
  return
}

// -----

func.func @integers(%x: tensor<2x7xi32>) {
  // CHECK: error: 'llmc.argmax' op operand 'x' must hold floats (f16, bf16, f32, f64), but is tensor<2x7xi32>
  %best = "llmc.argmax"(%x) : (tensor<2x7xi32>) -> tensor<2xi64>
  return
}

// -----

func.func @open(%x: tensor<2x?xf32>) {
  // CHECK: error: 'llmc.argmax' op operand 'x' must be static in dimension 1, but is tensor<2x?xf32>
  %best = "llmc.argmax"(%x) : (tensor<2x?xf32>) -> tensor<2xi64>
  return
}

// -----

func.func @empty(%x: tensor<2x0xf32>) {
  // CHECK: error: 'llmc.argmax' op operand 'x' must not be empty, but is tensor<2x0xf32>
  %best = "llmc.argmax"(%x) : (tensor<2x0xf32>) -> tensor<2xi64>
  return
}

// -----

func.func @rows(%x: tensor<2x7xf32>) {
  // CHECK: error: 'llmc.argmax' op result must have dimension 0 = 2, but has 3
  %best = "llmc.argmax"(%x) : (tensor<2x7xf32>) -> tensor<3xi64>
  return
}

// -----

func.func @element(%x: tensor<2x7xf32>) {
  // CHECK: error: 'llmc.argmax' op result must hold i64, but is tensor<2xi32>
  %best = "llmc.argmax"(%x) : (tensor<2x7xf32>) -> tensor<2xi32>
  return
}
