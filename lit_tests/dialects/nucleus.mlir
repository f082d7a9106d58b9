// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @nucleus
// CHECK-NEXT:    "llmc.nucleus"(%arg0, %arg1) : (tensor<?x4096xf32>, tensor<1xf32>) -> tensor<?x4096xf32>
//
// What is larger than each number, and whether that is less than the share of all.
// LOWER-LABEL: func.func @nucleus
// LOWER:         %[[TOTAL:.+]] = linalg.generic {{.+}} iterator_types = ["parallel", "reduction"]} ins(%arg0 :
// LOWER:         %[[BORDER:.+]] = linalg.generic {{.+}} ins(%[[TOTAL]], %arg1 : tensor<?xf32>, tensor<1xf32>)
// LOWER:           arith.mulf
// LOWER:         %[[BEFORE:.+]] = linalg.generic {{.+}} ins(%arg0, %arg0 : {{.+}}) outs(%{{.+}} : tensor<?x4096xf32>)
// LOWER:           arith.cmpf ogt
// LOWER:         %[[KEPT:.+]] = linalg.generic {{.+}} ins(%arg0, %[[BEFORE]], %[[BORDER]] :
// LOWER:           arith.cmpf olt
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
