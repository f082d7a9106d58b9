// RUN: llmc-opt %s --split-input-file --pass-pipeline='builtin.module(join-prompts,canonicalize,cse)' | filecheck %s

// The layer has rows of all sequences, and attention and appends have them apart.
// CHECK-LABEL: func.func private @prefill_batch.layer0(
// CHECK-SAME:    %[[X:[^:]+]]: tensor<1x?x8xf32>, %[[LAYER:[^:]+]]: index, %[[START:[^:]+]]: tensor<?xi64>, %[[SEQUENCE:[^:]+]]: index, %[[PAST:[^:]+]]: index) -> tensor<1x?x8xf32>
// CHECK-DAG:     %[[ROWS:.+]] = tensor.dim %[[X]], %c1
// CHECK-DAG:     %[[SEQUENCES:.+]] = tensor.dim %[[START]], %c0
// CHECK:         %[[EACH:.+]] = arith.divui %[[ROWS]], %[[SEQUENCES]]
// CHECK:         %[[APART:.+]] = tensor.expand_shape %{{.+}} output_shape [2, %[[SEQUENCES]], %[[EACH]], 4]
// CHECK:         %[[SPLIT:.+]] = linalg.transpose ins(%[[APART]] : {{.+}} permutation = [1, 0, 2, 3]
// CHECK:         %[[NEW:.+]] = "llmc.cache_append"(%{{.+}}, %[[SPLIT]], %[[LAYER]], %[[SEQUENCE]], %[[PAST]])
// CHECK:         %[[OUT:.+]] = "llmc.cached_attention"(%[[SPLIT]], %[[NEW]], %[[NEW]], %[[START]], %[[LAYER]], %[[SEQUENCE]], %[[PAST]])
// CHECK:         %[[BACK:.+]] = linalg.transpose ins(%[[OUT]] : {{.+}} permutation = [1, 0, 2, 3]
// CHECK:         %[[JOINED:.+]] = tensor.collapse_shape %[[BACK]] {{.+}} into tensor<2x?x4xf32>
// CHECK:         tensor.expand_shape %[[JOINED]] {{.+}} output_shape [1, 2, %[[ROWS]], 4]

// Positions are those of each sequence, and what follows the layers is of its last token.
// CHECK-LABEL: func.func @prefill_batch(
// CHECK-SAME:    %[[TOKENS:[^:]+]]: tensor<?x?xi64>, %[[START:[^:]+]]: tensor<?xi64>, %{{[^:]+}}: i64, %{{[^:]+}}: i64) -> tensor<?x1x8xf32>
// CHECK-DAG:     %[[B:.+]] = tensor.dim %[[TOKENS]], %c0
// CHECK-DAG:     %[[T:.+]] = tensor.dim %[[TOKENS]], %c1
// CHECK:         linalg.generic {{.+}} ins(%[[TOKENS]], %[[START]] : tensor<?x?xi64>, tensor<?xi64>)
// CHECK:         %[[Y:.+]] = call @prefill_batch.layer0(%{{.+}}, %c0, %[[START]],
// CHECK:         %[[Z:.+]] = call @prefill_batch.layer0(%[[Y]], %c1, %[[START]],
// CHECK:         %[[APART:.+]] = tensor.expand_shape %{{.+}} output_shape [%[[B]], %[[T]], 8]
// CHECK:         %[[LAST:.+]] = arith.subi %[[T]], %c1
// CHECK:         %[[ROW:.+]] = tensor.extract_slice %[[APART]][0, %[[LAST]], 0] [%[[B]], 1, 8]
// CHECK:         "llmc.rms_norm"(%[[ROW]])
// CHECK-LABEL: func.func @prefill(
#row = affine_map<(b, t) -> (b, t)>
#first = affine_map<(b, t) -> (b)>
ml_program.global private mutable @layer0.keys : tensor<2x?x2x?x4xf32>
func.func private @prefill.layer0(%x: tensor<1x?x8xf32>, %layer: index, %start: tensor<1xi64>, %sequence: index, %past: index)
    -> tensor<1x?x8xf32> attributes {llmc.layer_argument = 1 : index} {
  %c1 = arith.constant 1 : index
  %t = tensor.dim %x, %c1 : tensor<1x?x8xf32>
  %cut = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [1, %t, 2, 4] : tensor<1x?x8xf32> into tensor<1x?x2x4xf32>
  %e = tensor.empty(%t) : tensor<1x2x?x4xf32>
  %heads = linalg.transpose ins(%cut : tensor<1x?x2x4xf32>) outs(%e : tensor<1x2x?x4xf32>) permutation = [0, 2, 1, 3]
  %old = ml_program.global_load @layer0.keys : tensor<2x?x2x?x4xf32>
  %new = "llmc.cache_append"(%old, %heads, %layer, %sequence, %past) : (tensor<2x?x2x?x4xf32>, tensor<1x2x?x4xf32>, index, index, index) -> tensor<2x?x2x?x4xf32>
  %o = "llmc.cached_attention"(%heads, %new, %new, %start, %layer, %sequence, %past) {scale = 0.5 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<1x2x?x4xf32>, tensor<2x?x2x?x4xf32>, tensor<2x?x2x?x4xf32>, tensor<1xi64>, index, index, index) -> tensor<1x2x?x4xf32>
  ml_program.global_store @layer0.keys = %new : tensor<2x?x2x?x4xf32>
  %f = tensor.empty(%t) : tensor<1x?x2x4xf32>
  %back = linalg.transpose ins(%o : tensor<1x2x?x4xf32>) outs(%f : tensor<1x?x2x4xf32>) permutation = [0, 2, 1, 3]
  %y = tensor.collapse_shape %back [[0], [1], [2, 3]] : tensor<1x?x2x4xf32> into tensor<1x?x8xf32>
  return %y : tensor<1x?x8xf32>
}
func.func private @embed(tensor<1x?xi64>, tensor<1x?xi64>) -> tensor<1x?x8xf32>
func.func @prefill(%tokens: tensor<1x?xi64>, %start: tensor<1xi64>, %sequence: i64, %past: i64) -> tensor<1x1x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %s = arith.index_cast %sequence : i64 to index
  %p = arith.index_cast %past : i64 to index
  %t = tensor.dim %tokens, %c1 : tensor<1x?xi64>
  %e = tensor.empty(%t) : tensor<1x?xi64>
  %positions = linalg.generic {indexing_maps = [#row, #first, #row], iterator_types = ["parallel", "parallel"]}
      ins(%tokens, %start : tensor<1x?xi64>, tensor<1xi64>) outs(%e : tensor<1x?xi64>) {
  ^bb0(%token: i64, %first: i64, %out: i64):
    %i = linalg.index 1 : index
    %column = arith.addi %p, %i : index
    %at = arith.index_cast %column : index to i64
    %position = arith.subi %at, %first : i64
    linalg.yield %position : i64
  } -> tensor<1x?xi64>
  %x = call @embed(%tokens, %positions) : (tensor<1x?xi64>, tensor<1x?xi64>) -> tensor<1x?x8xf32>
  %y = call @prefill.layer0(%x, %c0, %start, %s, %p) : (tensor<1x?x8xf32>, index, tensor<1xi64>, index, index) -> tensor<1x?x8xf32>
  %z = call @prefill.layer0(%y, %c1, %start, %s, %p) : (tensor<1x?x8xf32>, index, tensor<1xi64>, index, index) -> tensor<1x?x8xf32>
  %last = arith.subi %t, %c1 : index
  %row = tensor.extract_slice %z[0, %last, 0] [1, 1, 8] [1, 1, 1] : tensor<1x?x8xf32> to tensor<1x1x8xf32>
  %o = "llmc.rms_norm"(%row) {operandSegmentSizes = array<i32: 1, 0>, epsilon = 0.01 : f64, offset = 0.0 : f64} : (tensor<1x1x8xf32>) -> tensor<1x1x8xf32>
  return %o : tensor<1x1x8xf32>
}
func.func private @decode_batch.layer0(%x: tensor<?x1x8xf32>, %layer: index, %start: tensor<?xi64>, %sequence: index, %past: index)
    -> tensor<?x1x8xf32> attributes {llmc.layer_argument = 1 : index} {
  return %x : tensor<?x1x8xf32>
}
func.func private @embed_batch(tensor<?x1xi64>) -> tensor<?x1x8xf32>
func.func @decode_batch(%tokens: tensor<?x1xi64>, %start: tensor<?xi64>, %sequence: i64, %past: i64) -> tensor<?x1x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %s = arith.index_cast %sequence : i64 to index
  %p = arith.index_cast %past : i64 to index
  %x = call @embed_batch(%tokens) : (tensor<?x1xi64>) -> tensor<?x1x8xf32>
  %y = call @decode_batch.layer0(%x, %c0, %start, %s, %p) : (tensor<?x1x8xf32>, index, tensor<?xi64>, index, index) -> tensor<?x1x8xf32>
  %z = call @decode_batch.layer0(%y, %c1, %start, %s, %p) : (tensor<?x1x8xf32>, index, tensor<?xi64>, index, index) -> tensor<?x1x8xf32>
  %o = "llmc.rms_norm"(%z) {operandSegmentSizes = array<i32: 1, 0>, epsilon = 0.01 : f64, offset = 0.0 : f64} : (tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
  return %o : tensor<?x1x8xf32>
}
