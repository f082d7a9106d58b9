// RUN: llmc-opt %s --split-input-file --schedule='panel_expert_matvec{panels=1 rounds=2 unroll=1 ahead=16 chain=2 sums=8}' | filecheck %s

// A grid of rows, and in it of panels, two for each workgroup. What is read and asked for are rows of
// the expert's panels where they lie; eight of them have sums of their own.
// CHECK-LABEL: func.func private @experts
// CHECK-NOT:     linalg
// CHECK:         scf.forall (%[[ROW:.*]]) in (6)
// CHECK:           %[[TOKEN:.*]] = arith.divui %[[ROW]], %c3
// CHECK:           tensor.extract %arg1[%[[ROW]]]
// CHECK:           %[[EXPERT:.*]] = arith.index_cast
// CHECK:           scf.forall (%[[PANEL:.*]]) = (0) to (4) step (2)
// CHECK:             scf.for %[[FIRST:.*]] = %c0 to %c16 step %c8 {
// CHECK:               memref.prefetch {{.*}}[%[[EXPERT]], %[[PANEL]], %[[FIRST]], %c0]
// CHECK:             scf.for %[[ROUND:.*]] = %c0 to %c2 step %c1
// CHECK:               scf.for {{.*}} = %c0 to %c64 step %c16 iter_args({{.*}}) -> (vector<16xf32>)
// CHECK:                 scf.for {{.*}} step %c8 iter_args({{.*}}) -> (vector<8x16xf32>)
// CHECK:                   %[[OWN:.*]] = arith.addi %[[ROUND]], %[[PANEL]]
// CHECK-COUNT-4:           memref.prefetch {{.*}}[%[[EXPERT]], %[[OWN]],
// CHECK:                   vector.transfer_read %arg2[%[[EXPERT]], %[[OWN]], {{.*}} vector<8x16xf16>
// CHECK:                   arith.extf
// CHECK-COUNT-8:           tensor.extract %arg0[%[[TOKEN]],
// CHECK:                   arith.addf {{.*}} : vector<8x16xf32>
// CHECK-COUNT-8:         vector.extract
// CHECK:             vector.transfer_write
// CHECK-NOT:     linalg
// CHECK:         return
#x = affine_map<(t, p, j, k) -> (t, k)>
#w = affine_map<(t, p, j, k) -> (p, k, j)>
#y = affine_map<(t, p, j, k) -> (t, p, j)>
func.func private @experts(%x: tensor<2x64xf32>, %expert: tensor<6xi64>, %w: tensor<8x4x64x16xf16>) -> tensor<6x4x16xf32>
    attributes {llmc.kernel = "panel_expert_matvec"} {
  %zero = arith.constant 0.0 : f32
  %c3 = arith.constant 3 : index
  %room = tensor.empty() : tensor<6x4x16xf32>
  %all = scf.forall (%row) in (6) shared_outs(%out = %room) -> (tensor<6x4x16xf32>) {
    %token = arith.divui %row, %c3 : index
    %which = tensor.extract %expert[%row] : tensor<6xi64>
    %number = arith.index_cast %which : i64 to index
    %matrix = tensor.extract_slice %w[%number, 0, 0, 0] [1, 4, 64, 16] [1, 1, 1, 1] : tensor<8x4x64x16xf16> to tensor<4x64x16xf16>
    %one = tensor.extract_slice %x[%token, 0] [1, 64] [1, 1] : tensor<2x64xf32> to tensor<1x64xf32>
    %empty = tensor.empty() : tensor<1x4x16xf32>
    %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
    %y = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
        ins(%one, %matrix : tensor<1x64xf32>, tensor<4x64x16xf16>) outs(%start : tensor<1x4x16xf32>)
        attrs = {llmc.result} {
    ^bb0(%a: f32, %b: f16, %s: f32):
      %wide = arith.extf %b : f16 to f32
      %p = arith.mulf %a, %wide fastmath<contract> : f32
      %sum = arith.addf %s, %p fastmath<contract> : f32
      linalg.yield %sum : f32
    } -> tensor<1x4x16xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %y into %out[%row, 0, 0] [1, 4, 16] [1, 1, 1] : tensor<1x4x16xf32> into tensor<6x4x16xf32>
    }
  }
  return %all : tensor<6x4x16xf32>
}

// -----

// A grid of experts, and in it of panels. Of the rows of an expert four are computed together as often
// as that goes, then two, then one.
// RUN: llmc-opt %s --split-input-file --schedule='panel_expert_matmul{rows=4 panels=2 ahead=16}' | filecheck %s --check-prefix=ROWS
// ROWS-LABEL: func.func private @groups
// ROWS-NOT:     linalg
// ROWS:         scf.forall (%[[EXPERT:.*]]) in (8)
// ROWS:           %[[COUNT:.*]] = arith.subi
// ROWS:           scf.forall (%[[PANEL:.*]]) = (0) to (4) step (2)
// ROWS:             scf.for {{.*}} step %c4
// ROWS:               vector.transfer_read %arg2[%[[EXPERT]],
// ROWS:             scf.for {{.*}} step %c2
// ROWS:             scf.for {{.*}} step %c1
// ROWS-NOT:     linalg
#x = affine_map<(t, p, j, k) -> (t, k)>
#w = affine_map<(t, p, j, k) -> (p, k, j)>
#y = affine_map<(t, p, j, k) -> (t, p, j)>
func.func private @groups(%x: tensor<?x64xf32>, %first: tensor<9xi32>, %w: tensor<8x4x64x16xf16>) -> tensor<?x4x16xf32>
    attributes {llmc.kernel = "panel_expert_matmul"} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %x, %c0 : tensor<?x64xf32>
  %room = tensor.empty(%rows) : tensor<?x4x16xf32>
  %all = scf.forall (%e) in (8) shared_outs(%out = %room) -> (tensor<?x4x16xf32>) {
    %begin = tensor.extract %first[%e] : tensor<9xi32>
    %start = arith.index_cast %begin : i32 to index
    %next = arith.addi %e, %c1 : index
    %behind = tensor.extract %first[%next] : tensor<9xi32>
    %end = arith.index_cast %behind : i32 to index
    %count = arith.subi %end, %start : index
    %matrix = tensor.extract_slice %w[%e, 0, 0, 0] [1, 4, 64, 16] [1, 1, 1, 1] : tensor<8x4x64x16xf16> to tensor<4x64x16xf16>
    %own = tensor.extract_slice %x[%start, 0] [%count, 64] [1, 1] : tensor<?x64xf32> to tensor<?x64xf32>
    %empty = tensor.empty(%count) : tensor<?x4x16xf32>
    %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x4x16xf32>) -> tensor<?x4x16xf32>
    %y = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
        ins(%own, %matrix : tensor<?x64xf32>, tensor<4x64x16xf16>) outs(%zeros : tensor<?x4x16xf32>)
        attrs = {llmc.result} {
    ^bb0(%a: f32, %b: f16, %s: f32):
      %wide = arith.extf %b : f16 to f32
      %p = arith.mulf %a, %wide fastmath<contract> : f32
      %sum = arith.addf %s, %p fastmath<contract> : f32
      linalg.yield %sum : f32
    } -> tensor<?x4x16xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %y into %out[%start, 0, 0] [%count, 4, 16] [1, 1, 1] : tensor<?x4x16xf32> into tensor<?x4x16xf32>
    }
  }
  return %all : tensor<?x4x16xf32>
}
