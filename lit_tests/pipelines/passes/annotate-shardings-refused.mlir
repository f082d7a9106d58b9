// RUN: not llmc-opt %s --pass-pipeline='builtin.module(annotate-shardings{plan=%S/Inputs/plan-of-nobody.json})' 2>&1 | filecheck %s --check-prefix=NOBODY
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(annotate-shardings{plan=%S/Inputs/plan-of-one.json})' 2>&1 | filecheck %s --check-prefix=ONE

// A plan that names what is not there, or one of layers that share their code, is not followed in part.
// NOBODY: error: the plan speaks of layers.7.up, but no weight is called so
// ONE:    error: layers share their code: the plan must split them all like layers.0.up
func.func private @layer(%x: tensor<1x16xf32>) -> tensor<1x32xf32> {
  %up = "llmc.parameter"() {sources = ["layers.0.up", "layers.1.up"]} : () -> tensor<32x16xf32>
  %0 = "llmc.linear"(%x, %up) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x16xf32>, tensor<32x16xf32>) -> tensor<1x32xf32>
  return %0 : tensor<1x32xf32>
}
