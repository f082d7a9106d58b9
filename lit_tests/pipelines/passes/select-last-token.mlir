// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(select-last-token,func.func(canonicalize,cse))' | filecheck %s

// The end of a trunk: the selection moves up to the call, and brings down the size it needs.
// CHECK-LABEL: func.func @trunk
// CHECK:         %[[X:.+]] = call @layer(%arg0)
// CHECK:         %[[N:.+]] = tensor.dim %[[X]]
// CHECK:         %[[LAST:.+]] = arith.subi %[[N]]
// CHECK-NEXT:    %[[ROW:.+]] = tensor.extract_slice %[[X]][0, %[[LAST]], 0] [1, 1, 6] [1, 1, 1] : tensor<1x?x6xf32> to tensor<1x1x6xf32>
// CHECK-NEXT:    %[[NORMED:.+]] = "llmc.rms_norm"(%[[ROW]], %arg1) {{.+}} -> tensor<1x1x6xf32>
// CHECK-NEXT:    %[[LOGITS:.+]] = "llmc.linear"(%[[NORMED]], %arg2) {{.+}} -> tensor<1x1x10xf32>
// CHECK-NEXT:    %[[ROOM:.+]] = tensor.empty() : tensor<1x1x10xf32>
// CHECK-NEXT:    %[[CAPPED:.+]] = linalg.generic {{.+}} ins(%[[LOGITS]] : tensor<1x1x10xf32>) outs(%[[ROOM]] :
// CHECK:         %[[FLAT:.+]] = tensor.extract_slice %[[CAPPED]][0, 0, 0] [1, 1, 10] [1, 1, 1] : tensor<1x1x10xf32> to tensor<1x10xf32>
// CHECK-NEXT:    return %[[FLAT]]
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#rows = affine_map<(d0, d1, d2) -> (d0, d1)>
func.func private @layer(tensor<1x?x6xf32>) -> tensor<1x?x6xf32>
func.func @trunk(%x: tensor<1x?x6xf32>, %n: tensor<6xf32>, %w: tensor<10x6xf32>) -> tensor<1x10xf32> {
  %c1 = arith.constant 1 : index
  %0 = call @layer(%x) : (tensor<1x?x6xf32>) -> tensor<1x?x6xf32>
  %normed = "llmc.rms_norm"(%0, %n) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5, offset = 0.0} : (tensor<1x?x6xf32>, tensor<6xf32>) -> tensor<1x?x6xf32>
  %logits = "llmc.linear"(%normed, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64} : (tensor<1x?x6xf32>, tensor<10x6xf32>) -> tensor<1x?x10xf32>
  %tokens = tensor.dim %logits, %c1 : tensor<1x?x10xf32>
  %room = tensor.empty(%tokens) : tensor<1x?x10xf32>
  %capped = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%logits : tensor<1x?x10xf32>) outs(%room : tensor<1x?x10xf32>) {
  ^bb0(%in: f32, %out: f32):
    %t = math.tanh %in : f32
    linalg.yield %t : f32
  } -> tensor<1x?x10xf32>
  %size = tensor.dim %capped, %c1 : tensor<1x?x10xf32>
  %last = arith.subi %size, %c1 : index
  %row = tensor.extract_slice %capped[0, %last, 0] [1, 1, 10] [1, 1, 1] : tensor<1x?x10xf32> to tensor<1x10xf32>
  return %row : tensor<1x10xf32>
}

// A layer norm in linalg reduces each row on its own: its parts, and what they share, move as one.
// CHECK-LABEL: func.func @layer_norm
// CHECK-COUNT-1: tensor.extract_slice
// CHECK-NOT:     tensor.extract_slice
// CHECK:         "reduction"]} ins(%{{.+}} : tensor<1x1x6xf32>) outs(%{{.+}} : tensor<1x1xf32>)
// CHECK:         -> tensor<1x1x6xf32>
func.func @layer_norm(%x: tensor<1x?x6xf32>, %i: index) -> tensor<1x1x6xf32> {
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c1 : tensor<1x?x6xf32>
  %one_each = tensor.empty(%n) : tensor<1x?xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%one_each : tensor<1x?xf32>) -> tensor<1x?xf32>
  %sum = linalg.generic {indexing_maps = [#id, #rows], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<1x?x6xf32>) outs(%zeros : tensor<1x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<1x?xf32>
  %room = tensor.empty(%n) : tensor<1x?x6xf32>
  %y = linalg.generic {indexing_maps = [#id, #rows, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %sum : tensor<1x?x6xf32>, tensor<1x?xf32>) outs(%room : tensor<1x?x6xf32>) {
  ^bb0(%in: f32, %total: f32, %out: f32):
    %d = arith.subf %in, %total : f32
    linalg.yield %d : f32
  } -> tensor<1x?x6xf32>
  %row = tensor.extract_slice %y[0, %i, 0] [1, 1, 6] [1, 1, 1] : tensor<1x?x6xf32> to tensor<1x1x6xf32>
  return %row : tensor<1x1x6xf32>
}

// Transposed, merged with a dimension of one, and cast: the row is followed to where it comes from.
// CHECK-LABEL: func.func @shapes
// CHECK-NEXT:    %[[ROW:.+]] = tensor.extract_slice %arg0[0, 0, %arg1] [1, 6, 1] [1, 1, 1] : tensor<1x6x8xf32> to tensor<1x6x1xf32>
// CHECK:         linalg.transpose ins(%[[ROW]] : tensor<1x6x1xf32>) outs(%{{.+}} : tensor<1x1x6xf32>)
// CHECK:         tensor.collapse_shape
// CHECK-SAME:      tensor<1x1x6xf32> into tensor<1x6xf32>
func.func @shapes(%x: tensor<1x6x8xf32>, %i: index) -> tensor<1x6xf32> {
  %room = tensor.empty() : tensor<1x8x6xf32>
  %turned = linalg.transpose ins(%x : tensor<1x6x8xf32>) outs(%room : tensor<1x8x6xf32>) permutation = [0, 2, 1]
  %cast = tensor.cast %turned : tensor<1x8x6xf32> to tensor<1x?x6xf32>
  %flat = tensor.collapse_shape %cast [[0, 1], [2]] : tensor<1x?x6xf32> into tensor<?x6xf32>
  %row = tensor.extract_slice %flat[%i, 0] [1, 6] [1, 1] : tensor<?x6xf32> to tensor<1x6xf32>
  return %row : tensor<1x6xf32>
}

// Attention mixes tokens.
// CHECK-LABEL: func.func @attention
// CHECK-NEXT:    %[[O:.+]] = "llmc.attention"
// CHECK-NEXT:    tensor.extract_slice %[[O]]
func.func @attention(%q: tensor<1x2x?x8xf32>, %i: index) -> tensor<1x2x1x8xf32> {
  %o = "llmc.attention"(%q, %q, %q) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>) -> tensor<1x2x?x8xf32>
  %row = tensor.extract_slice %o[0, 0, %i, 0] [1, 2, 1, 8] [1, 1, 1, 1] : tensor<1x2x?x8xf32> to tensor<1x2x1x8xf32>
  return %row : tensor<1x2x1x8xf32>
}

// So does a convolution over tokens; and what knows a row's number needs to stay where it has it.
// CHECK-LABEL: func.func @mixing
// CHECK:         %[[AROUND:.+]] = linalg.generic
// CHECK:         %[[NUMBERED:.+]] = linalg.generic
// CHECK:         tensor.extract_slice %[[AROUND]]
// CHECK:         tensor.extract_slice %[[NUMBERED]]
#around = affine_map<(d0, d1, d2) -> (d0 + d2, d1)>
#window = affine_map<(d0, d1, d2) -> (d2)>
#mixed = affine_map<(d0, d1, d2) -> (d0, d1)>
#two = affine_map<(d0, d1) -> (d0, d1)>
func.func @mixing(%x: tensor<7x6xf32>, %w: tensor<3xf32>, %i: index) -> (tensor<1x6xf32>, tensor<1x6xf32>) {
  %room = tensor.empty() : tensor<5x6xf32>
  %0 = linalg.generic {indexing_maps = [#around, #window, #mixed], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<7x6xf32>, tensor<3xf32>) outs(%room : tensor<5x6xf32>) {
  ^bb0(%in: f32, %weight: f32, %out: f32):
    %p = arith.mulf %in, %weight : f32
    %s = arith.addf %p, %out : f32
    linalg.yield %s : f32
  } -> tensor<5x6xf32>
  %1 = linalg.generic {indexing_maps = [#two], iterator_types = ["parallel", "parallel"]} outs(%room : tensor<5x6xf32>) {
  ^bb0(%out: f32):
    %n = linalg.index 0 : index
    %k = linalg.index 1 : index
    %s = tensor.extract %x[%n, %k] : tensor<7x6xf32>
    linalg.yield %s : f32
  } -> tensor<5x6xf32>
  %row = tensor.extract_slice %0[%i, 0] [1, 6] [1, 1] : tensor<5x6xf32> to tensor<1x6xf32>
  %other = tensor.extract_slice %1[%i, 0] [1, 6] [1, 1] : tensor<5x6xf32> to tensor<1x6xf32>
  return %row, %other : tensor<1x6xf32>, tensor<1x6xf32>
}

// Nothing is computed twice, nor in a loop, and only single rows move.
// CHECK-LABEL: func.func @used_elsewhere
// CHECK:         %[[Y:.+]] = "llmc.rms_norm"(%arg0
// CHECK-NEXT:    tensor.extract_slice %[[Y]]
// CHECK-NEXT:    %[[Z:.+]] = "llmc.rms_norm"(%arg0
// CHECK:         scf.for
// CHECK-NEXT:      tensor.extract_slice %[[Z]]
// CHECK:         %[[V:.+]] = "llmc.rms_norm"(%arg0
// CHECK-NEXT:    tensor.extract_slice %[[V]]
func.func @used_elsewhere(%x: tensor<5x6xf32>, %i: index) -> (tensor<5x6xf32>, tensor<1x6xf32>, tensor<1x6xf32>, tensor<2x6xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %y = "llmc.rms_norm"(%x) {operandSegmentSizes = array<i32: 1, 0>, epsilon = 1.0e-5, offset = 0.0} : (tensor<5x6xf32>) -> tensor<5x6xf32>
  %row = tensor.extract_slice %y[%i, 0] [1, 6] [1, 1] : tensor<5x6xf32> to tensor<1x6xf32>
  %z = "llmc.rms_norm"(%x) {operandSegmentSizes = array<i32: 1, 0>, epsilon = 2.0e-5, offset = 0.0} : (tensor<5x6xf32>) -> tensor<5x6xf32>
  %last = scf.for %k = %c0 to %i step %c1 iter_args(%held = %row) -> tensor<1x6xf32> {
    %next = tensor.extract_slice %z[%k, 0] [1, 6] [1, 1] : tensor<5x6xf32> to tensor<1x6xf32>
    scf.yield %next : tensor<1x6xf32>
  }
  %v = "llmc.rms_norm"(%x) {operandSegmentSizes = array<i32: 1, 0>, epsilon = 3.0e-5, offset = 0.0} : (tensor<5x6xf32>) -> tensor<5x6xf32>
  %two = tensor.extract_slice %v[%i, 0] [2, 6] [1, 1] : tensor<5x6xf32> to tensor<2x6xf32>
  return %y, %row, %last, %two : tensor<5x6xf32>, tensor<1x6xf32>, tensor<1x6xf32>, tensor<2x6xf32>
}

// A norm is over the last dimension, which is no row.
// CHECK-LABEL: func.func @last_dimension
// CHECK-NEXT:    %[[Y:.+]] = "llmc.rms_norm"(%arg0
// CHECK-NEXT:    tensor.extract_slice %[[Y]]
func.func @last_dimension(%x: tensor<5x6xf32>, %i: index) -> tensor<5x1xf32> {
  %y = "llmc.rms_norm"(%x) {operandSegmentSizes = array<i32: 1, 0>, epsilon = 1.0e-5, offset = 0.0} : (tensor<5x6xf32>) -> tensor<5x6xf32>
  %column = tensor.extract_slice %y[0, %i] [5, 1] [1, 1] : tensor<5x6xf32> to tensor<5x1xf32>
  return %column : tensor<5x1xf32>
}

// -----

// The pass emits nothing itself; what it would work on is still verified.
func.func @invalid(%x: tensor<5x6xf32>, %i: index) -> tensor<1x6xf32> {
  // expected-error@+1 {{'llmc.linear' op result must have dimension 0 = 5, but has 4}}
  %y = "llmc.linear"(%x, %x) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64} : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<4x5xf32>
  %row = tensor.extract_slice %y[%i, 0] [1, 5] [1, 1] : tensor<4x5xf32> to tensor<1x5xf32>
  return %row : tensor<1x5xf32>
}
