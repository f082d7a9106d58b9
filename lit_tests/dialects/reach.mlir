// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @reach
// CHECK-NEXT:    "llmc.reach"(%arg0, %arg1) : (tensor<?x4096xf32>, tensor<?xf32>) -> tensor<?xi64>
//
// Of each row the parts are added up and passed over, then the numbers of the part that is left.
// LOWER-LABEL: func.func @reach
// LOWER:         %[[PARTS:.+]] = tensor.expand_shape %arg0 {{.+}} into tensor<?x8x512xf32>
// LOWER:         %[[SUMS:.+]] = linalg.generic {{.+}} ins(%[[PARTS]] : {{.+}}) outs(%{{.+}} : tensor<?x8xf32>)
// LOWER:         linalg.generic {{.+}} ins(%arg1 : tensor<?xf32>)
// LOWER:           %[[TOTAL:.+]] = scf.for %{{.+}} to %c8 {{.+}} -> (f32)
// LOWER:             tensor.extract %[[SUMS]]
// LOWER:           %[[WANTED:.+]] = arith.mulf %{{.+}}, %[[TOTAL]]
// LOWER:           %[[PART:.+]]:3 = scf.for %{{.+}} to %c8 {{.+}} -> (f32, index, f32)
// LOWER:           arith.subf %[[WANTED]], %[[PART]]#2
// LOWER:           scf.for %{{.+}} to %c512 {{.+}} -> (f32)
// LOWER:             tensor.extract %[[PARTS]][%{{.+}}, %[[PART]]#1, %{{.+}}]
// LOWER:           %[[PLACE:.+]]:3 = scf.for %{{.+}} to %c512 {{.+}} -> (f32, index, f32)
// LOWER:           %[[BEFORE:.+]] = arith.muli %[[PART]]#1, %c512
// LOWER:           arith.addi %[[BEFORE]], %[[PLACE]]#1
func.func @reach(%x: tensor<?x4096xf32>, %share: tensor<?xf32>) -> tensor<?xi64> {
  %places = "llmc.reach"(%x, %share) : (tensor<?x4096xf32>, tensor<?xf32>) -> tensor<?xi64>
  return %places : tensor<?xi64>
}

// -----

func.func @open(%x: tensor<2x?xf32>, %share: tensor<2xf32>) {
  // CHECK: error: 'llmc.reach' op operand 'x' must be static in dimension 1, but is tensor<2x?xf32>
  %places = "llmc.reach"(%x, %share) : (tensor<2x?xf32>, tensor<2xf32>) -> tensor<2xi64>
  return
}

// -----

func.func @shares(%x: tensor<2x7xf32>, %share: tensor<3xf32>) {
  // CHECK: error: 'llmc.reach' op operand 'share' must have its length = 2, but has 3
  %places = "llmc.reach"(%x, %share) : (tensor<2x7xf32>, tensor<3xf32>) -> tensor<2xi64>
  return
}

// -----

func.func @places(%x: tensor<2x7xf32>, %share: tensor<2xf32>) {
  // CHECK: error: 'llmc.reach' op result must hold i64, but is tensor<2xi32>
  %places = "llmc.reach"(%x, %share) : (tensor<2x7xf32>, tensor<2xf32>) -> tensor<2xi32>
  return
}
