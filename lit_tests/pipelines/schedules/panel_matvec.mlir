// RUN: llmc-opt %s --schedule='panel_matvec{panels=2 rounds=3 unroll=2 ahead=8 chain=20}' | filecheck %s

// A workgroup has 6 panels and reads 2 at once, from end to end: two rows of each in a round of the
// loop, widened in registers. 20 steps, and what is left, make a partial sum: all sums stay in
// registers until the residual is added. Rows are asked for 8 steps before, the two that lie in a line
// of the cache at once, and the first 8 before all else. Nothing of linalg is left.
// CHECK-LABEL: func.func @narrow
// CHECK-NOT:     linalg
// CHECK:         scf.forall (%[[PANEL:.*]]) = (0) to (12) step (6)
// CHECK:           scf.for %[[ROW:.*]] = %c0 to %c8 step %c1 {
// CHECK:             memref.prefetch {{.*}}[%[[PANEL]], %[[ROW]], %c0]
// CHECK:             memref.prefetch {{.*}}[%{{.*}}, %[[ROW]], %c0]
// CHECK-NOT:         memref.prefetch
// CHECK:           scf.for {{.*}} step %c2
// CHECK:             scf.for %[[FIRST:.*]] = %c0 to %c32 step %c20 iter_args(%[[SUMS:.*]] = %[[ZEROS:.*]]) -> (vector<2x16xf32>) {
// CHECK:               affine.min {{.*}}(%[[FIRST]])
// CHECK:               scf.for {{.*}} step %c2 iter_args({{.*}} = %[[ZEROS]]) -> (vector<2x16xf32>) {
// CHECK-COUNT-2:         memref.prefetch {{.*}} read
// CHECK:                 vector.transfer_read {{.*}} vector<2x16xf16>
// CHECK:                 arith.extf {{.*}} to vector<2x16xf32>
// CHECK:                 tensor.extract
// CHECK:                 arith.addf {{.*}} vector<2x16xf32>
// CHECK-NOT:             memref.prefetch
// CHECK:                 vector.transfer_read {{.*}} vector<2x16xf16>
// CHECK:                 scf.yield {{.*}} : vector<2x16xf32>
// CHECK:               %[[PART:.*]] = scf.for {{.*}} step %c1
// CHECK:                 scf.yield {{.*}} : vector<2x16xf32>
// CHECK:               %[[TOTAL:.*]] = arith.addf %[[PART]], %[[ZEROS]] : vector<2x16xf32>
// CHECK:               arith.addf %[[TOTAL]], %[[SUMS]] : vector<2x16xf32>
// CHECK-NOT:         scf.for
// CHECK:             arith.addf {{.*}} vector<2x16xf32>
// CHECK:             vector.transfer_write
// CHECK-NOT:     linalg

// One panel at once, eight rows in a round, each of which has a sum of its own: four lines of the cache
// are asked for. The eight are added up where a partial sum ends.
// RUN: llmc-opt %s --schedule='panel_matvec{panels=1 rounds=3 unroll=1 ahead=16 chain=2 sums=8}' | filecheck %s --check-prefix=ONE
// ONE-LABEL: func.func @narrow
// ONE-NOT:     linalg
// ONE:         scf.forall (%{{.*}}) = (0) to (12) step (3)
// ONE:           scf.for {{.*}} to %c16 step %c8 {
// ONE-COUNT-4:     memref.prefetch {{.*}} read
// ONE-NOT:         memref.prefetch
// ONE:           scf.for {{.*}} to %c32 step %c16 iter_args(%{{.*}} = %{{.*}}) -> (vector<16xf32>) {
// ONE:             %[[SUMS:.*]] = scf.for {{.*}} to %c16 step %c8 iter_args(%[[SUM:.*]] = %{{.*}}) -> (vector<8x16xf32>) {
// ONE-COUNT-4:       memref.prefetch {{.*}} read
// ONE-NOT:           memref.prefetch
// ONE:               vector.transfer_read {{.*}} vector<8x16xf16>
// ONE:               %[[NEXT:.*]] = arith.addf %[[SUM]], %{{.*}} : vector<8x16xf32>
// ONE-NEXT:          scf.yield %[[NEXT]]
// ONE-COUNT-8:     vector.extract %[[SUMS]]
// ONE-NOT:         vector.shuffle
#x = affine_map<(t, p, j, k) -> (t, k)>
#w = affine_map<(t, p, j, k) -> (p, k, j)>
#y = affine_map<(t, p, j, k) -> (t, p, j)>
#same = affine_map<(t, p, j) -> (t, p, j)>
func.func @narrow(%x: tensor<1x32xf32>, %w: tensor<12x32x16xf16>, %residual: tensor<1x12x16xf32>)
    -> tensor<1x12x16xf32> attributes {llmc.kernel = "panel_matvec"} {
  %zero = arith.constant 0.0 : f32
  %room = tensor.empty() : tensor<1x12x16xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%room : tensor<1x12x16xf32>) -> tensor<1x12x16xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<1x32xf32>, tensor<12x32x16xf16>) outs(%zeros : tensor<1x12x16xf32>) {
  ^bb0(%a: f32, %b: f16, %sum: f32):
    %wide = arith.extf %b : f16 to f32
    %product = arith.mulf %a, %wide : f32
    %next = arith.addf %sum, %product : f32
    linalg.yield %next : f32
  } -> tensor<1x12x16xf32>
  %z = linalg.generic {indexing_maps = [#same, #same, #same],
                       iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%y, %residual : tensor<1x12x16xf32>, tensor<1x12x16xf32>) outs(%room : tensor<1x12x16xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %sum = arith.addf %a, %b : f32
    linalg.yield %sum : f32
  } -> tensor<1x12x16xf32>
  return %z : tensor<1x12x16xf32>
}

// A kernel of another kind is left alone.
// CHECK-LABEL: func.func @other
// CHECK:         linalg.generic
func.func @other(%x: tensor<1x4x16xf32>) -> tensor<1x4x16xf32> attributes {llmc.kernel = "elementwise"} {
  %y = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x4x16xf32>) outs(%x : tensor<1x4x16xf32>) {
  ^bb0(%a: f32, %old: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  } -> tensor<1x4x16xf32>
  return %y : tensor<1x4x16xf32>
}

// Zen reads one stream fastest: a workgroup for each of the cores has one panel after the other.
// RUN: llmc-opt %s --schedule-kernels='target=cpu:znver4' | filecheck %s --check-prefix=ZEN
// ZEN-LABEL: func.func @narrow
// ZEN:         scf.forall (%{{.*}}) = (0) to (12) step (3)
// ZEN:           scf.for {{.*}} to %c3 step %c1 iter_args
// ZEN:             scf.for {{.*}} to %c32 step %c8 iter_args({{.*}}) -> (vector<8x16xf32>)

// Of AVX2's 16 registers 8 hold sums. Four rows of a panel are a line of the cache.
// RUN: llmc-opt %s --schedule-kernels='target=cpu:haswell' | filecheck %s --check-prefix=AVX2
// AVX2-LABEL: func.func @many
// AVX2:         scf.for {{.*}} step %c4 iter_args({{.*}}) -> (vector<8x8xf32>)
// AVX2-COUNT-8:   memref.prefetch
// AVX2-NOT:       memref.prefetch
// AVX2:           scf.yield {{.*}} : vector<8x8xf32>
func.func @many(%x: tensor<1x32xf32>, %w: tensor<24x32x8xf16>) -> tensor<1x24x8xf32>
    attributes {llmc.kernel = "panel_matvec"} {
  %zero = arith.constant 0.0 : f32
  %room = tensor.empty() : tensor<1x24x8xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%room : tensor<1x24x8xf32>) -> tensor<1x24x8xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<1x32xf32>, tensor<24x32x8xf16>) outs(%zeros : tensor<1x24x8xf32>) {
  ^bb0(%a: f32, %b: f16, %sum: f32):
    %wide = arith.extf %b : f16 to f32
    %product = arith.mulf %a, %wide : f32
    %next = arith.addf %sum, %product : f32
    linalg.yield %next : f32
  } -> tensor<1x24x8xf32>
  return %y : tensor<1x24x8xf32>
}
