// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @nucleus
// CHECK-NEXT:    "llmc.nucleus"(%arg0, %arg1) : (tensor<?x4096xf32>, tensor<1xf32>) -> tensor<?x4096xf32>
//
// Eight digits of four bits: each is how many of fifteen leave enough above them, of all parts.
// LOWER-LABEL: func.func @nucleus
// LOWER:         %[[PARTS:.+]] = tensor.expand_shape %arg0 {{.+}} into tensor<?x8x512xf32>
// LOWER:         %[[BORDER:.+]] = linalg.generic {{.+}} ins(%{{.+}}, %arg1 : tensor<?xf32>, tensor<1xf32>)
// LOWER:         %[[BOUND:.+]] = scf.for %{{.+}} = %c0 to %c32 step %c4 iter_args(%[[SO_FAR:.+]] = %{{.+}}) -> (tensor<?xi32>)
// LOWER:           %[[ABOVE:.+]] = linalg.generic {{.+}} ins(%[[PARTS]], %[[SO_FAR]] : {{.+}}) outs(%{{.+}} : tensor<?x8x15xf32>)
// LOWER:             arith.bitcast
// LOWER:             arith.cmpi ugt
// LOWER:             arith.addf
// LOWER:           %[[SUMS:.+]] = linalg.generic {{.+}} ins(%[[ABOVE]] : {{.+}}) outs(%{{.+}} : tensor<?x15xf32>)
// LOWER:           %[[DIGIT:.+]] = linalg.generic {{.+}} ins(%[[SUMS]], %[[BORDER]] : {{.+}}) outs(%{{.+}} : tensor<?xi32>)
// LOWER:             arith.cmpf oge
// LOWER:           %[[MORE:.+]] = linalg.generic {{.+}} ins(%[[SO_FAR]], %[[DIGIT]] :
// LOWER:             arith.shli
// LOWER:           scf.yield %[[MORE]]
// LOWER:         %[[KEPT:.+]] = linalg.generic {{.+}} ins(%arg0, %[[BOUND]] :
// LOWER:         return %[[KEPT]]
func.func @nucleus(%x: tensor<?x4096xf32>, %share: tensor<1xf32>) -> tensor<?x4096xf32> {
  %kept = "llmc.nucleus"(%x, %share) : (tensor<?x4096xf32>, tensor<1xf32>) -> tensor<?x4096xf32>
  return %kept : tensor<?x4096xf32>
}

// -----

func.func @open(%x: tensor<2x?xf32>, %share: tensor<1xf32>) {
  // CHECK: error: 'llmc.nucleus' op operand 'x' must be static in dimension 1, but is tensor<2x?xf32>
  %kept = "llmc.nucleus"(%x, %share) : (tensor<2x?xf32>, tensor<1xf32>) -> tensor<2x?xf32>
  return
}

// -----

func.func @shares(%x: tensor<2x7xf32>, %share: tensor<2xf32>) {
  // CHECK: error: 'llmc.nucleus' op operand 'share' must have dimension 0 = 1, but has 2
  %kept = "llmc.nucleus"(%x, %share) : (tensor<2x7xf32>, tensor<2xf32>) -> tensor<2x7xf32>
  return
}

// -----

func.func @halves(%x: tensor<2x7xf16>, %share: tensor<1xf32>) {
  // CHECK: error: 'llmc.nucleus' op operand 'x' must hold f32, but is tensor<2x7xf16>
  %kept = "llmc.nucleus"(%x, %share) : (tensor<2x7xf16>, tensor<1xf32>) -> tensor<2x7xf16>
  return
}

// -----

func.func @result(%x: tensor<2x7xf32>, %share: tensor<1xf32>) {
  // CHECK: error: 'llmc.nucleus' op result must be tensor<2x7xf32> as 'x' is, but is tensor<2x8xf32>
  %kept = "llmc.nucleus"(%x, %share) : (tensor<2x7xf32>, tensor<1xf32>) -> tensor<2x8xf32>
  return
}
