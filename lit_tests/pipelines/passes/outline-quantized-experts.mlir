// RUN: llmc-opt %s --outline-quantized-experts='target=cpu:sapphirerapids' --split-input-file --verify-diagnostics | filecheck %s
// RUN: not llmc-opt %s --outline-quantized-experts='target=gpu' --split-input-file 2>&1 | filecheck %s --check-prefix=TARGET
// TARGET: there is no target 'gpu'

// The rows of one token: each is quantised and reads the matrix of its expert, of all layers'.
// CHECK-LABEL: func.func @one_token(
// CHECK:         call @quantized_expert_matvec_0({{.*}}) : {{.*}} -> tensor<6x4x16xf32>
// CHECK:         tensor.collapse_shape {{.*}} into tensor<6x64xf32>
// CHECK-LABEL: func.func private @quantized_expert_matvec_0
// CHECK-SAME:    %[[X:[^:]*]]: tensor<2x2x32xf32>, %[[EXPERT:[^:]*]]: tensor<6xi64>, %[[W:[^:]*]]: tensor<5x8x4x2x288xi8>, %[[LAYER:[^:]*]]: index
// CHECK-SAME:    llmc.kernel = "quantized_expert_matvec"
// CHECK:         scf.forall (%[[ROW:.*]]) in (6)
// CHECK:           %[[TOKEN:.*]] = arith.divui %[[ROW]], %c3
// CHECK:           tensor.extract_slice %[[X]][%[[TOKEN]], 0, 0] [1, 2, 32]
// CHECK:           llmc.stage = "values"
// CHECK:           %[[WHICH:.*]] = tensor.extract %[[EXPERT]][%[[ROW]]]
// CHECK:           %[[NUMBER:.*]] = arith.index_cast %[[WHICH]]
// CHECK:           %[[STACK:.*]] = tensor.extract_slice %[[W]][%[[LAYER]], 0, 0, 0, 0]
// CHECK:           tensor.extract_slice %[[STACK]][%[[NUMBER]], 0, 0, 0] [1, 4, 2, 288]
// CHECK:           llmc.stage = "sums0"
// CHECK:           tensor.parallel_insert_slice %{{.*}} into %{{.*}}[%[[ROW]], 0, 0] [1, 4, 16]
func.func @one_token(%x: tensor<2x64xf32>, %expert: tensor<6xi64>, %stack: tensor<5x8x4x2x288xi8>, %layer: index) -> tensor<6x64xf32> {
  %w = tensor.extract_slice %stack[%layer, 0, 0, 0, 0] [1, 8, 4, 2, 288] [1, 1, 1, 1, 1] : tensor<5x8x4x2x288xi8> to tensor<8x4x2x288xi8>
  %y = "llmc.packed_quantized_expert_linear"(%x, %expert, %w) {format = "q4_0", top_k = 3 : i64}
    : (tensor<2x64xf32>, tensor<6xi64>, tensor<8x4x2x288xi8>) -> tensor<6x64xf32>
  return %y : tensor<6x64xf32>
}

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>

// Groups: tokens are quantised before their rows are repeated. An expert's rows lie together, and
// what follows them one by one is computed with them.
// CHECK-LABEL: func.func @many_tokens
// CHECK:         %[[ROWS:.*]]:3 = call @quantize_rows_0(%{{.*}}) : (tensor<?x2x32xf32>)
// CHECK:         "llmc.take_rows"(%arg1, %[[ROWS]]#0)
// CHECK:         "llmc.take_rows"(%arg1, %[[ROWS]]#1)
// CHECK:         "llmc.take_rows"(%arg1, %[[ROWS]]#2)
// CHECK:         call @quantized_expert_matmul_0({{.*}}) : {{.*}} -> tensor<?x2x16xf32>
// CHECK-NOT:     arith.mulf
// CHECK:         return
// CHECK-LABEL: func.func private @quantized_expert_matmul_0
// CHECK-SAME:    %[[VALUES:[^:]*]]: tensor<?x2x32xi8>, %{{[^:]*}}: tensor<?x2xf32>, %{{[^:]*}}: tensor<?x2xi32>, %[[FIRST:[^:]*]]: tensor<9xi32>
// CHECK:         scf.forall (%[[E:.*]]) in (8)
// CHECK:           tensor.extract %[[FIRST]][%[[E]]]
// CHECK:           %[[COUNT:.*]] = arith.subi
// CHECK:           tensor.extract_slice %[[VALUES]][%[[START:.*]], 0, 0] [%[[COUNT]], 2, 32]
// CHECK:           llmc.stage = "sums0"
// CHECK:           llmc.stage = "sums1"
// CHECK:           arith.mulf
// CHECK:           tensor.parallel_insert_slice %{{.*}} into %{{.*}}[%[[START]], 0, 0] [%[[COUNT]], 2, 16]
func.func @many_tokens(%x: tensor<?x64xf32>, %ids: tensor<?xi32>, %first: tensor<9xi32>, %w: tensor<8x4x2x288xi8>) -> tensor<?x32xf32> {
  %rows = "llmc.take_rows"(%ids, %x) {top_k = 1 : i64} : (tensor<?xi32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  %y = "llmc.grouped_quantized_expert_linear"(%rows, %first, %w) {format = "q4_0"}
    : (tensor<?x64xf32>, tensor<9xi32>, tensor<8x4x2x288xi8>) -> tensor<?x64xf32>
  %c0 = arith.constant 0 : index
  %count = tensor.dim %y, %c0 : tensor<?x64xf32>
  %gate = tensor.extract_slice %y[0, 0] [%count, 32] [1, 1] : tensor<?x64xf32> to tensor<?x32xf32>
  %up = tensor.extract_slice %y[0, 32] [%count, 32] [1, 1] : tensor<?x64xf32> to tensor<?x32xf32>
  %room = tensor.empty(%count) : tensor<?x32xf32>
  %product = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%gate, %up : tensor<?x32xf32>, tensor<?x32xf32>) outs(%room : tensor<?x32xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<?x32xf32>
  return %product : tensor<?x32xf32>
}

// -----

// One panel, and a number of rows that is not known, have no kernel.
// CHECK-LABEL: func.func @left_alone
// CHECK-COUNT-2: "llmc.packed_quantized_expert_linear"
func.func @left_alone(%x: tensor<1x32xf32>, %expert: tensor<2xi64>, %w: tensor<8x1x1x288xi8>,
                      %xs: tensor<?x32xf32>, %experts: tensor<?xi64>, %ws: tensor<8x2x1x288xi8>) -> (tensor<2x16xf32>, tensor<?x32xf32>) {
  %y = "llmc.packed_quantized_expert_linear"(%x, %expert, %w) {format = "q4_0", top_k = 2 : i64}
    : (tensor<1x32xf32>, tensor<2xi64>, tensor<8x1x1x288xi8>) -> tensor<2x16xf32>
  %z = "llmc.packed_quantized_expert_linear"(%xs, %experts, %ws) {format = "q4_0", top_k = 2 : i64}
    : (tensor<?x32xf32>, tensor<?xi64>, tensor<8x2x1x288xi8>) -> tensor<?x32xf32>
  return %y, %z : tensor<2x16xf32>, tensor<?x32xf32>
}

// -----

func.func @invalid(%x: tensor<1x32xf32>, %expert: tensor<2xi64>, %w: tensor<8x2x2x288xi8>) {
  // expected-error@+1 {{'llmc.packed_quantized_expert_linear' op operand 'x' must have its last dimension = 64, but has 32}}
  %y = "llmc.packed_quantized_expert_linear"(%x, %expert, %w) {format = "q4_0", top_k = 2 : i64}
    : (tensor<1x32xf32>, tensor<2xi64>, tensor<8x2x2x288xi8>) -> tensor<2x32xf32>
  return
}
