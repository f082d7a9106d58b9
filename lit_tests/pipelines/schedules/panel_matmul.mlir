// RUN: llmc-opt %s --schedule='panel_matmul{rows=3 panels=2 unroll=1 ahead=8 chain=16}' | filecheck %s

// Workgroups have 2 panels each, the first 8 rows of which memory is asked for before all else. As many
// rows as there are are computed 3 at a time, what is left of them 2 at a time, and then one: partial
// sums of fixed numbers of rows are in registers, to which a number of each row times a row of each
// panel is added 16 times, before they are added to the sums. Nothing is masked.
// CHECK-LABEL: func.func @any_rows
// CHECK-NOT:     {{linalg|mask}}
// CHECK:         scf.forall (%[[PANEL:.*]]) = (0) to (12) step (2)
// CHECK:           scf.for %[[ROW:.*]] = %c0 to %c8 step %c1 {
// CHECK:             memref.prefetch {{.*}}[%[[PANEL]], %[[ROW]], %c0]
// CHECK:             memref.prefetch {{.*}}[%{{.*}}, %[[ROW]], %c0]
// CHECK-NOT:         memref.prefetch
// CHECK:           scf.for {{.*}} step %c3
// CHECK:             scf.for {{.*}} to %c32 step %c16 iter_args(%[[SUMS:.*]] = %[[ZEROS:.*]]) -> (vector<3x2x16xf32>) {
// CHECK:               %[[PART:.*]] = scf.for {{.*}} to %c16 step %c1 iter_args({{.*}} = %[[ZEROS]])
// CHECK-COUNT-3:         tensor.extract
// CHECK:                 vector.broadcast {{.*}} : vector<3x1x1xf32> to vector<3x2x16xf32>
// CHECK-COUNT-2:         memref.prefetch {{.*}} read
// CHECK:                 vector.transfer_read {{.*}} tensor<12x32x16xf32>
// CHECK:                 scf.yield {{.*}} : vector<3x2x16xf32>
// CHECK:               %[[NEXT:.*]] = arith.addf %[[PART]], %[[SUMS]] : vector<3x2x16xf32>
// CHECK:               scf.yield %[[NEXT]] : vector<3x2x16xf32>
// CHECK:             vector.transfer_write {{.*}} vector<3x2x16xf32>
// CHECK:           scf.for {{.*}} step %c3
// CHECK:             scf.for {{.*}} step %c2
// CHECK:               scf.for {{.*}} to %c32 {{.*}} -> (vector<2x2x16xf32>) {
// CHECK:               vector.transfer_write {{.*}} vector<2x2x16xf32>
// CHECK:             scf.for {{.*}} step %c2
// CHECK:               scf.for {{.*}} step %c1
// CHECK:                 scf.for {{.*}} to %c32 {{.*}} -> (vector<2x16xf32>) {
// CHECK-NOT:     {{linalg|mask}}
#x = affine_map<(t, p, j, k) -> (t, k)>
#w = affine_map<(t, p, j, k) -> (p, k, j)>
#y = affine_map<(t, p, j, k) -> (t, p, j)>
func.func @any_rows(%x: tensor<?x32xf32>, %w: tensor<12x32x16xf32>) -> tensor<?x12x16xf32>
    attributes {llmc.kernel = "panel_matmul"} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %rows = tensor.dim %x, %c0 : tensor<?x32xf32>
  %room = tensor.empty(%rows) : tensor<?x12x16xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%room : tensor<?x12x16xf32>) -> tensor<?x12x16xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<?x32xf32>, tensor<12x32x16xf32>) outs(%zeros : tensor<?x12x16xf32>) {
  ^bb0(%a: f32, %b: f32, %sum: f32):
    %product = arith.mulf %a, %b : f32
    %next = arith.addf %sum, %product : f32
    linalg.yield %next : f32
  } -> tensor<?x12x16xf32>
  return %y : tensor<?x12x16xf32>
}
