// RUN: llmc-opt %s --schedule='row{lanes=8 rounds=2}' | filecheck %s

// A workgroup computes 16 elements of the row, 8 at a time. What the whole row is folded to comes
// before, in 8 partial sums that stay in a register. Nothing of linalg is left.
// CHECK-LABEL: func.func @norm
// CHECK-NOT:     linalg
// CHECK:         %[[PARTIAL:.*]] = scf.for {{.*}} step %c8 iter_args({{.*}}) -> (vector<8xf32>)
// CHECK:           arith.mulf {{.*}} : vector<8xf32>
// CHECK:           arith.addf
// CHECK:         %[[SUM:.*]] = vector.reduction <add>, %[[PARTIAL]]
// CHECK:         scf.forall (%{{.*}}) = (0) to (64) step (16)
// CHECK:           %[[ALL:.*]] = vector.broadcast %[[SUM]]
// CHECK:           %[[ROOT:.*]] = math.rsqrt %[[ALL]] : vector<8xf32>
// CHECK:           scf.for {{.*}} to %c16 step %c8
// CHECK:             arith.mulf %{{.*}}, %[[ROOT]]
// CHECK:             vector.transfer_write
// CHECK-NOT:     linalg
#n = affine_map<(n) -> (n)>
#one = affine_map<(n) -> ()>
func.func @norm(%x: tensor<64xf32>) -> tensor<64xf32> attributes {llmc.kernel = "row"} {
  %zero = arith.constant 0.0 : f32
  %one = tensor.empty() : tensor<f32>
  %start = linalg.fill ins(%zero : f32) outs(%one : tensor<f32>) -> tensor<f32>
  %square = linalg.generic {indexing_maps = [#n, #one], iterator_types = ["reduction"]} ins(%x : tensor<64xf32>) outs(%start : tensor<f32>) {
  ^bb0(%a: f32, %total: f32):
    %s = arith.mulf %a, %a : f32
    %t = arith.addf %total, %s : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  %room = tensor.empty() : tensor<64xf32>
  %normed = linalg.generic {indexing_maps = [#n, #one, #n], iterator_types = ["parallel"]} ins(%x, %square : tensor<64xf32>, tensor<f32>) outs(%room : tensor<64xf32>) {
  ^bb0(%a: f32, %s: f32, %old: f32):
    %r = math.rsqrt %s : f32
    %n = arith.mulf %a, %r : f32
    linalg.yield %n : f32
  } -> tensor<64xf32>
  return %normed : tensor<64xf32>
}
