// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @draw
// CHECK-NEXT:    "llmc.draw"(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6) : (tensor<?x1024xf32>, tensor<?x?xf32>, tensor<?x?xi64>, tensor<?xi64>, tensor<?xf32>, tensor<3xf32>, index) -> tensor<?xi64>
//
// A point for each row: what the rest weighs, what all candidates weigh, what those weigh that are
// kept, and how many are passed.
// LOWER-LABEL: func.func @draw
// LOWER:         linalg.generic {{.+}} iterator_types = ["parallel"]} ins(%arg3, %arg4 :
// LOWER:           %[[GIVEN:.+]] = arith.select %{{.+}}, %{{.+}}, %arg6
// LOWER:           %[[COUNT:.+]] = arith.minui %[[GIVEN]],
// LOWER:           %[[OTHERS:.+]] = scf.for %{{.+}} to %c1024 {{.+}} -> (f32)
// LOWER:             math.exp
// LOWER:           %[[REST:.+]] = arith.select %{{.+}}, %[[OTHERS]],
// LOWER:           %[[ALL:.+]] = scf.for %{{.+}} to %[[COUNT]] {{.+}} -> (f32)
// LOWER:             math.exp
// LOWER:           arith.addf %[[ALL]], %[[REST]]
// LOWER:           %[[KEPT:.+]]:3 = scf.for {{.+}} -> (f32, f32, i1)
// LOWER:           arith.addf %[[KEPT]]#1,
// LOWER:           %[[PASSED:.+]]:3 = scf.for {{.+}} -> (f32, index, f32)
// LOWER:           %[[PLACE:.+]] = arith.minui %[[PASSED]]#1,
// LOWER:           tensor.extract %arg2[%{{.+}}, %[[PLACE]]]
func.func @draw(%logits: tensor<?x1024xf32>, %values: tensor<?x?xf32>, %tokens: tensor<?x?xi64>, %best: tensor<?xi64>, %random: tensor<?xf32>, %options: tensor<3xf32>, %top_k: index) -> tensor<?xi64> {
  %t = "llmc.draw"(%logits, %values, %tokens, %best, %random, %options, %top_k)
     : (tensor<?x1024xf32>, tensor<?x?xf32>, tensor<?x?xi64>, tensor<?xi64>, tensor<?xf32>, tensor<3xf32>, index) -> tensor<?xi64>
  return %t : tensor<?xi64>
}

// -----

func.func @rows(%logits: tensor<2x9xf32>, %values: tensor<2x9xf32>, %tokens: tensor<2x9xi64>, %best: tensor<2xi64>, %random: tensor<3xf32>, %options: tensor<3xf32>, %top_k: index) {
  // CHECK: error: 'llmc.draw' op operand 'random' must have its length = 2, but has 3
  %t = "llmc.draw"(%logits, %values, %tokens, %best, %random, %options, %top_k)
     : (tensor<2x9xf32>, tensor<2x9xf32>, tensor<2x9xi64>, tensor<2xi64>, tensor<3xf32>, tensor<3xf32>, index) -> tensor<2xi64>
  return
}

// -----

func.func @options(%logits: tensor<2x9xf32>, %values: tensor<2x9xf32>, %tokens: tensor<2x9xi64>, %best: tensor<2xi64>, %random: tensor<2xf32>, %options: tensor<2xf32>, %top_k: index) {
  // CHECK: error: 'llmc.draw' op operand 'options' must have dimension 0 = 3, but has 2
  %t = "llmc.draw"(%logits, %values, %tokens, %best, %random, %options, %top_k)
     : (tensor<2x9xf32>, tensor<2x9xf32>, tensor<2x9xi64>, tensor<2xi64>, tensor<2xf32>, tensor<2xf32>, index) -> tensor<2xi64>
  return
}

// -----

func.func @columns(%logits: tensor<2x9xf32>, %values: tensor<2x9xf32>, %tokens: tensor<2x8xi64>, %best: tensor<2xi64>, %random: tensor<2xf32>, %options: tensor<3xf32>, %top_k: index) {
  // CHECK: error: 'llmc.draw' op operand 'tokens' must have dimension 1 = 9, but has 8
  %t = "llmc.draw"(%logits, %values, %tokens, %best, %random, %options, %top_k)
     : (tensor<2x9xf32>, tensor<2x9xf32>, tensor<2x8xi64>, tensor<2xi64>, tensor<2xf32>, tensor<3xf32>, index) -> tensor<2xi64>
  return
}
