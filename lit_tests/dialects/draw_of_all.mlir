// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @draw
// CHECK-NEXT:    "llmc.draw_of_all"(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5) : (tensor<?xi64>, tensor<?x1024xf32>, tensor<?x?xf32>, tensor<?x?xi64>, tensor<?xf32>, tensor<3xf32>) -> tensor<?xi64>
//
// The sum of all weights; for each bit of the least that is kept, the sum of those above; what those
// kept weigh, and how many are passed.
// LOWER-LABEL: func.func @draw
// LOWER:         linalg.generic {{.+}} iterator_types = ["parallel"]} ins(%arg0, %arg4 :
// LOWER:           %[[ALL:.+]] = scf.for %{{.+}} to %[[COUNT:.+]] step {{.+}} -> (f32)
// LOWER:             math.exp
// LOWER:           %[[PART:.+]] = arith.mulf %{{.+}}, %[[ALL]]
// LOWER:           %[[ENOUGH:.+]] = arith.select %{{.+}}, %[[PART]],
// LOWER:           scf.for %{{.+}} to %c31 {{.+}} -> (i32)
// LOWER:             %[[ABOVE:.+]] = scf.for %{{.+}} to %[[COUNT]] {{.+}} -> (f32)
// LOWER:               arith.cmpi ugt
// LOWER:             arith.cmpf oge, %[[ABOVE]], %[[ENOUGH]]
// LOWER:           scf.for %{{.+}} to %[[COUNT]] {{.+}} -> (f32)
// LOWER:           scf.for %{{.+}} to %[[COUNT]] {{.+}} -> (f32, index, f32)
// LOWER:           %[[OPEN:.+]] = arith.cmpi eq, %{{.+}}, %c-2
// LOWER:           arith.select %[[OPEN]],
func.func @draw(%found: tensor<?xi64>, %logits: tensor<?x1024xf32>, %values: tensor<?x?xf32>, %tokens: tensor<?x?xi64>, %random: tensor<?xf32>, %options: tensor<3xf32>) -> tensor<?xi64> {
  %t = "llmc.draw_of_all"(%found, %logits, %values, %tokens, %random, %options)
     : (tensor<?xi64>, tensor<?x1024xf32>, tensor<?x?xf32>, tensor<?x?xi64>, tensor<?xf32>, tensor<3xf32>) -> tensor<?xi64>
  return %t : tensor<?xi64>
}

// -----

func.func @rows(%found: tensor<3xi64>, %logits: tensor<2x9xf32>, %values: tensor<2x9xf32>, %tokens: tensor<2x9xi64>, %random: tensor<2xf32>, %options: tensor<3xf32>) {
  // CHECK: error: 'llmc.draw_of_all' op operand 'found' must have its length = 2, but has 3
  %t = "llmc.draw_of_all"(%found, %logits, %values, %tokens, %random, %options)
     : (tensor<3xi64>, tensor<2x9xf32>, tensor<2x9xf32>, tensor<2x9xi64>, tensor<2xf32>, tensor<3xf32>) -> tensor<2xi64>
  return
}

// -----

func.func @open(%found: tensor<2xi64>, %logits: tensor<2x?xf32>, %values: tensor<2x9xf32>, %tokens: tensor<2x9xi64>, %random: tensor<2xf32>, %options: tensor<3xf32>) {
  // CHECK: error: 'llmc.draw_of_all' op operand 'logits' must be static in dimension 1, but is tensor<2x?xf32>
  %t = "llmc.draw_of_all"(%found, %logits, %values, %tokens, %random, %options)
     : (tensor<2xi64>, tensor<2x?xf32>, tensor<2x9xf32>, tensor<2x9xi64>, tensor<2xf32>, tensor<3xf32>) -> tensor<2xi64>
  return
}

// -----

func.func @places(%found: tensor<2xi64>, %logits: tensor<2x9xf32>, %values: tensor<2x9xf32>, %tokens: tensor<2x9xi64>, %random: tensor<2xf32>, %options: tensor<3xf32>) {
  // CHECK: error: 'llmc.draw_of_all' op result must hold i64, but is tensor<2xi32>
  %t = "llmc.draw_of_all"(%found, %logits, %values, %tokens, %random, %options)
     : (tensor<2xi64>, tensor<2x9xf32>, tensor<2x9xf32>, tensor<2x9xi64>, tensor<2xf32>, tensor<3xf32>) -> tensor<2xi32>
  return
}

// -----

func.func @many(%found: tensor<2xi64>, %logits: tensor<2x300xf32>, %values: tensor<2x257xf32>, %tokens: tensor<2x257xi64>, %random: tensor<2xf32>, %options: tensor<3xf32>) {
  // CHECK: error: 'llmc.draw_of_all' op operand 'values' must have a last dimension of at most 256, but has 257
  %t = "llmc.draw_of_all"(%found, %logits, %values, %tokens, %random, %options)
     : (tensor<2xi64>, tensor<2x300xf32>, tensor<2x257xf32>, tensor<2x257xi64>, tensor<2xf32>, tensor<3xf32>) -> tensor<2xi64>
  return
}
