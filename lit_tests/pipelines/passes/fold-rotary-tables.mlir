// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(fold-rotary-tables{positions=64},func.func(canonicalize,cse))' | filecheck %s
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(fold-rotary-tables)' | filecheck %s --check-prefix=DEFAULT
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(fold-rotary-tables{positions=0})' 2>&1 | filecheck %s --check-prefix=NONE
// NONE: error: option 'positions' of pass 'fold-rotary-tables' must be from 1 to 16777216, not 0

// As transformers computes the tables, both halves alike, once with YaRN's scale.
// CHECK-LABEL: func.func @tables
// CHECK-NEXT:    %[[F:.+]] = "llmc.parameter"
// CHECK-NEXT:    %[[BOTH:.+]] = tensor.concat dim(0) %[[F]], %[[F]] : (tensor<3xf32>, tensor<3xf32>) -> tensor<6xf32>
// CHECK-NEXT:    %[[COS:.+]] = "llmc.rotary_table"(%[[BOTH]]) {function = "cos", positions = 64 : i64, scale = 1.500000e+00 : f64} : (tensor<6xf32>) -> tensor<64x6xf32>
// CHECK-NEXT:    %[[C:.+]] = "llmc.embedding"(%arg0, %[[COS]]) : (tensor<1x?xi64>, tensor<64x6xf32>) -> tensor<1x?x6xf32>
// CHECK-NEXT:    %[[SIN:.+]] = "llmc.rotary_table"(%[[BOTH]]) {function = "sin", positions = 64 : i64, scale = 1.000000e+00 : f64}
// CHECK-NEXT:    %[[S:.+]] = "llmc.embedding"(%arg0, %[[SIN]])
// CHECK-NEXT:    return %[[C]], %[[S]]
// DEFAULT-LABEL: func.func @tables
// DEFAULT:         -> tensor<8192x6xf32>
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#column = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#row = affine_map<(d0, d1, d2) -> (d2)>
func.func @tables(%positions: tensor<1x?xi64>) -> (tensor<1x?x6xf32>, tensor<1x?x6xf32>) {
  %c1 = arith.constant 1 : index
  %scale = arith.constant 1.5 : f64
  %f = "llmc.parameter"() {sources = ["model.rotary_emb.inv_freq"]} : () -> tensor<3xf32>
  %n = tensor.dim %positions, %c1 : tensor<1x?xi64>
  %p = tensor.expand_shape %positions [[0], [1, 2]] output_shape [1, %n, 1] : tensor<1x?xi64> into tensor<1x?x1xi64>
  %r1 = tensor.empty(%n) : tensor<1x?x1xf32>
  %x = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : tensor<1x?x1xi64>) outs(%r1 : tensor<1x?x1xf32>) {
  ^bb0(%in: i64, %out: f32):
    %0 = arith.sitofp %in : i64 to f32
    linalg.yield %0 : f32
  } -> tensor<1x?x1xf32>
  %r3 = tensor.empty(%n) : tensor<1x?x3xf32>
  %angles = linalg.generic {indexing_maps = [#column, #row, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %f : tensor<1x?x1xf32>, tensor<3xf32>) outs(%r3 : tensor<1x?x3xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<1x?x3xf32>
  %both = tensor.concat dim(2) %angles, %angles : (tensor<1x?x3xf32>, tensor<1x?x3xf32>) -> tensor<1x?x6xf32>
  %r6 = tensor.empty(%n) : tensor<1x?x6xf32>
  %cos = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%both : tensor<1x?x6xf32>) outs(%r6 : tensor<1x?x6xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.cos %in : f32
    linalg.yield %0 : f32
  } -> tensor<1x?x6xf32>
  %scaled = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cos : tensor<1x?x6xf32>) outs(%r6 : tensor<1x?x6xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.truncf %scale : f64 to f32
    %1 = arith.mulf %in, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<1x?x6xf32>
  %sin = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%both : tensor<1x?x6xf32>) outs(%r6 : tensor<1x?x6xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.sin %in : f32
    linalg.yield %0 : f32
  } -> tensor<1x?x6xf32>
  return %scaled, %sin : tensor<1x?x6xf32>, tensor<1x?x6xf32>
}

// A copy of a cosine is no multiplication.
// CHECK-LABEL: func.func @copied
// CHECK:         llmc.rotary_table
// CHECK-NOT:     math.cos
func.func @copied(%positions: tensor<1x4xi64>) -> tensor<1x4x3xf32> {
  %f = "llmc.parameter"() {sources = ["model.rotary_emb.inv_freq"]} : () -> tensor<3xf32>
  %p = tensor.expand_shape %positions [[0], [1, 2]] output_shape [1, 4, 1] : tensor<1x4xi64> into tensor<1x4x1xi64>
  %r1 = tensor.empty() : tensor<1x4x1xf32>
  %x = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : tensor<1x4x1xi64>) outs(%r1 : tensor<1x4x1xf32>) {
  ^bb0(%in: i64, %out: f32):
    %0 = arith.sitofp %in : i64 to f32
    linalg.yield %0 : f32
  } -> tensor<1x4x1xf32>
  %r3 = tensor.empty() : tensor<1x4x3xf32>
  %angles = linalg.generic {indexing_maps = [#column, #row, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %f : tensor<1x4x1xf32>, tensor<3xf32>) outs(%r3 : tensor<1x4x3xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<1x4x3xf32>
  %cos = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%angles : tensor<1x4x3xf32>) outs(%r3 : tensor<1x4x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.cos %in : f32
    linalg.yield %0 : f32
  } -> tensor<1x4x3xf32>
  %copy = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cos : tensor<1x4x3xf32>) outs(%r3 : tensor<1x4x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<1x4x3xf32>
  return %copy : tensor<1x4x3xf32>
}

// Frequencies that are no weight, as those that change with the length of the text, are left alone;
// and so is a cosine of something else.
// CHECK-LABEL: func.func @others
// CHECK-NOT:     llmc.rotary_table
// CHECK:         math.cos
// CHECK:         math.cos
// CHECK:         return
func.func @others(%positions: tensor<1x4xi64>, %f: tensor<3xf32>, %y: tensor<1x4x3xf32>) -> (tensor<1x4x3xf32>, tensor<1x4x3xf32>) {
  %p = tensor.expand_shape %positions [[0], [1, 2]] output_shape [1, 4, 1] : tensor<1x4xi64> into tensor<1x4x1xi64>
  %r1 = tensor.empty() : tensor<1x4x1xf32>
  %x = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : tensor<1x4x1xi64>) outs(%r1 : tensor<1x4x1xf32>) {
  ^bb0(%in: i64, %out: f32):
    %0 = arith.sitofp %in : i64 to f32
    linalg.yield %0 : f32
  } -> tensor<1x4x1xf32>
  %r3 = tensor.empty() : tensor<1x4x3xf32>
  %angles = linalg.generic {indexing_maps = [#column, #row, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %f : tensor<1x4x1xf32>, tensor<3xf32>) outs(%r3 : tensor<1x4x3xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<1x4x3xf32>
  %cos = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%angles : tensor<1x4x3xf32>) outs(%r3 : tensor<1x4x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.cos %in : f32
    linalg.yield %0 : f32
  } -> tensor<1x4x3xf32>
  %other = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%y : tensor<1x4x3xf32>) outs(%r3 : tensor<1x4x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.cos %in : f32
    linalg.yield %0 : f32
  } -> tensor<1x4x3xf32>
  return %cos, %other : tensor<1x4x3xf32>, tensor<1x4x3xf32>
}

// -----

// The pass emits nothing itself; what it would work on is still verified.
func.func @invalid() -> tensor<?xf32> {
  // expected-error@+1 {{'llmc.parameter' op result must be static in dimension 0, but is tensor<?xf32>}}
  %f = "llmc.parameter"() {sources = ["inv_freq"]} : () -> tensor<?xf32>
  return %f : tensor<?xf32>
}

// -----

// Who only writes into the room of a cosine does not scale it.
// CHECK-LABEL: func.func @room
// CHECK-NOT:     scale = 2.0
// CHECK:         arith.mulf
// CHECK:         return
// DEFAULT-LABEL: func.func @room
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#column = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#row = affine_map<(d0, d1, d2) -> (d2)>
func.func @room(%positions: tensor<1x4xi64>, %y: tensor<1x4x3xf32>) -> tensor<1x4x3xf32> {
  %f = "llmc.parameter"() {sources = ["model.rotary_emb.inv_freq"]} : () -> tensor<3xf32>
  %p = tensor.expand_shape %positions [[0], [1, 2]] output_shape [1, 4, 1] : tensor<1x4xi64> into tensor<1x4x1xi64>
  %r1 = tensor.empty() : tensor<1x4x1xf32>
  %x = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : tensor<1x4x1xi64>) outs(%r1 : tensor<1x4x1xf32>) {
  ^bb0(%in: i64, %out: f32):
    %0 = arith.sitofp %in : i64 to f32
    linalg.yield %0 : f32
  } -> tensor<1x4x1xf32>
  %r3 = tensor.empty() : tensor<1x4x3xf32>
  %angles = linalg.generic {indexing_maps = [#column, #row, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %f : tensor<1x4x1xf32>, tensor<3xf32>) outs(%r3 : tensor<1x4x3xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<1x4x3xf32>
  %cos = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%angles : tensor<1x4x3xf32>) outs(%r3 : tensor<1x4x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.cos %in : f32
    linalg.yield %0 : f32
  } -> tensor<1x4x3xf32>
  %two = arith.constant 2.0 : f32
  %z = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%y : tensor<1x4x3xf32>) outs(%cos : tensor<1x4x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.mulf %in, %two : f32
    linalg.yield %0 : f32
  } -> tensor<1x4x3xf32>
  return %z : tensor<1x4x3xf32>
}
