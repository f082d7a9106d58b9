// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(join-frequencies,func.func(canonicalize,cse))' | filecheck %s

// Both halves are one product, of frequencies that are put together once for all.
// CHECK-LABEL: func.func @angles
// CHECK:         %[[F:.+]] = "llmc.parameter"
// CHECK:         %[[BOTH:.+]] = tensor.concat dim(0) %[[F]], %[[F]] : (tensor<3xf32>, tensor<3xf32>) -> tensor<6xf32>
// CHECK:         %[[ANGLES:.+]] = linalg.generic {{.+}} ins(%arg0, %[[BOTH]] : tensor<1x?xi64>, tensor<6xf32>) outs(%{{.+}} : tensor<1x?x6xf32>)
// CHECK:           %[[P:.+]] = arith.sitofp %{{.+}} : i64 to f32
// CHECK:           arith.mulf %[[P]],
// CHECK-NOT:     linalg.generic
// CHECK:         return %[[ANGLES]]
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#column = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#row = affine_map<(d0, d1, d2) -> (d2)>
func.func @angles(%positions: tensor<1x?xi64>) -> tensor<1x?x6xf32> {
  %c1 = arith.constant 1 : index
  %f = "llmc.parameter"() {sources = ["model.rotary_emb.inv_freq"]} : () -> tensor<3xf32>
  %n = tensor.dim %positions, %c1 : tensor<1x?xi64>
  %p = tensor.expand_shape %positions [[0], [1, 2]] output_shape [1, %n, 1] : tensor<1x?xi64> into tensor<1x?x1xi64>
  %r1 = tensor.empty(%n) : tensor<1x?x1xf32>
  %x = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : tensor<1x?x1xi64>) outs(%r1 : tensor<1x?x1xf32>) {
  ^bb0(%in: i64, %out: f32):
    %0 = arith.sitofp %in : i64 to f32
    linalg.yield %0 : f32
  } -> tensor<1x?x1xf32>
  %r3 = tensor.empty(%n) : tensor<1x?x3xf32>
  %half = linalg.generic {indexing_maps = [#column, #row, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %f : tensor<1x?x1xf32>, tensor<3xf32>) outs(%r3 : tensor<1x?x3xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<1x?x3xf32>
  %both = tensor.concat dim(2) %half, %half : (tensor<1x?x3xf32>, tensor<1x?x3xf32>) -> tensor<1x?x6xf32>
  return %both : tensor<1x?x6xf32>
}

// Left alone: rows one below the other, and frequencies that are no weight.
// CHECK-LABEL: func.func @others
// CHECK:         tensor.concat dim(1)
// CHECK:         tensor.concat dim(2)
func.func @others(%positions: tensor<1x4xi64>, %g: tensor<3xf32>) -> (tensor<1x8x3xf32>, tensor<1x4x6xf32>) {
  %f = "llmc.parameter"() {sources = ["model.rotary_emb.inv_freq"]} : () -> tensor<3xf32>
  %p = tensor.expand_shape %positions [[0], [1, 2]] output_shape [1, 4, 1] : tensor<1x4xi64> into tensor<1x4x1xi64>
  %r1 = tensor.empty() : tensor<1x4x1xf32>
  %x = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : tensor<1x4x1xi64>) outs(%r1 : tensor<1x4x1xf32>) {
  ^bb0(%in: i64, %out: f32):
    %0 = arith.sitofp %in : i64 to f32
    linalg.yield %0 : f32
  } -> tensor<1x4x1xf32>
  %r3 = tensor.empty() : tensor<1x4x3xf32>
  %y = linalg.generic {indexing_maps = [#column, #row, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %f : tensor<1x4x1xf32>, tensor<3xf32>) outs(%r3 : tensor<1x4x3xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<1x4x3xf32>
  %below = tensor.concat dim(1) %y, %y : (tensor<1x4x3xf32>, tensor<1x4x3xf32>) -> tensor<1x8x3xf32>
  %z = linalg.generic {indexing_maps = [#column, #row, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %g : tensor<1x4x1xf32>, tensor<3xf32>) outs(%r3 : tensor<1x4x3xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<1x4x3xf32>
  %beside = tensor.concat dim(2) %z, %z : (tensor<1x4x3xf32>, tensor<1x4x3xf32>) -> tensor<1x4x6xf32>
  return %below, %beside : tensor<1x8x3xf32>, tensor<1x4x6xf32>
}

// -----

func.func @invalid() -> tensor<?xf32> {
  // expected-error@+1 {{'llmc.parameter' op result must be static in dimension 0, but is tensor<?xf32>}}
  %f = "llmc.parameter"() {sources = ["inv_freq"]} : () -> tensor<?xf32>
  return %f : tensor<?xf32>
}
