// RUN: not llmc-opt %s --pass-pipeline='builtin.module(refuse-unsupported)' 2>&1 | filecheck %s

// CHECK: error: the model needs tm_tensor.sort: llmc cannot compile it
func.func @sort(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = tm_tensor.sort dimension(1) outs(%x : tensor<?x4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %1 = arith.cmpf oge, %a, %b : f32
    tm_tensor.yield %1 : i1
  } -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
