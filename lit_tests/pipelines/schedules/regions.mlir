// RUN: not llmc-opt %s --split-input-file --schedule=regions 2> %t.err | filecheck %s && filecheck %s --check-prefix=REFUSED < %t.err

// A workgroup has a row of each tensor of rows, and all of others; extents are known within.
// CHECK-LABEL: func.func @turn
// CHECK:         %[[ROWS:.*]] = tensor.dim %arg0, %c0
// CHECK:         %[[OUT:.*]] = scf.forall (%[[ROW:.*]]) in (%[[ROWS]]) shared_outs(%[[Y:.*]] = %{{.*}}) -> (tensor<?x8x2xf32>)
// CHECK:           tensor.extract_slice %arg0[%[[ROW]], 0, 0] [1, 2, 4] [1, 1, 1]
// CHECK:           %[[T:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %arg1 : tensor<1x2x4xf32>, tensor<2x4xf32>)
// CHECK:           %[[B:.*]] = tensor.concat dim(1) {{.*}} -> tensor<1x8x2xf32>
// CHECK:           tensor.parallel_insert_slice %[[B]] into %[[Y]][%[[ROW]], 0, 0] [1, 8, 2] [1, 1, 1]
// CHECK:         return %[[OUT]]
#rows = affine_map<(t, h, d) -> (t, h, d)>
func.func @turn(%x: tensor<?x2x4xf32>, %w: tensor<2x4xf32>) -> tensor<?x8x2xf32> attributes {llmc.kernel = "regions"} {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x2x4xf32>
  %room = tensor.empty(%rows) : tensor<?x2x4xf32>
  %y = linalg.generic {indexing_maps = [#rows, affine_map<(t, h, d) -> (h, d)>, #rows], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %w : tensor<?x2x4xf32>, tensor<2x4xf32>) outs(%room : tensor<?x2x4xf32>) {
  ^bb0(%e: f32, %f: f32, %old: f32):
    %p = arith.mulf %e, %f : f32
    linalg.yield %p : f32
  } -> tensor<?x2x4xf32>
  %across = tensor.empty(%rows) : tensor<?x4x2xf32>
  %turned = linalg.transpose ins(%y : tensor<?x2x4xf32>) outs(%across : tensor<?x4x2xf32>) permutation = [0, 2, 1]
  %both = tensor.concat dim(1) %turned, %turned : (tensor<?x4x2xf32>, tensor<?x4x2xf32>) -> tensor<?x8x2xf32>
  return %both : tensor<?x8x2xf32>
}

// -----

// REFUSED: error: a kernel of rows reads and returns tensors whose first extent is open
func.func @of_one(%x: tensor<?x2x4xf32>) -> tensor<2x4xf32> attributes {llmc.kernel = "regions"} {
  %c0 = arith.constant 0 : index
  %one = tensor.extract_slice %x[%c0, 0, 0] [1, 2, 4] [1, 1, 1] : tensor<?x2x4xf32> to tensor<2x4xf32>
  return %one : tensor<2x4xf32>
}
