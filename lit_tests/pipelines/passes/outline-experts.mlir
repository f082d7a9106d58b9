// RUN: llmc-opt %s --outline-experts --split-input-file | filecheck %s

#map = affine_map<(d0, d1) -> (d0, d1)>

// A row of one token after the other reads the matrix of its expert, of all layers', and what
// follows the two halves of its product is computed with them.
// CHECK-LABEL: func.func @one_token(
// CHECK:         %[[Y:.*]] = call @panel_expert_matvec_0({{.*}}) : {{.*}} -> tensor<6x2x16xf32>
// CHECK-NOT:     linalg.generic
// CHECK:         tensor.collapse_shape %[[Y]] {{.*}} into tensor<6x32xf32>
// CHECK-LABEL: func.func private @panel_expert_matvec_0
// CHECK-SAME:    %[[X:[^:]*]]: tensor<2x64xf32>, %[[EXPERT:[^:]*]]: tensor<6xi64>, %[[W:[^:]*]]: tensor<5x8x4x64x16xf16>, %[[LAYER:[^:]*]]: index
// CHECK-SAME:    llmc.kernel = "panel_expert_matvec"
// CHECK:         scf.forall (%[[ROW:.*]]) in (6)
// CHECK:           %[[TOKEN:.*]] = arith.divui %[[ROW]], %c3
// CHECK:           tensor.extract_slice %[[X]][%[[TOKEN]], 0] [1, 64]
// CHECK:           %[[WHICH:.*]] = tensor.extract %[[EXPERT]][%[[ROW]]]
// CHECK:           %[[NUMBER:.*]] = arith.index_cast %[[WHICH]]
// CHECK:           %[[MATRIX:.*]] = tensor.extract_slice %{{.*}}[%[[NUMBER]], 0, 0, 0] [1, 4, 64, 16]
// CHECK:           tensor.extract_slice %[[MATRIX]][0, 0, 0] [2, 64, 16]
// CHECK:           %[[GATE:.*]] = linalg.generic
// CHECK:           tensor.extract_slice %[[MATRIX]][2, 0, 0] [2, 64, 16]
// CHECK:           %[[UP:.*]] = linalg.generic
// CHECK:           %[[PRODUCT:.*]] = linalg.generic {{.*}} ins(%[[GATE]], %[[UP]] : {{.*}} attrs =  {llmc.result}
// CHECK:           tensor.parallel_insert_slice %[[PRODUCT]] into %{{.*}}[%[[ROW]], 0, 0] [1, 2, 16]
func.func @one_token(%x: tensor<2x64xf32>, %expert: tensor<6xi64>, %stack: tensor<5x8x4x64x16xf16>, %layer: index) -> tensor<6x32xf32> {
  %w = tensor.extract_slice %stack[%layer, 0, 0, 0, 0] [1, 8, 4, 64, 16] [1, 1, 1, 1, 1] : tensor<5x8x4x64x16xf16> to tensor<8x4x64x16xf16>
  %y = "llmc.packed_expert_linear"(%x, %expert, %w) {top_k = 3 : i64}
    : (tensor<2x64xf32>, tensor<6xi64>, tensor<8x4x64x16xf16>) -> tensor<6x64xf32>
  %gate = tensor.extract_slice %y[0, 0] [6, 32] [1, 1] : tensor<6x64xf32> to tensor<6x32xf32>
  %up = tensor.extract_slice %y[0, 32] [6, 32] [1, 1] : tensor<6x64xf32> to tensor<6x32xf32>
  %room = tensor.empty() : tensor<6x32xf32>
  %z = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%gate, %up : tensor<6x32xf32>, tensor<6x32xf32>) outs(%room : tensor<6x32xf32>) {
  ^bb0(%g: f32, %u: f32, %o: f32):
    %p = arith.mulf %g, %u : f32
    linalg.yield %p : f32
  } -> tensor<6x32xf32>
  return %z : tensor<6x32xf32>
}

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>

// What the last panel has too much is cut off, and what follows reads the rest.
// CHECK-LABEL: func.func @padded(
// CHECK:         %[[Y:.*]] = call @panel_expert_matvec_0({{.*}}) : {{.*}} -> tensor<2x2x16xf32>
// CHECK:         %[[ROWS:.*]] = tensor.collapse_shape %[[Y]]
// CHECK:         %[[WHOLE:.*]] = tensor.extract_slice %[[ROWS]][0, 0] [2, 30] [1, 1]
// CHECK:         linalg.generic {{.*}} ins(%[[WHOLE]] :
func.func @padded(%x: tensor<1x64xf32>, %expert: tensor<2xi64>, %w: tensor<8x2x64x16xf32>) -> tensor<2x30xf32> {
  %y = "llmc.packed_expert_linear"(%x, %expert, %w) {top_k = 2 : i64}
    : (tensor<1x64xf32>, tensor<2xi64>, tensor<8x2x64x16xf32>) -> tensor<2x30xf32>
  %room = tensor.empty() : tensor<2x30xf32>
  %z = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<2x30xf32>) outs(%room : tensor<2x30xf32>) {
  ^bb0(%v: f32, %o: f32):
    %p = arith.negf %v : f32
    linalg.yield %p : f32
  } -> tensor<2x30xf32>
  return %z : tensor<2x30xf32>
}

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>

// What reads something beside the product stays outside.
// CHECK-LABEL: func.func @with_another(
// CHECK:         call @panel_expert_matvec_0
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %arg3 :
func.func @with_another(%x: tensor<1x64xf32>, %expert: tensor<2xi64>, %w: tensor<8x2x64x16xf32>, %r: tensor<2x32xf32>) -> tensor<2x32xf32> {
  %y = "llmc.packed_expert_linear"(%x, %expert, %w) {top_k = 2 : i64}
    : (tensor<1x64xf32>, tensor<2xi64>, tensor<8x2x64x16xf32>) -> tensor<2x32xf32>
  %room = tensor.empty() : tensor<2x32xf32>
  %z = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%y, %r : tensor<2x32xf32>, tensor<2x32xf32>) outs(%room : tensor<2x32xf32>) {
  ^bb0(%v: f32, %s: f32, %o: f32):
    %p = arith.addf %v, %s : f32
    linalg.yield %p : f32
  } -> tensor<2x32xf32>
  return %z : tensor<2x32xf32>
}

// -----

// Of any number of rows there is no kernel.
// CHECK-LABEL: func.func @any_rows(
// CHECK:         "llmc.packed_expert_linear"
func.func @any_rows(%x: tensor<?x64xf32>, %expert: tensor<?xi64>, %w: tensor<8x2x64x16xf32>) -> tensor<?x32xf32> {
  %y = "llmc.packed_expert_linear"(%x, %expert, %w) {top_k = 2 : i64}
    : (tensor<?x64xf32>, tensor<?xi64>, tensor<8x2x64x16xf32>) -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// -----

// Groups: an expert's rows lie together.
// CHECK-LABEL: func.func @many_tokens(
// CHECK:         call @panel_expert_matmul_0({{.*}}) : {{.*}} -> tensor<?x2x16xf32>
// CHECK-LABEL: func.func private @panel_expert_matmul_0
// CHECK-SAME:    %[[X:[^:]*]]: tensor<?x64xf32>, %[[FIRST:[^:]*]]: tensor<9xi32>, %[[W:[^:]*]]: tensor<8x2x64x16xf32>
// CHECK-SAME:    llmc.kernel = "panel_expert_matmul"
// CHECK:         scf.forall (%[[E:.*]]) in (8)
// CHECK:           tensor.extract %[[FIRST]][%[[E]]]
// CHECK:           %[[COUNT:.*]] = arith.subi
// CHECK:           tensor.extract_slice %[[X]][%[[START:.*]], 0] [%[[COUNT]], 64]
// CHECK:           tensor.extract_slice %[[W]][%[[E]], 0, 0, 0] [1, 2, 64, 16]
// CHECK:           linalg.generic {{.*}} attrs =  {llmc.result}
// CHECK:           tensor.parallel_insert_slice %{{.*}} into %{{.*}}[%[[START]], 0, 0] [%[[COUNT]], 2, 16]
func.func @many_tokens(%x: tensor<?x64xf32>, %first: tensor<9xi32>, %w: tensor<8x2x64x16xf32>) -> tensor<?x32xf32> {
  %y = "llmc.grouped_expert_linear"(%x, %first, %w)
    : (tensor<?x64xf32>, tensor<9xi32>, tensor<8x2x64x16xf32>) -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}
