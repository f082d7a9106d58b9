// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(group-expert-rows,cse)' | filecheck %s

#map = affine_map<(d0, d1) -> (d0, d1)>

// Both layers follow one choice of experts and share its groups. Rows are put in their order once,
// and put back at the end.
// CHECK-LABEL: func.func @many_tokens
// CHECK:         %[[G:.+]]:3 = "llmc.group_rows"(%arg1)
// CHECK-SAME:      (tensor<?xi64>) -> (tensor<?xi32>, tensor<5xi32>, tensor<?xi32>)
// CHECK-NEXT:    %[[X:.+]] = "llmc.take_rows"(%[[G]]#0, %arg0) {top_k = 2 : i64}
// CHECK-NEXT:    %[[UP:.+]] = "llmc.grouped_expert_linear"(%[[X]], %[[G]]#1, %arg2)
// CHECK-SAME:      -> tensor<?x10xf32>
// CHECK-NEXT:    %[[DOWN:.+]] = "llmc.grouped_expert_linear"(%[[UP]], %[[G]]#1, %arg3)
// CHECK-NEXT:    %[[BACK:.+]] = "llmc.take_rows"(%[[G]]#2, %[[DOWN]])
// CHECK-NEXT:    return %[[BACK]]
func.func @many_tokens(%x: tensor<?x6xf32>, %expert: tensor<?xi64>, %up: tensor<4x2x6x8xf32>,
                       %down: tensor<4x1x10x8xf16>) -> tensor<?x6xf32> {
  %y = "llmc.packed_expert_linear"(%x, %expert, %up) {top_k = 2 : i64}
     : (tensor<?x6xf32>, tensor<?xi64>, tensor<4x2x6x8xf32>) -> tensor<?x10xf32>
  %z = "llmc.packed_expert_linear"(%y, %expert, %down) {top_k = 1 : i64}
     : (tensor<?x10xf32>, tensor<?xi64>, tensor<4x1x10x8xf16>) -> tensor<?x6xf32>
  return %z : tensor<?x6xf32>
}

// The experts of one token differ.
// CHECK-LABEL: func.func @one_token
// CHECK-NOT:     llmc.group_rows
// CHECK:         "llmc.packed_expert_linear"
func.func @one_token(%x: tensor<1x6xf32>, %expert: tensor<2xi64>, %up: tensor<4x2x6x8xf32>)
    -> tensor<2x10xf32> {
  %y = "llmc.packed_expert_linear"(%x, %expert, %up) {top_k = 2 : i64}
     : (tensor<1x6xf32>, tensor<2xi64>, tensor<4x2x6x8xf32>) -> tensor<2x10xf32>
  return %y : tensor<2x10xf32>
}

// Blocks: rows stay in the order of their groups for what is done to them one by one, too.
// CHECK-LABEL: func.func @blocks
// CHECK-NOT:     llmc.packed_quantized_expert_linear
// CHECK:         %[[G:.+]]:3 = "llmc.group_rows"(%arg1)
// CHECK-NEXT:    %[[X:.+]] = "llmc.take_rows"(%[[G]]#0, %arg0) {top_k = 2 : i64}
// CHECK-NEXT:    %[[Y:.+]] = "llmc.grouped_quantized_expert_linear"(%[[X]], %[[G]]#1, %arg2) {format = "q4_0"}
// CHECK:         tensor.extract_slice %[[Y]]
// CHECK:         tensor.extract_slice %[[Y]]
// CHECK:         %[[H:.+]] = linalg.generic
// CHECK-NOT:     llmc.take_rows
// CHECK:         %[[Z:.+]] = "llmc.grouped_quantized_expert_linear"(%[[H]], %[[G]]#1, %arg3)
// CHECK-NEXT:    %[[BACK:.+]] = "llmc.take_rows"(%[[G]]#2, %[[Z]])
// CHECK-NEXT:    return %[[BACK]]
func.func @blocks(%x: tensor<?x64xf32>, %expert: tensor<?xi64>, %up: tensor<8x4x2x288xi8>, %down: tensor<8x4x1x288xi8>)
    -> tensor<?x64xf32> {
  %y = "llmc.packed_quantized_expert_linear"(%x, %expert, %up) {format = "q4_0", top_k = 2 : i64}
    : (tensor<?x64xf32>, tensor<?xi64>, tensor<8x4x2x288xi8>) -> tensor<?x64xf32>
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %y, %c0 : tensor<?x64xf32>
  %gate = tensor.extract_slice %y[0, 0] [%rows, 32] [1, 1] : tensor<?x64xf32> to tensor<?x32xf32>
  %factor = tensor.extract_slice %y[0, 32] [%rows, 32] [1, 1] : tensor<?x64xf32> to tensor<?x32xf32>
  %room = tensor.empty(%rows) : tensor<?x32xf32>
  %h = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%gate, %factor : tensor<?x32xf32>, tensor<?x32xf32>) outs(%room : tensor<?x32xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %product = arith.mulf %a, %b : f32
    linalg.yield %product : f32
  } -> tensor<?x32xf32>
  %z = "llmc.packed_quantized_expert_linear"(%h, %expert, %down) {format = "q4_0", top_k = 1 : i64}
    : (tensor<?x32xf32>, tensor<?xi64>, tensor<8x4x1x288xi8>) -> tensor<?x64xf32>
  return %z : tensor<?x64xf32>
}

// What experts make of a row is added up from where it lies. What is put back by other places, is so.
// CHECK-LABEL: func.func @combined
// CHECK:         %[[G:.+]]:3 = "llmc.group_rows"(%arg1)
// CHECK:         %[[Y:.+]] = "llmc.grouped_expert_linear"
// CHECK-NOT:     "llmc.take_rows"(%[[G]]#2
// CHECK:         "llmc.combine_grouped_experts"(%[[Y]], %[[G]]#2, %arg3)
// CHECK:         %[[OTHER:.+]] = "llmc.take_rows"(%arg5, %arg4)
// CHECK:         "llmc.combine_experts"(%[[OTHER]], %arg3)
func.func @combined(%x: tensor<?x6xf32>, %expert: tensor<?xi64>, %up: tensor<4x2x6x8xf32>, %weights: tensor<?x2xf32>,
                    %rows: tensor<?x10xf32>, %places: tensor<?xi32>) -> (tensor<?x10xf32>, tensor<?x10xf32>) {
  %y = "llmc.packed_expert_linear"(%x, %expert, %up) {top_k = 2 : i64}
     : (tensor<?x6xf32>, tensor<?xi64>, tensor<4x2x6x8xf32>) -> tensor<?x10xf32>
  %sum = "llmc.combine_experts"(%y, %weights) : (tensor<?x10xf32>, tensor<?x2xf32>) -> tensor<?x10xf32>
  %put = "llmc.take_rows"(%places, %rows) {top_k = 1 : i64} : (tensor<?xi32>, tensor<?x10xf32>) -> tensor<?x10xf32>
  %other = "llmc.combine_experts"(%put, %weights) : (tensor<?x10xf32>, tensor<?x2xf32>) -> tensor<?x10xf32>
  return %sum, %other : tensor<?x10xf32>, tensor<?x10xf32>
}

// The same with a residual of more dimensions, of which it becomes one.
// CHECK-LABEL: func.func @residual
// CHECK:         %[[ROWS:.+]] = tensor.collapse_shape %arg4 {{.+}} into tensor<?x10xf32>
// CHECK:         %[[SUM:.+]] = "llmc.combine_grouped_experts"(%{{.+}}, %{{.+}}#2, %arg3, %[[ROWS]])
// CHECK:         %[[OUT:.+]] = tensor.expand_shape %[[SUM]]
// CHECK-NOT:     linalg.generic
// CHECK:         return %[[OUT]]
#cube = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @residual(%x: tensor<?x6xf32>, %expert: tensor<?xi64>, %up: tensor<4x2x6x8xf32>, %weights: tensor<?x2xf32>,
                    %residual: tensor<?x1x10xf32>) -> tensor<?x1x10xf32> {
  %c0 = arith.constant 0 : index
  %y = "llmc.packed_expert_linear"(%x, %expert, %up) {top_k = 2 : i64}
     : (tensor<?x6xf32>, tensor<?xi64>, tensor<4x2x6x8xf32>) -> tensor<?x10xf32>
  %sum = "llmc.combine_experts"(%y, %weights) : (tensor<?x10xf32>, tensor<?x2xf32>) -> tensor<?x10xf32>
  %rows = tensor.dim %sum, %c0 : tensor<?x10xf32>
  %apart = tensor.expand_shape %sum [[0, 1], [2]] output_shape [%rows, 1, 10] : tensor<?x10xf32> into tensor<?x1x10xf32>
  %room = tensor.empty(%rows) : tensor<?x1x10xf32>
  %out = linalg.generic {indexing_maps = [#cube, #cube, #cube], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%residual, %apart : tensor<?x1x10xf32>, tensor<?x1x10xf32>) outs(%room : tensor<?x1x10xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<?x1x10xf32>
  return %out : tensor<?x1x10xf32>
}

// What reads something else of each row needs them put back first.
// CHECK-LABEL: func.func @with_another
// CHECK:         %[[Y:.+]] = "llmc.grouped_quantized_expert_linear"
// CHECK:         %[[BACK:.+]] = "llmc.take_rows"(%{{.+}}#2, %[[Y]])
// CHECK:         linalg.generic {{.+}} ins(%[[BACK]], %arg3 :
func.func @with_another(%x: tensor<?x64xf32>, %expert: tensor<?xi64>, %w: tensor<8x4x2x288xi8>, %other: tensor<?x64xf32>,
                        %room: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %y = "llmc.packed_quantized_expert_linear"(%x, %expert, %w) {format = "q4_0", top_k = 2 : i64}
    : (tensor<?x64xf32>, tensor<?xi64>, tensor<8x4x2x288xi8>) -> tensor<?x64xf32>
  %sum = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%y, %other : tensor<?x64xf32>, tensor<?x64xf32>) outs(%room : tensor<?x64xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<?x64xf32>
  return %sum : tensor<?x64xf32>
}

// -----

func.func @invalid(%x: tensor<?x6xf32>, %expert: tensor<?xi64>, %w: tensor<4x2x5x8xf32>) {
  // expected-error@+1 {{'llmc.packed_expert_linear' op}}
  %y = "llmc.packed_expert_linear"(%x, %expert, %w) {top_k = 2 : i64}
     : (tensor<?x6xf32>, tensor<?xi64>, tensor<4x2x5x8xf32>) -> tensor<?x10xf32>
  return
}

// -----

// What depends on where a row stands is computed once rows are back in their places.
// CHECK-LABEL: func.func @numbered
// CHECK:         %[[BACK:.+]] = "llmc.take_rows"(%{{.+}}#2, %{{.+}})
// CHECK:         linalg.generic {{.+}} ins(%[[BACK]] :
// CHECK:           linalg.index 0
#map = affine_map<(d0, d1) -> (d0, d1)>
func.func @numbered(%x: tensor<?x6xf32>, %expert: tensor<?xi64>, %up: tensor<4x2x6x8xf32>) -> tensor<?x10xf32> {
  %c0 = arith.constant 0 : index
  %y = "llmc.packed_expert_linear"(%x, %expert, %up) {top_k = 2 : i64}
     : (tensor<?x6xf32>, tensor<?xi64>, tensor<4x2x6x8xf32>) -> tensor<?x10xf32>
  %rows = tensor.dim %y, %c0 : tensor<?x10xf32>
  %room = tensor.empty(%rows) : tensor<?x10xf32>
  %h = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<?x10xf32>) outs(%room : tensor<?x10xf32>) {
  ^bb0(%a: f32, %old: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i64
    %f = arith.sitofp %j : i64 to f32
    %p = arith.mulf %a, %f : f32
    linalg.yield %p : f32
  } -> tensor<?x10xf32>
  return %h : tensor<?x10xf32>
}

// -----

// Rows are grouped anew for a layer of other experts.
// CHECK-LABEL: func.func @of_more
// CHECK:         "llmc.group_rows"(%arg1) : (tensor<?xi64>) -> (tensor<?xi32>, tensor<5xi32>, tensor<?xi32>)
// CHECK:         "llmc.group_rows"(%arg1) : (tensor<?xi64>) -> (tensor<?xi32>, tensor<9xi32>, tensor<?xi32>)
func.func @of_more(%x: tensor<?x6xf32>, %expert: tensor<?xi64>, %a: tensor<4x1x6x8xf32>, %b: tensor<8x1x6x8xf32>) -> (tensor<?x6xf32>, tensor<?x6xf32>) {
  %y = "llmc.packed_expert_linear"(%x, %expert, %a) {top_k = 2 : i64} : (tensor<?x6xf32>, tensor<?xi64>, tensor<4x1x6x8xf32>) -> tensor<?x6xf32>
  %z = "llmc.packed_expert_linear"(%x, %expert, %b) {top_k = 2 : i64} : (tensor<?x6xf32>, tensor<?xi64>, tensor<8x1x6x8xf32>) -> tensor<?x6xf32>
  return %y, %z : tensor<?x6xf32>, tensor<?x6xf32>
}

// -----

// A residual of the parts of a row is added as before.
// CHECK-LABEL: func.func @in_parts
// CHECK:         "llmc.combine_grouped_experts"{{.*}} {operandSegmentSizes = array<i32: 1, 1, 1, 0>}
// CHECK:         arith.addf
#m = affine_map<(a, b, c) -> (a, b, c)>
func.func @in_parts(%x: tensor<?x8xf32>, %expert: tensor<?xi64>, %a: tensor<4x1x8x8xf32>, %w: tensor<?x2xf32>, %residual: tensor<?x2x4xf32>) -> tensor<?x2x4xf32> {
  %c0 = arith.constant 0 : index
  %y = "llmc.packed_expert_linear"(%x, %expert, %a) {top_k = 2 : i64} : (tensor<?x8xf32>, tensor<?xi64>, tensor<4x1x8x8xf32>) -> tensor<?x8xf32>
  %s = "llmc.combine_experts"(%y, %w) : (tensor<?x8xf32>, tensor<?x2xf32>) -> tensor<?x8xf32>
  %n = tensor.dim %w, %c0 : tensor<?x2xf32>
  %h = tensor.expand_shape %s [[0], [1, 2]] output_shape [%n, 2, 4] : tensor<?x8xf32> into tensor<?x2x4xf32>
  %room = tensor.empty(%n) : tensor<?x2x4xf32>
  %r = linalg.generic {indexing_maps = [#m, #m, #m], iterator_types = ["parallel", "parallel", "parallel"]} ins(%h, %residual : tensor<?x2x4xf32>, tensor<?x2x4xf32>) outs(%room : tensor<?x2x4xf32>) {
  ^bb0(%p: f32, %q: f32, %old: f32):
    %t = arith.addf %p, %q : f32
    linalg.yield %t : f32
  } -> tensor<?x2x4xf32>
  return %r : tensor<?x2x4xf32>
}
