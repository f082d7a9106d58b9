// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @draw
// CHECK-NEXT:    "llmc.draw"(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6) : (tensor<?x?xf32>, tensor<?x?xi64>, tensor<?xf32>, tensor<?xi64>, tensor<?xf32>, tensor<3xf32>, index) -> tensor<?xi64>
//
// A point for each row: what all weigh, what those weigh that are kept, and how many are passed.
// LOWER-LABEL: func.func @draw
// LOWER:         linalg.generic {{.+}} iterator_types = ["parallel"]} ins(%arg2, %arg3, %arg4 :
// LOWER:           %[[ALL:.+]] = scf.for %{{.+}} to %arg6 {{.+}} -> (f32)
// LOWER:             math.exp
// LOWER:           arith.addf %[[ALL]],
// LOWER:           %[[KEPT:.+]]:3 = scf.for {{.+}} -> (f32, f32, i1)
// LOWER:           arith.addf %[[KEPT]]#1,
// LOWER:           %[[PASSED:.+]]:3 = scf.for {{.+}} -> (f32, index, f32)
// LOWER:           %[[PLACE:.+]] = arith.minui %[[PASSED]]#1,
// LOWER:           tensor.extract %arg1[%{{.+}}, %[[PLACE]]]
func.func @draw(%values: tensor<?x?xf32>, %tokens: tensor<?x?xi64>, %rest: tensor<?xf32>, %best: tensor<?xi64>, %random: tensor<?xf32>, %options: tensor<3xf32>, %count: index) -> tensor<?xi64> {
  %t = "llmc.draw"(%values, %tokens, %rest, %best, %random, %options, %count)
     : (tensor<?x?xf32>, tensor<?x?xi64>, tensor<?xf32>, tensor<?xi64>, tensor<?xf32>, tensor<3xf32>, index) -> tensor<?xi64>
  return %t : tensor<?xi64>
}

// -----

func.func @rows(%values: tensor<2x9xf32>, %tokens: tensor<2x9xi64>, %rest: tensor<2xf32>, %best: tensor<2xi64>, %random: tensor<3xf32>, %options: tensor<3xf32>, %count: index) {
  // CHECK: error: 'llmc.draw' op operand 'random' must have its length = 2, but has 3
  %t = "llmc.draw"(%values, %tokens, %rest, %best, %random, %options, %count)
     : (tensor<2x9xf32>, tensor<2x9xi64>, tensor<2xf32>, tensor<2xi64>, tensor<3xf32>, tensor<3xf32>, index) -> tensor<2xi64>
  return
}

// -----

func.func @options(%values: tensor<2x9xf32>, %tokens: tensor<2x9xi64>, %rest: tensor<2xf32>, %best: tensor<2xi64>, %random: tensor<2xf32>, %options: tensor<2xf32>, %count: index) {
  // CHECK: error: 'llmc.draw' op operand 'options' must have dimension 0 = 3, but has 2
  %t = "llmc.draw"(%values, %tokens, %rest, %best, %random, %options, %count)
     : (tensor<2x9xf32>, tensor<2x9xi64>, tensor<2xf32>, tensor<2xi64>, tensor<2xf32>, tensor<2xf32>, index) -> tensor<2xi64>
  return
}

// -----

func.func @columns(%values: tensor<2x9xf32>, %tokens: tensor<2x8xi64>, %rest: tensor<2xf32>, %best: tensor<2xi64>, %random: tensor<2xf32>, %options: tensor<3xf32>, %count: index) {
  // CHECK: error: 'llmc.draw' op operand 'tokens' must have dimension 1 = 9, but has 8
  %t = "llmc.draw"(%values, %tokens, %rest, %best, %random, %options, %count)
     : (tensor<2x9xf32>, tensor<2x8xi64>, tensor<2xf32>, tensor<2xi64>, tensor<2xf32>, tensor<3xf32>, index) -> tensor<2xi64>
  return
}
