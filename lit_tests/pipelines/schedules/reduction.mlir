// RUN: llmc-opt %s --schedule='reduction{lanes=8}' | filecheck %s

// A norm, row by row: partial sums of squares, their sum, and then the row scaled.
// CHECK-LABEL: func.func @norm
// CHECK:         scf.for {{.*}} to %c4
// CHECK:           scf.for {{.*}} step %c8 iter_args({{.*}}) -> (vector<1x8xf32>)
// CHECK:             arith.mulf {{.*}} : vector<1x8xf32>
// CHECK:             arith.addf {{.*}} : vector<1x8xf32>
// CHECK:           vector.reduction <add>
// CHECK:           math.rsqrt
// CHECK:           scf.for {{.*}} step %c8
// CHECK:             vector.transfer_write {{.*}} : vector<1x8xf32>
// CHECK-NOT:     linalg
func.func @norm(%x: tensor<4x64xf32>) -> tensor<4x64xf32> attributes {llmc.kernel = "reduction"} {
  %zero = arith.constant 0.0 : f32
  %few = tensor.empty() : tensor<4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%few : tensor<4xf32>) -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [affine_map<(t, c) -> (t, c)>, affine_map<(t, c) -> (t)>],
                             iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x64xf32>) outs(%zeros : tensor<4xf32>) {
  ^bb0(%in: f32, %sum: f32):
    %square = arith.mulf %in, %in : f32
    %next = arith.addf %sum, %square : f32
    linalg.yield %next : f32
  } -> tensor<4xf32>
  %room = tensor.empty() : tensor<4x64xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(t, c) -> (t, c)>, affine_map<(t, c) -> (t)>,
                                        affine_map<(t, c) -> (t, c)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%x, %squares : tensor<4x64xf32>, tensor<4xf32>) outs(%room : tensor<4x64xf32>) {
  ^bb0(%in: f32, %sum: f32, %out: f32):
    %scale = math.rsqrt %sum : f32
    %scaled = arith.mulf %in, %scale : f32
    linalg.yield %scaled : f32
  } -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// A softmax: the largest element, powers, their sum, and the quotient.
// CHECK-LABEL: func.func @softmax
// CHECK:         arith.maxnumf {{.*}} : vector<1x8xf32>
// CHECK:         vector.reduction <maxnumf>
// CHECK:         math.exp {{.*}} : vector<1x8xf32>
// CHECK:         vector.reduction <add>
// CHECK:         arith.divf {{.*}} : vector<1x8xf32>
// CHECK-NOT:     linalg
func.func @softmax(%x: tensor<4x64xf32>) -> tensor<4x64xf32> attributes {llmc.kernel = "reduction"} {
  %room = tensor.empty() : tensor<4x64xf32>
  %y = linalg.softmax dimension(1) ins(%x : tensor<4x64xf32>) outs(%room : tensor<4x64xf32>)
     -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}
