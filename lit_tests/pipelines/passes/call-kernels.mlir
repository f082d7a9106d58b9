// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(call-kernels,cse,canonicalize)' | filecheck %s
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --call-kernels=lanes=8 | filecheck %s --check-prefix=LANES

// A kernel stands in the module once, however often it is called. Its grid: a workgroup for each row.
// CHECK:       "stream.executable"() ({
// CHECK-NEXT:    "stream.executable.export"() ({
// CHECK-NEXT:    ^bb0(%[[ROWS:[a-z0-9]+]]: index, %{{.+}}: index, %{{.+}}: index):
// CHECK:           %[[ONE:.+]] = arith.constant 1 : index
// CHECK:           "stream.return"(%[[ROWS]], %[[ONE]], %[[ONE]])
// CHECK:         builtin.module {
// CHECK-NEXT:      func.func @[[ROUTE:route_Dx[a-z0-9_A-Z]+]](
// CHECK:             vector.load
// CHECK:             memref.store {{.+}} memref<?x4xi64>
// CHECK:             arith.cmpf olt
// CHECK:             memref.store {{.+}} memref<?x4xi64>
// CHECK:       "stream.executable.end"
// CHECK-NOT:   func.func @route_
// CHECK-LABEL: func.func @twice
// CHECK:         "flow.dispatch"({{.+}}) {entry_points = [@[[ROUTE]]::@[[ROUTE]]]
// CHECK:         "flow.dispatch"({{.+}}) {entry_points = [@[[ROUTE]]::@[[ROUTE]]]
func.func @twice(%x: tensor<?x100xf32>, %y: tensor<?x100xf32>)
    -> (tensor<?x4xf32>, tensor<?x4xi64>, tensor<?x4xf32>, tensor<?x4xi64>) {
  %w, %e = "llmc.route"(%x) {normalised = 0 : i64} : (tensor<?x100xf32>) -> (tensor<?x4xf32>, tensor<?x4xi64>)
  %v, %f = "llmc.route"(%y) {normalised = 0 : i64} : (tensor<?x100xf32>) -> (tensor<?x4xf32>, tensor<?x4xi64>)
  return %w, %e, %v, %f : tensor<?x4xf32>, tensor<?x4xi64>, tensor<?x4xf32>, tensor<?x4xi64>
}

// CHECK-LABEL: func.func @group
// CHECK:         "flow.dispatch"
// CHECK-SAME:      entry_points = [@group_rows_
// CHECK-SAME:      -> (tensor<?xi32>, tensor<5xi32>, tensor<?xi32>)
func.func @group(%expert: tensor<?xi64>) -> (tensor<?xi32>, tensor<5xi32>, tensor<?xi32>) {
  %order, %first, %place = "llmc.group_rows"(%expert)
     : (tensor<?xi64>) -> (tensor<?xi32>, tensor<5xi32>, tensor<?xi32>)
  return %order, %first, %place : tensor<?xi32>, tensor<5xi32>, tensor<?xi32>
}

// CHECK-LABEL: func.func @choose
// CHECK:         "flow.dispatch"
// CHECK-SAME:      entry_points = [@route_normalised_
// CHECK-SAME:      -> (tensor<?x8xf32>, tensor<?x8xi64>)
func.func @choose(%x: tensor<?x32xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>) {
  %w, %e = "llmc.route"(%x) {normalised = 1 : i64} : (tensor<?x32xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>)
  return %w, %e : tensor<?x8xf32>, tensor<?x8xi64>
}

// The bias of a layer is read from the stack of all layers'.
// CHECK-LABEL: func.func @choose_with_bias
// CHECK-NOT:     tensor.extract_slice
// CHECK:         "flow.dispatch"(%arg2, %arg2, %arg0, %arg1)
// CHECK-SAME:      entry_points = [@scored_route_
// CHECK-SAME:      -> (tensor<1x8xf32>, tensor<1x8xi64>)
// CHECK:         return
func.func @choose_with_bias(%x: tensor<1x32xf32>, %biases: tensor<5x32xf32>, %layer: index)
    -> (tensor<1x8xf32>, tensor<1x8xi64>) {
  %bias = tensor.extract_slice %biases[%layer, 0] [1, 32] [1, 1] : tensor<5x32xf32> to tensor<32xf32>
  %w, %e = "llmc.scored_route"(%x, %bias) {best = 1 : i64, groups = 1 : i64, kept_groups = 1 : i64, normalised = 1 : i64, operandSegmentSizes = array<i32: 1, 1>, scale = 2.5 : f64, sigmoid = 1 : i64}
         : (tensor<1x32xf32>, tensor<32xf32>) -> (tensor<1x8xf32>, tensor<1x8xi64>)
  return %w, %e : tensor<1x8xf32>, tensor<1x8xi64>
}

// The sum of many rows has a kernel where these lie in the order of groups, as they do.
// CHECK-LABEL: func.func @combine
// CHECK:         entry_points = [@combine_experts_
// CHECK:         "llmc.combine_experts"
// CHECK:         "flow.dispatch"({{.+}}, %arg2, %arg4, %arg3, {{.+}}) {entry_points = [@combine_grouped_experts_
func.func @combine(%y: tensor<8x32xf32>, %w: tensor<1x8xf32>, %ys: tensor<?x32xf32>, %ws: tensor<?x8xf32>, %place: tensor<?xi32>)
    -> (tensor<1x32xf32>, tensor<?x32xf32>, tensor<?x32xf32>) {
  %one = "llmc.combine_experts"(%y, %w) : (tensor<8x32xf32>, tensor<1x8xf32>) -> tensor<1x32xf32>
  %many = "llmc.combine_experts"(%ys, %ws) : (tensor<?x32xf32>, tensor<?x8xf32>) -> tensor<?x32xf32>
  %grouped = "llmc.combine_grouped_experts"(%ys, %place, %ws) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<?x32xf32>, tensor<?xi32>, tensor<?x8xf32>) -> tensor<?x32xf32>
  return %one, %many, %grouped : tensor<1x32xf32>, tensor<?x32xf32>, tensor<?x32xf32>
}

// Rows are copied whole, whatever they hold.
// CHECK-LABEL: func.func @take
// CHECK:         %[[FLAT:.+]] = tensor.collapse_shape %arg1 {{.+}} into tensor<?x64xi8>
// CHECK:         "flow.dispatch"({{.+}}, %arg0, %[[FLAT]], {{.+}}) {entry_points = [@take_rows_
// CHECK:         tensor.expand_shape {{.+}} into tensor<?x2x32xi8>
func.func @take(%ids: tensor<?xi32>, %x: tensor<?x2x32xi8>) -> tensor<?x2x32xi8> {
  %y = "llmc.take_rows"(%ids, %x) {top_k = 1 : i64} : (tensor<?xi32>, tensor<?x2x32xi8>) -> tensor<?x2x32xi8>
  return %y : tensor<?x2x32xi8>
}

// With half the lanes, registers are half as wide.
// LANES:       func.func @argmax_
// LANES:         scf.for {{.+}} -> (vector<32xf32>)

// A workgroup for each row, which reads four registers at a time, the last time overlapping.
// CHECK:       func.func @argmax_
// CHECK:         %[[LARGEST:.+]] = scf.for {{.+}} -> (vector<64xf32>)
// CHECK:           %[[AT:.+]] = arith.minui %{{.+}}, %c36
// CHECK:           vector.load {{.+}}[%{{.+}}, %[[AT]]]
// CHECK:           arith.maximumf
// CHECK:         vector.reduction <maximumf>, %[[LARGEST]]
// CHECK:         vector.reduction <minsi>
// CHECK-LABEL: func.func @best
// CHECK:         %[[R:.+]] = tensor.dim %arg0
// CHECK:         "flow.dispatch"(%[[R]],
// CHECK-SAME:      entry_points = [@argmax_
// CHECK-SAME:      -> tensor<?xi64>
func.func @best(%x: tensor<?x100xf32>) -> tensor<?xi64> {
  %best = "llmc.argmax"(%x) : (tensor<?x100xf32>) -> tensor<?xi64>
  return %best : tensor<?xi64>
}

// That of halves has none.
// CHECK-LABEL: func.func @best_of_halves
// CHECK-NEXT:    llmc.argmax
func.func @best_of_halves(%x: tensor<?x100xf16>) -> tensor<?xi64> {
  %best = "llmc.argmax"(%x) : (tensor<?x100xf16>) -> tensor<?xi64>
  return %best : tensor<?xi64>
}

// A workgroup for each row: two groups of 64 put forward their first, as do the others when they
// win, of what goes after the winner.
// CHECK:       func.func @top_k_
// CHECK:         memref.alloca() : memref<64xf32>
// CHECK:         scf.for {{.+}} = %c0{{.*}} to %c64
// CHECK:           vector.reduction <maximumf>
// CHECK:           vector.reduction <minsi>
// CHECK:         scf.for {{.+}} to %arg4
// CHECK:           vector.reduction <maximumf>
// CHECK:           arith.divui %{{.+}}, %c64
// CHECK:           arith.cmpf olt
// CHECK:           vector.reduction <maximumf>
// CHECK-LABEL: func.func @top(
// CHECK:         %[[R:.+]] = tensor.dim %arg0
// CHECK:         "flow.dispatch"(%[[R]], %[[R]], %arg1, %[[R]], %arg1, {{.+}} %arg0,
// CHECK-SAME:      entry_points = [@top_k_
// CHECK-SAME:      -> (tensor<?x?xf32>, tensor<?x?xi64>)
func.func @top(%x: tensor<?x100xf32>, %count: index) -> (tensor<?x?xf32>, tensor<?x?xi64>) {
  %values, %places = "llmc.top_k"(%x, %count)
    : (tensor<?x100xf32>, index) -> (tensor<?x?xf32>, tensor<?x?xi64>)
  return %values, %places : tensor<?x?xf32>, tensor<?x?xi64>
}

// A workgroup for each row: the rest is 64 numbers at a time and the 36 that are left, if it is asked
// for. Of the candidates one loop follows the other.
// CHECK:       func.func @draw_
// CHECK:         %[[REST:.+]] = scf.if {{.+}} -> (f32) {
// CHECK:           scf.for {{.+}} to %c128{{.*}} -> (vector<64xf32>)
// CHECK:             math.exp {{.+}} vector<64xf32>
// CHECK:           vector.load {{.+}} vector<36xf32>
// CHECK:         } else {
// CHECK:         %[[ALL:.+]] = scf.for {{.+}} -> (f32)
// CHECK:         arith.addf %[[ALL]], %[[REST]]
// CHECK:         scf.for {{.+}} -> (f32, f32, i1)
// CHECK:         scf.for {{.+}} -> (f32, index, f32)
// CHECK-LABEL: func.func @draw(
// CHECK:         %[[R:.+]] = tensor.dim %arg0
// CHECK:         "flow.dispatch"({{.+}} %arg6, {{.+}} %arg0, %arg1, %arg2, %arg3, %arg4, %arg5,
// CHECK-SAME:      entry_points = [@draw_
// CHECK-SAME:      -> tensor<?xi64>
func.func @draw(%logits: tensor<?x164xf32>, %values: tensor<?x?xf32>, %tokens: tensor<?x?xi64>, %best: tensor<?xi64>, %random: tensor<?xf32>, %options: tensor<3xf32>, %top_k: index) -> tensor<?xi64> {
  %t = "llmc.draw"(%logits, %values, %tokens, %best, %random, %options, %top_k)
     : (tensor<?x164xf32>, tensor<?x?xf32>, tensor<?x?xi64>, tensor<?xi64>, tensor<?xf32>, tensor<3xf32>, index) -> tensor<?xi64>
  return %t : tensor<?xi64>
}

// A row has room for the weights of 256 candidates and of its tokens, in parts of 256. They are
// added up once, and once for each bit; then part by part, and in one of these one by one.
// CHECK:       func.func @draw_of_all_
// CHECK:         scf.if
// CHECK:           scf.for {{.+}} to %c256
// CHECK:           scf.for {{.+}} to %c128
// CHECK:             vector.store {{.+}} memref<?x512xf32>, vector<64xf32>
// CHECK:           vector.store {{.+}} memref<?x512xf32>, vector<36xf32>
// CHECK:           scf.for {{.+}} to %c512{{.*}} -> (vector<64xf32>)
// CHECK:           scf.for {{.+}} to %c31{{.*}} -> (i32)
// CHECK:             scf.for {{.+}} to %c512{{.*}} -> (vector<64xf32>)
// CHECK:               arith.cmpi ugt
// CHECK:           scf.for {{.+}} to %c2 step
// CHECK:             scf.for {{.+}} to %c256{{.*}} -> (vector<64xf32>)
// CHECK:           scf.for {{.+}} to %c2 {{.+}} -> (f32)
// CHECK:           scf.for {{.+}} to %c2 {{.+}} -> (f32, index, f32)
// CHECK:           scf.for {{.+}} to %c256{{.*}} -> (f32)
// CHECK:           scf.for {{.+}} to %c256{{.*}} -> (f32, index, f32)
// CHECK-LABEL: func.func @draw_of_all(
// CHECK:         %[[DRAWN:.+]]:2 = "flow.dispatch"({{.+}} %arg0, %arg1, %arg2, %arg3, %arg4, %arg5,
// CHECK-SAME:      entry_points = [@draw_of_all_
// CHECK-SAME:      -> (tensor<?xi64>, tensor<?x512xf32>)
// CHECK:         return %[[DRAWN]]#0
func.func @draw_of_all(%found: tensor<?xi64>, %logits: tensor<?x164xf32>, %values: tensor<?x?xf32>, %tokens: tensor<?x?xi64>, %random: tensor<?xf32>, %options: tensor<3xf32>) -> tensor<?xi64> {
  %t = "llmc.draw_of_all"(%found, %logits, %values, %tokens, %random, %options)
     : (tensor<?xi64>, tensor<?x164xf32>, tensor<?x?xf32>, tensor<?x?xi64>, tensor<?xf32>, tensor<3xf32>) -> tensor<?xi64>
  return %t : tensor<?xi64>
}

// Attention of a fixed number of tokens has no kernel.
// CHECK-LABEL: func.func @few_tokens
// CHECK:         llmc.cached_attention
func.func @few_tokens(%q: tensor<1x4x5x16xf32>, %k: tensor<2x?x2x?x16xf32>, %start: tensor<1xi64>, %i: index)
    -> tensor<1x4x5x16xf32> {
  %o = "llmc.cached_attention"(%q, %k, %k, %start, %i, %i, %i)
     {scale = 0.25, window = 0 : i64, softcap = 0.0}
     : (tensor<1x4x5x16xf32>, tensor<2x?x2x?x16xf32>, tensor<2x?x2x?x16xf32>, tensor<1xi64>, index,
        index, index) -> tensor<1x4x5x16xf32>
  return %o : tensor<1x4x5x16xf32>
}

// The caches are written over, and so are the counters of the parts that are done: those who read
// them after get the results.
// CHECK-LABEL: func.func @decode
// CHECK:         %[[DONE:.+]] = "util.global.load"() {global = @decode_attention.done} : () -> tensor<32xi32>
// CHECK:         %[[O:.+]]:5 = "flow.dispatch"({{.+}}, %arg0, %arg3, %arg1, %arg2, %[[DONE]],
// CHECK-SAME:      entry_points = [@decode_attention_4_8_2_256_0_0_64_96_16_16_0p25_0_0p0_0p0_0p0_
// CHECK-SAME:      tied_operands = [-1 : index, -1 : index, 9 : index, 10 : index, 11 : index]
// CHECK:         "util.global.store"(%[[O]]#4) {global = @decode_attention.done}
// CHECK:         return %[[O]]#0, %[[O]]#2, %[[O]]#3
func.func @decode(%qkv: tensor<1x128xf32>, %k: tensor<2x?x2x?x16xf32>, %v: tensor<2x?x2x?x16xf32>,
                  %start: tensor<1xi64>, %i: index)
    -> (tensor<1x64xf32>, tensor<2x?x2x?x16xf32>, tensor<2x?x2x?x16xf32>) {
  %o, %nk, %nv = "llmc.decode_attention"(%qkv, %qkv, %qkv, %k, %v, %start, %i, %i, %i)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>, interleaved = 0 : i64, norm_epsilon = 0.0, norm_offset = 0.0, head_stride = 0 : i64, query_offset = 0 : i64,
      key_offset = 64 : i64, value_offset = 96 : i64, key_channels = 16 : i64, value_channels = 16 : i64, scale = 0.25, window = 0 : i64, softcap = 0.0}
     : (tensor<1x128xf32>, tensor<1x128xf32>, tensor<1x128xf32>, tensor<2x?x2x?x16xf32>,
        tensor<2x?x2x?x16xf32>, tensor<1xi64>, index, index, index)
     -> (tensor<1x64xf32>, tensor<2x?x2x?x16xf32>, tensor<2x?x2x?x16xf32>)
  return %o, %nk, %nv : tensor<1x64xf32>, tensor<2x?x2x?x16xf32>, tensor<2x?x2x?x16xf32>
}

// A part of the columns has a kernel of its own, which ends each row with a logarithm.
// CHECK:       func.func @decode_attention_{{.+}}_1_2_1x128xf32
// CHECK:         math.log2
// CHECK-LABEL: func.func @decode_part
// CHECK:         "flow.dispatch"
// CHECK-SAME:      entry_points = [@decode_attention_4_8_2_256_0_0_64_96_16_16_0p25_0_0p0_0p0_0p0_1_2_
// CHECK-SAME:      -> (tensor<1x68xf32>, tensor<34x2x18xf32>,
func.func @decode_part(%qkv: tensor<1x128xf32>, %k: tensor<2x?x2x?x16xf32>, %v: tensor<2x?x2x?x16xf32>,
                       %start: tensor<1xi64>, %i: index)
    -> (tensor<1x68xf32>, tensor<2x?x2x?x16xf32>, tensor<2x?x2x?x16xf32>) {
  %o, %nk, %nv = "llmc.decode_attention_part"(%qkv, %qkv, %qkv, %k, %v, %start, %i, %i, %i)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>, first = 1 : i64, step = 2 : i64, interleaved = 0 : i64, norm_epsilon = 0.0, norm_offset = 0.0, head_stride = 0 : i64,
      query_offset = 0 : i64, key_offset = 64 : i64, value_offset = 96 : i64, key_channels = 16 : i64, value_channels = 16 : i64, scale = 0.25, window = 0 : i64, softcap = 0.0}
     : (tensor<1x128xf32>, tensor<1x128xf32>, tensor<1x128xf32>, tensor<2x?x2x?x16xf32>,
        tensor<2x?x2x?x16xf32>, tensor<1xi64>, index, index, index)
     -> (tensor<1x68xf32>, tensor<2x?x2x?x16xf32>, tensor<2x?x2x?x16xf32>)
  return %o, %nk, %nv : tensor<1x68xf32>, tensor<2x?x2x?x16xf32>, tensor<2x?x2x?x16xf32>
}

// One workgroup for 16 tokens of a head; a single token is as many as the kernel is told. Of one
// token of several sequences, IREE makes part of what follows it.
// CHECK-LABEL: func.func @rotary(
// CHECK-DAG:     %[[T:.+]] = tensor.dim %arg0, %c2
// CHECK-DAG:     %[[U:.+]] = tensor.dim %arg1, %c1
// CHECK:         "flow.dispatch"({{.+}}, %arg0, %arg1, %[[T]], %[[U]], %[[T]])
// CHECK-SAME:      entry_points = [@rotary_1x4xDx16xf32_1xDx8xf32_1xDx8xf32_1x4xDx16xf32_0_1_1::
// CHECK:         "flow.dispatch"(%c1{{[^,]*}}, %c1{{[^,]*}}, %arg2, %arg3)
// CHECK-SAME:      entry_points = [@rotary_1x4x1x16xf32_1x1x8xf32_1x1x8xf32_1x4x1x16xf32_0_1_1::
// CHECK:         "llmc.rotary"(%arg4
// CHECK-NOT:     "flow.dispatch"
func.func @rotary(%x: tensor<1x4x?x16xf32>, %cos: tensor<1x?x8xf32>, %one: tensor<1x4x1x16xf32>,
                  %c1: tensor<1x1x8xf32>, %several: tensor<?x4x1x16xf32>)
    -> (tensor<1x4x?x16xf32>, tensor<1x4x1x16xf32>, tensor<?x4x1x16xf32>) {
  %y = "llmc.rotary"(%x, %cos, %cos) {interleaved = 0 : i64}
     : (tensor<1x4x?x16xf32>, tensor<1x?x8xf32>, tensor<1x?x8xf32>) -> tensor<1x4x?x16xf32>
  %z = "llmc.rotary"(%one, %c1, %c1) {interleaved = 0 : i64}
     : (tensor<1x4x1x16xf32>, tensor<1x1x8xf32>, tensor<1x1x8xf32>) -> tensor<1x4x1x16xf32>
  %w = "llmc.rotary"(%several, %c1, %c1) {interleaved = 0 : i64}
     : (tensor<?x4x1x16xf32>, tensor<1x1x8xf32>, tensor<1x1x8xf32>) -> tensor<?x4x1x16xf32>
  return %y, %z, %w : tensor<1x4x?x16xf32>, tensor<1x4x1x16xf32>, tensor<?x4x1x16xf32>
}

// What reads two tables is no kernel that reads one twice.
// CHECK:       func.func @rotary_1x4xDx16xf32_1xDx8xf32_1xDx8xf32_1x4xDx16xf32({{.+}}%arg8: !stream.binding)
// CHECK-LABEL: func.func @two_tables(
// CHECK:         "flow.dispatch"({{.+}}, %arg0, %arg1, %arg2,
// CHECK-SAME:      entry_points = [@rotary_1x4xDx16xf32_1xDx8xf32_1xDx8xf32_1x4xDx16xf32::
func.func @two_tables(%x: tensor<1x4x?x16xf32>, %cos: tensor<1x?x8xf32>, %sin: tensor<1x?x8xf32>)
    -> tensor<1x4x?x16xf32> {
  %y = "llmc.rotary"(%x, %cos, %sin) {interleaved = 0 : i64}
     : (tensor<1x4x?x16xf32>, tensor<1x?x8xf32>, tensor<1x?x8xf32>) -> tensor<1x4x?x16xf32>
  return %y : tensor<1x4x?x16xf32>
}

// Heads are normed by the way, if nothing else reads them so; the weights are those of all layers.
// CHECK-LABEL: func.func @normed(
// CHECK-NOT:     llmc.
// CHECK:         "flow.dispatch"({{.+}}, %arg0, %arg1, %arg2,
// CHECK-SAME:      entry_points = [@rotary_0_normed_0p001_1p0_1xDx32xf32_
// CHECK-LABEL: func.func @normed_for_others(
// CHECK:         %[[N:.+]] = "llmc.rms_norm"
// CHECK:         "flow.dispatch"({{.+}}, %arg0, %arg1, %
// CHECK-SAME:      entry_points = [@rotary_normed_0p001_0p0_1x2xDx16xf32_
// CHECK:         return %{{.+}}, %[[N]]
func.func @normed(%rows: tensor<1x?x32xf32>, %table: tensor<1x?x16xf32>, %weights: tensor<3x16xf32>, %layer: index)
    -> tensor<1x2x?x16xf32> {
  %c1 = arith.constant 1 : index
  %t = tensor.dim %rows, %c1 : tensor<1x?x32xf32>
  %cut = tensor.expand_shape %rows [[0], [1], [2, 3]] output_shape [1, %t, 2, 16] : tensor<1x?x32xf32> into tensor<1x?x2x16xf32>
  %weight = tensor.extract_slice %weights[%layer, 0] [1, 16] [1, 1] : tensor<3x16xf32> to tensor<16xf32>
  %n = "llmc.rms_norm"(%cut, %weight) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-3, offset = 1.0}
     : (tensor<1x?x2x16xf32>, tensor<16xf32>) -> tensor<1x?x2x16xf32>
  %e = tensor.empty(%t) : tensor<1x2x?x16xf32>
  %x = linalg.transpose ins(%n : tensor<1x?x2x16xf32>) outs(%e : tensor<1x2x?x16xf32>) permutation = [0, 2, 1, 3]
  %y = "llmc.rotary"(%x, %table, %table) {interleaved = 0 : i64} : (tensor<1x2x?x16xf32>, tensor<1x?x16xf32>, tensor<1x?x16xf32>) -> tensor<1x2x?x16xf32>
  return %y : tensor<1x2x?x16xf32>
}
func.func @normed_for_others(%x: tensor<1x2x?x16xf32>, %table: tensor<1x?x16xf32>, %weight: tensor<16xf32>)
    -> (tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) {
  %n = "llmc.rms_norm"(%x, %weight) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-3, offset = 0.0}
     : (tensor<1x2x?x16xf32>, tensor<16xf32>) -> tensor<1x2x?x16xf32>
  %y = "llmc.rotary"(%n, %table, %table) {interleaved = 0 : i64} : (tensor<1x2x?x16xf32>, tensor<1x?x16xf32>, tensor<1x?x16xf32>) -> tensor<1x2x?x16xf32>
  return %y, %n : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>
}

// Keys are read where they lie in the rows of a linear layer, turned, narrowed and written in place.
// CHECK-LABEL: func.func @append(
// CHECK-NOT:     llmc.
// CHECK:         "flow.dispatch"({{.+}}, %arg0, %arg1, %arg2,
// CHECK-SAME:      entry_points = [@append_32_1xDx64xf32_1xDx16xf32_1xDx16xf32_2xDx2xDx16xf16_0_1_1::
// CHECK-SAME:      tied_operands = [
func.func @append(%rows: tensor<1x?x64xf32>, %table: tensor<1x?x16xf32>, %cache: tensor<2x?x2x?x16xf16>, %i: index)
    -> tensor<2x?x2x?x16xf16> {
  %c1 = arith.constant 1 : index
  %t = tensor.dim %rows, %c1 : tensor<1x?x64xf32>
  %part = tensor.extract_slice %rows[0, 0, 32] [1, %t, 32] [1, 1, 1] : tensor<1x?x64xf32> to tensor<1x?x32xf32>
  %cut = tensor.expand_shape %part [[0], [1], [2, 3]] output_shape [1, %t, 2, 16] : tensor<1x?x32xf32> into tensor<1x?x2x16xf32>
  %e = tensor.empty(%t) : tensor<1x2x?x16xf32>
  %x = linalg.transpose ins(%cut : tensor<1x?x2x16xf32>) outs(%e : tensor<1x2x?x16xf32>) permutation = [0, 2, 1, 3]
  %y = "llmc.rotary"(%x, %table, %table) {interleaved = 0 : i64} : (tensor<1x2x?x16xf32>, tensor<1x?x16xf32>, tensor<1x?x16xf32>) -> tensor<1x2x?x16xf32>
  %new = "llmc.cache_append"(%cache, %y, %i, %i, %i) : (tensor<2x?x2x?x16xf16>, tensor<1x2x?x16xf32>, index, index, index) -> tensor<2x?x2x?x16xf16>
  return %new : tensor<2x?x2x?x16xf16>
}

// So they are where the rows of several sequences are normalised last, and split then: nothing is
// left of the norm, not even to tell how many there are.
// CHECK-LABEL: func.func @append_normed(
// CHECK-NOT:     llmc.
// CHECK:         "flow.dispatch"
// CHECK-NOT:     llmc.
// CHECK:         return
// LANES-LABEL: func.func @append_normed(
// LANES-NOT:     llmc.
// LANES:         return
func.func @append_normed(%x: tensor<1x2x?x16xf32>, %weight: tensor<16xf32>, %cache: tensor<2x?x2x?x16xf16>,
                         %sequences: index, %i: index) -> tensor<2x?x2x?x16xf16> {
  %c2 = arith.constant 2 : index
  %n = "llmc.rms_norm"(%x, %weight) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-3, offset = 0.0}
     : (tensor<1x2x?x16xf32>, tensor<16xf32>) -> tensor<1x2x?x16xf32>
  %t = tensor.dim %x, %c2 : tensor<1x2x?x16xf32>
  %each = arith.divui %t, %sequences : index
  %flat = tensor.collapse_shape %n [[0, 1], [2], [3]] : tensor<1x2x?x16xf32> into tensor<2x?x16xf32>
  %cut = tensor.expand_shape %flat [[0], [1, 2], [3]] output_shape [2, %sequences, %each, 16] : tensor<2x?x16xf32> into tensor<2x?x?x16xf32>
  %e = tensor.empty(%sequences, %each) : tensor<?x2x?x16xf32>
  %split = linalg.transpose ins(%cut : tensor<2x?x?x16xf32>) outs(%e : tensor<?x2x?x16xf32>) permutation = [1, 0, 2, 3]
  %new = "llmc.cache_append"(%cache, %split, %i, %i, %i) : (tensor<2x?x2x?x16xf16>, tensor<?x2x?x16xf32>, index, index, index) -> tensor<2x?x2x?x16xf16>
  return %new : tensor<2x?x2x?x16xf16>
}

// One token's rows are appended by linalg.
// CHECK-LABEL: func.func @one_token
// CHECK:         llmc.cache_append
func.func @one_token(%row: tensor<1x2x1x16xf32>, %cache: tensor<2x?x2x?x16xf32>, %i: index) -> tensor<2x?x2x?x16xf32> {
  %new = "llmc.cache_append"(%cache, %row, %i, %i, %i) : (tensor<2x?x2x?x16xf32>, tensor<1x2x1x16xf32>, index, index, index) -> tensor<2x?x2x?x16xf32>
  return %new : tensor<2x?x2x?x16xf32>
}

// -----

// Rows that do not fit are told before the pass runs.
func.func @invalid(%expert: tensor<7xi64>) -> (tensor<6xi32>, tensor<5xi32>) {
  // expected-error@+1 {{'llmc.group_rows' op result 'order' must have its length = 7, but has 6}}
  %order, %first, %place = "llmc.group_rows"(%expert)
     : (tensor<7xi64>) -> (tensor<6xi32>, tensor<5xi32>, tensor<7xi32>)
  return %order, %first : tensor<6xi32>, tensor<5xi32>
}

// -----

func.func @cut_by_unknown_names(%q: tensor<1x4x?x16xf32>, %k: tensor<2x?x2x?x16xf32>, %start: tensor<1xi64>, %i: index)
    -> tensor<1x4x?x16xf32> {
  // expected-error@+1 {{'llmc.attention' must be a dictionary of integers by the names vectors, groups}}
  %o = "llmc.cached_attention"(%q, %k, %k, %start, %i, %i, %i)
     {llmc.attention = {rows = 4 : i64}, scale = 0.25, window = 0 : i64, softcap = 0.0}
     : (tensor<1x4x?x16xf32>, tensor<2x?x2x?x16xf32>, tensor<2x?x2x?x16xf32>, tensor<1xi64>, index,
        index, index) -> tensor<1x4x?x16xf32>
  return %o : tensor<1x4x?x16xf32>
}

// -----

func.func @cut_by_no_number(%q: tensor<1x4x?x16xf32>, %k: tensor<2x?x2x?x16xf32>, %start: tensor<1xi64>, %i: index)
    -> tensor<1x4x?x16xf32> {
  // expected-error@+1 {{'llmc.attention' must be a dictionary of integers by the names vectors, groups}}
  %o = "llmc.cached_attention"(%q, %k, %k, %start, %i, %i, %i)
     {llmc.attention = 4 : i64, scale = 0.25, window = 0 : i64, softcap = 0.0}
     : (tensor<1x4x?x16xf32>, tensor<2x?x2x?x16xf32>, tensor<2x?x2x?x16xf32>, tensor<1xi64>, index,
        index, index) -> tensor<1x4x?x16xf32>
  return %o : tensor<1x4x?x16xf32>
}

// -----

func.func @cut_too_small(%q: tensor<1x4x?x16xf32>, %k: tensor<2x?x2x?x16xf32>, %start: tensor<1xi64>, %i: index)
    -> tensor<1x4x?x16xf32> {
  // expected-error@+1 {{'llmc.attention': groups must be from 1 to 256, not 0}}
  %o = "llmc.cached_attention"(%q, %k, %k, %start, %i, %i, %i)
     {llmc.attention = {groups = 0 : i64}, scale = 0.25, window = 0 : i64, softcap = 0.0}
     : (tensor<1x4x?x16xf32>, tensor<2x?x2x?x16xf32>, tensor<2x?x2x?x16xf32>, tensor<1xi64>, index,
        index, index) -> tensor<1x4x?x16xf32>
  return %o : tensor<1x4x?x16xf32>
}

// -----

// What is read by nobody needs no kernel.
// CHECK-LABEL: func.func @unread(
// CHECK-NEXT:    return %arg0
func.func @unread(%x: tensor<1x4x?x16xf32>, %cos: tensor<1x?x16xf32>, %k: tensor<2x?x2x?x16xf32>, %start: tensor<1xi64>, %i: index)
    -> tensor<1x4x?x16xf32> {
  %once = "llmc.rotary"(%x, %cos, %cos) {interleaved = 0 : i64} : (tensor<1x4x?x16xf32>, tensor<1x?x16xf32>, tensor<1x?x16xf32>) -> tensor<1x4x?x16xf32>
  %twice = "llmc.rotary"(%once, %cos, %cos) {interleaved = 0 : i64} : (tensor<1x4x?x16xf32>, tensor<1x?x16xf32>, tensor<1x?x16xf32>) -> tensor<1x4x?x16xf32>
  %o = "llmc.cached_attention"(%twice, %k, %k, %start, %i, %i, %i) {scale = 0.25, window = 0 : i64, softcap = 0.0}
     : (tensor<1x4x?x16xf32>, tensor<2x?x2x?x16xf32>, tensor<2x?x2x?x16xf32>, tensor<1xi64>, index,
        index, index) -> tensor<1x4x?x16xf32>
  return %x : tensor<1x4x?x16xf32>
}
