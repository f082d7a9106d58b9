// Sums of floats are made of partial ones that begin at zero; what they began with is added.
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --schedule-file=%S/Inputs/mine.py:in_fours | filecheck %s
// CHECK-LABEL: func.func @sums(
// CHECK:         scf.for {{.*}} step %c4
// CHECK:           %[[ZERO:.*]] = linalg.generic {{.*}} ins(%cst : f32)
// CHECK:           %[[PART:.*]] = linalg.generic {{.*}} outs(%[[ZERO]]
// CHECK:           linalg.generic {{.*}} ins(%[[PART]], %{{.*}} : tensor<3xf32>, tensor<3xf32>)
func.func @sums(%x: tensor<3x16xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %sums = linalg.reduce { arith.addf } ins(%x : tensor<3x16xf32>) outs(%y : tensor<3xf32>) dimensions = [1]
  return %sums : tensor<3xf32>
}

// -----

// What else there is, is no sum.
func.func @maxima(%x: tensor<3x16xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error@+1 {{only sums of floats are made of partial ones here}}
  %maxima = linalg.reduce { arith.maximumf } ins(%x : tensor<3x16xf32>) outs(%y : tensor<3xf32>) dimensions = [1]
  return %maxima : tensor<3xf32>
}
