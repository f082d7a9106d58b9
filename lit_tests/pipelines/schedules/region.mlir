// RUN: llmc-opt %s --schedule=region | filecheck %s

// One workgroup computes all, and puts each result into a tensor whole. Named operations are loops.
// CHECK-LABEL: func.func @turn
// CHECK:         %[[OUT:.*]]:2 = scf.forall (%{{.*}}) in (1) shared_outs(%[[X:.*]] = %{{.*}}, %[[Y:.*]] = %{{.*}}) -> (tensor<4x2xf32>, tensor<8x2xf32>)
// CHECK-NOT:       linalg.transpose
// CHECK:           %[[T:.*]] = linalg.generic
// CHECK:           %[[B:.*]] = tensor.concat
// CHECK:           tensor.parallel_insert_slice %[[T]] into %[[X]][0, 0] [4, 2] [1, 1]
// CHECK:           tensor.parallel_insert_slice %[[B]] into %[[Y]][0, 0] [8, 2] [1, 1]
// CHECK:         return %[[OUT]]#0, %[[OUT]]#1
func.func @turn(%x: tensor<2x4xf32>) -> (tensor<4x2xf32>, tensor<8x2xf32>) attributes {llmc.kernel = "region"} {
  %room = tensor.empty() : tensor<4x2xf32>
  %turned = linalg.transpose ins(%x : tensor<2x4xf32>) outs(%room : tensor<4x2xf32>) permutation = [1, 0]
  %both = tensor.concat dim(0) %turned, %turned : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return %turned, %both : tensor<4x2xf32>, tensor<8x2xf32>
}
