// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @append
// CHECK:         "llmc.cache_append"(%arg0, %arg1, %arg2, %arg3, %arg4)
//
// What lies beside the rows is not touched, so that IREE can write in place.
// LOWER-LABEL: func.func @append
// LOWER:         %[[TOKENS:.+]] = tensor.dim %arg1
// LOWER-NEXT:    %[[NEW:.+]] = tensor.insert_slice %arg1 into %arg0[%arg2, %arg3, 0, %arg4, 0] [1, 1, 3, %[[TOKENS]], 4]
// LOWER-NEXT:    return %[[NEW]]
func.func @append(%cache: tensor<2x?x3x?x4xf32>, %rows: tensor<1x3x?x4xf32>, %layer: index, %sequence: index, %column: index) -> tensor<2x?x3x?x4xf32> {
  %new = "llmc.cache_append"(%cache, %rows, %layer, %sequence, %column)
       : (tensor<2x?x3x?x4xf32>, tensor<1x3x?x4xf32>, index, index, index) -> tensor<2x?x3x?x4xf32>
  return %new : tensor<2x?x3x?x4xf32>
}

// Rows are rounded to what the cache holds: to narrower floats, or to blocks of 32 channels, which
// are put among those of the cells in reach. Keys are transformed before, in five stages of sums and
// differences.
// LOWER-LABEL: func.func @rounded
// LOWER:         arith.truncf
// LOWER:         tensor.insert_slice %{{.+}} into %arg0[%arg3, %arg3, 0, %arg3, 0]
// LOWER:         tensor.expand_shape %arg2 {{.+}} output_shape [1, 3, %{{.+}}, 2, 2, 2, 2, 2, 2]
// LOWER-COUNT-5: "parallel", "parallel", "parallel", "parallel", "parallel", "reduction"]
// LOWER:         math.round
// LOWER:         %[[NEW:.+]] = "llmc.bytes_to_blocks"({{.+}} -> tensor<1x3x?x2x!llmc.q8_0>
// LOWER:         %[[FIRST:.+]] = arith.divui %arg3, %c512
// LOWER:         %[[OLD:.+]] = tensor.extract_slice %arg1[%arg3, %arg3, 0, %[[FIRST]], 0] [1, 1, 3, %{{.+}}, 2]
// LOWER:         %[[BLOCKS:.+]] = "llmc.bytes_to_blocks"({{.+}} -> tensor<1x3x?x2x!llmc.q8_0>
// LOWER:         %[[WITHIN:.+]] = arith.remui %arg3, %c512
// LOWER:         tensor.insert_slice %[[NEW]] into %[[BLOCKS]][0, 0, %[[WITHIN]], 0]
// LOWER:         %[[CELLS:.+]] = "llmc.bytes_to_blocks"({{.+}} -> tensor<1x3x?x2x!llmc.q8_0_keys>
// LOWER:         tensor.insert_slice %[[CELLS]] into %arg1[%arg3, %arg3, 0, %[[FIRST]], 0] [1, 1, 3, %{{.+}}, 2]
func.func @rounded(%halves: tensor<2x?x3x?x64xf16>, %blocks: tensor<2x?x3x?x2x!llmc.q8_0_keys>, %rows: tensor<1x3x?x64xf32>, %i: index)
    -> (tensor<2x?x3x?x64xf16>, tensor<2x?x3x?x2x!llmc.q8_0_keys>) {
  %a = "llmc.cache_append"(%halves, %rows, %i, %i, %i)
     : (tensor<2x?x3x?x64xf16>, tensor<1x3x?x64xf32>, index, index, index) -> tensor<2x?x3x?x64xf16>
  %b = "llmc.cache_append"(%blocks, %rows, %i, %i, %i)
     : (tensor<2x?x3x?x2x!llmc.q8_0_keys>, tensor<1x3x?x64xf32>, index, index, index) -> tensor<2x?x3x?x2x!llmc.q8_0_keys>
  return %a, %b : tensor<2x?x3x?x64xf16>, tensor<2x?x3x?x2x!llmc.q8_0_keys>
}

// LOWER-LABEL: func.func @values
// LOWER-NOT:     "parallel", "parallel", "parallel", "parallel", "parallel", "reduction"]
// LOWER:         math.round
func.func @values(%cache: tensor<2x?x3x?x2x!llmc.q8_0_values>, %rows: tensor<1x3x?x64xf32>, %i: index) -> tensor<2x?x3x?x2x!llmc.q8_0_values> {
  %new = "llmc.cache_append"(%cache, %rows, %i, %i, %i)
       : (tensor<2x?x3x?x2x!llmc.q8_0_values>, tensor<1x3x?x64xf32>, index, index, index) -> tensor<2x?x3x?x2x!llmc.q8_0_values>
  return %new : tensor<2x?x3x?x2x!llmc.q8_0_values>
}

// Behind rows that end within a block are zeros.
// LOWER-LABEL: func.func @within_a_block
// LOWER:         %[[ZEROS:.+]] = linalg.fill ins(%{{.+}} : f32) outs(%{{.+}} : tensor<1x3x?x64xf32>)
// LOWER:         tensor.insert_slice %arg1 into %[[ZEROS]][0, 0, 0, 0] [1, 3, %{{.+}}, 48]
// LOWER:         "llmc.bytes_to_blocks"({{.+}} -> tensor<1x3x?x2x!llmc.q8_0>
func.func @within_a_block(%cache: tensor<2x?x3x?x2x!llmc.q8_0_values>, %rows: tensor<1x3x?x48xf32>, %i: index) -> tensor<2x?x3x?x2x!llmc.q8_0_values> {
  %new = "llmc.cache_append"(%cache, %rows, %i, %i, %i)
       : (tensor<2x?x3x?x2x!llmc.q8_0_values>, tensor<1x3x?x48xf32>, index, index, index) -> tensor<2x?x3x?x2x!llmc.q8_0_values>
  return %new : tensor<2x?x3x?x2x!llmc.q8_0_values>
}

// -----

func.func @heads(%cache: tensor<2x?x3x?x4xf32>, %rows: tensor<1x2x?x4xf32>, %i: index) {
  // CHECK: error: 'llmc.cache_append' op operand 'rows' must have its heads = 3, but has 2
  %new = "llmc.cache_append"(%cache, %rows, %i, %i, %i)
       : (tensor<2x?x3x?x4xf32>, tensor<1x2x?x4xf32>, index, index, index) -> tensor<2x?x3x?x4xf32>
  return
}

// -----

func.func @channels(%cache: tensor<2x?x3x?x4xf32>, %rows: tensor<1x3x?x8xf32>, %i: index) {
  // CHECK: error: 'llmc.cache_append' op operand 'rows' must have its channels = 4, but has 8
  %new = "llmc.cache_append"(%cache, %rows, %i, %i, %i)
       : (tensor<2x?x3x?x4xf32>, tensor<1x3x?x8xf32>, index, index, index) -> tensor<2x?x3x?x4xf32>
  return
}

// -----

func.func @element(%cache: tensor<2x?x3x?x4xf32>, %rows: tensor<1x3x?x4xf16>, %i: index) {
  // CHECK: error: 'llmc.cache_append' op operand 'cache' must hold f16 or narrower
  %new = "llmc.cache_append"(%cache, %rows, %i, %i, %i)
       : (tensor<2x?x3x?x4xf32>, tensor<1x3x?x4xf16>, index, index, index) -> tensor<2x?x3x?x4xf32>
  return
}

// -----

func.func @blocks(%cache: tensor<2x?x3x?x2x!llmc.q4_0>, %rows: tensor<1x3x?x64xf32>, %i: index) {
  // CHECK: error: 'llmc.cache_append' op operand 'cache' must hold floats (f16, bf16, f32, f64), but is tensor<2x?x3x?x2x!llmc.q4_0>
  %new = "llmc.cache_append"(%cache, %rows, %i, %i, %i)
       : (tensor<2x?x3x?x2x!llmc.q4_0>, tensor<1x3x?x64xf32>, index, index, index) -> tensor<2x?x3x?x2x!llmc.q4_0>
  return
}

// -----

func.func @narrow_rows(%cache: tensor<2x?x3x?x2x!llmc.q8_0_keys>, %rows: tensor<1x3x?x64xf16>, %i: index) {
  // CHECK: error: 'llmc.cache_append' op operand 'cache' must be for f32, not tensor<1x3x?x64xf16>
  %new = "llmc.cache_append"(%cache, %rows, %i, %i, %i)
       : (tensor<2x?x3x?x2x!llmc.q8_0_keys>, tensor<1x3x?x64xf16>, index, index, index) -> tensor<2x?x3x?x2x!llmc.q8_0_keys>
  return
}

// -----

func.func @channels_of_blocks(%cache: tensor<2x?x3x?x2x!llmc.q8_0_keys>, %rows: tensor<1x3x?x32xf32>, %i: index) {
  // CHECK: error: 'llmc.cache_append' op operand 'rows' must have its channels = 64, or up to 31 fewer, but has 32
  %new = "llmc.cache_append"(%cache, %rows, %i, %i, %i)
       : (tensor<2x?x3x?x2x!llmc.q8_0_keys>, tensor<1x3x?x32xf32>, index, index, index) -> tensor<2x?x3x?x2x!llmc.q8_0_keys>
  return
}

// -----

func.func @result(%cache: tensor<2x?x3x?x4xf32>, %rows: tensor<1x3x?x4xf32>, %i: index) {
  // CHECK: error: 'llmc.cache_append' op result must be tensor<2x?x3x?x4xf32> as 'cache' is
  %new = "llmc.cache_append"(%cache, %rows, %i, %i, %i)
       : (tensor<2x?x3x?x4xf32>, tensor<1x3x?x4xf32>, index, index, index) -> tensor<2x?x3x9x4xf32>
  return
}

// -----

func.func @no_index(%cache: tensor<2x?x3x?x4xf32>, %rows: tensor<1x3x?x4xf32>, %i: i64) {
  // CHECK: error: 'llmc.cache_append' op operand 'layer' must be an index, but is i64
  %new = "llmc.cache_append"(%cache, %rows, %i, %i, %i)
       : (tensor<2x?x3x?x4xf32>, tensor<1x3x?x4xf32>, i64, i64, i64) -> tensor<2x?x3x?x4xf32>
  return
}

// -----

func.func @tokens(%cache: tensor<2x?x3x8x4xf32>, %rows: tensor<1x3x9x4xf32>, %i: index) {
  // CHECK: error: 'llmc.cache_append' op operand 'rows' must have tokens of at most 8, but has 9
  %new = "llmc.cache_append"(%cache, %rows, %i, %i, %i)
       : (tensor<2x?x3x8x4xf32>, tensor<1x3x9x4xf32>, index, index, index) -> tensor<2x?x3x8x4xf32>
  return
}

// -----

func.func @sequences(%cache: tensor<2x2x3x?x4xf32>, %rows: tensor<3x3x1x4xf32>, %i: index) {
  // CHECK: error: 'llmc.cache_append' op operand 'rows' must have a batch of at most 2, but has 3
  %new = "llmc.cache_append"(%cache, %rows, %i, %i, %i)
       : (tensor<2x2x3x?x4xf32>, tensor<3x3x1x4xf32>, index, index, index) -> tensor<2x2x3x?x4xf32>
  return
}

// -----

func.func @rank(%cache: tensor<2x?x3x?x4xf32>, %rows: tensor<3x1x4xf32>, %i: index) {
  // CHECK: error: 'llmc.cache_append' op operand 'rows' must have rank 4, but is tensor<3x1x4xf32>
  %new = "llmc.cache_append"(%cache, %rows, %i, %i, %i)
       : (tensor<2x?x3x?x4xf32>, tensor<3x1x4xf32>, index, index, index) -> tensor<2x?x3x?x4xf32>
  return
}

// -----

func.func @open(%cache: tensor<2x?x3x?x?xf32>, %rows: tensor<1x3x?x4xf32>, %i: index) {
  // CHECK: error: 'llmc.cache_append' op operand 'cache' must be static in dimension 4, but is tensor<2x?x3x?x?xf32>
  %new = "llmc.cache_append"(%cache, %rows, %i, %i, %i)
       : (tensor<2x?x3x?x?xf32>, tensor<1x3x?x4xf32>, index, index, index) -> tensor<2x?x3x?x?xf32>
  return
}

// -----

func.func @open_cells(%cache: tensor<2x?x3x?x2x!llmc.q8_0_keys>, %rows: tensor<1x3x?x?xf32>, %i: index) {
  // CHECK: error: 'llmc.cache_append' op operand 'rows' must be static in dimension 3, but is tensor<1x3x?x?xf32>
  %new = "llmc.cache_append"(%cache, %rows, %i, %i, %i)
       : (tensor<2x?x3x?x2x!llmc.q8_0_keys>, tensor<1x3x?x?xf32>, index, index, index) -> tensor<2x?x3x?x2x!llmc.q8_0_keys>
  return
}
