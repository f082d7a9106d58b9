// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @decode
// CHECK:         "llmc.decode_attention_part"({{.+}}) {first = 1 : i64
// CHECK-SAME:      step = 3 : i64
// CHECK-SAME:      -> (tensor<?x30xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x4xf16>)
//
// What is appended goes behind the columns before this one that the caches have, each third.
// LOWER-LABEL: func.func @decode
// LOWER:         %[[BEHIND:.+]] = arith.addi %arg6, %c1
// LOWER:         %[[COLUMN:.+]] = arith.divui %[[BEHIND]], %c3
// LOWER:         %[[KEYS:.+]] = tensor.insert_slice %{{.+}} into %arg1[%arg4, %arg5, 0, %[[COLUMN]], 0] [1, %{{.+}}, 2, 1, 8]
// LOWER:         %[[VALUES:.+]] = tensor.insert_slice %{{.+}} into %arg2[%arg4, %arg5, 0, %[[COLUMN]], 0] [1, %{{.+}}, 2, 1, 4]
// LOWER:         linalg.softmax
// LOWER:         math.log
// LOWER-NOT:     llmc.
// LOWER:         return %{{.+}}, %[[KEYS]], %[[VALUES]]
func.func @decode(%qkv: tensor<?x72xf32>, %keys: tensor<5x?x2x?x8xf32>, %values: tensor<5x?x2x?x4xf16>, %start: tensor<?xi64>, %layer: index, %sequence: index, %past: index)
    -> (tensor<?x30xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x4xf16>) {
  %o, %k, %v = "llmc.decode_attention_part"(%qkv, %qkv, %qkv, %keys, %values, %start, %layer, %sequence, %past)
       {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>, first = 1 : i64, step = 3 : i64, interleaved = 0 : i64, norm_epsilon = 0.0, norm_offset = 0.0, head_stride = 0 : i64, query_offset = 0 : i64, key_offset = 48 : i64, value_offset = 64 : i64, key_channels = 8 : i64, value_channels = 4 : i64, scale = 0.5, window = 3 : i64, softcap = 0.0}
     : (tensor<?x72xf32>, tensor<?x72xf32>, tensor<?x72xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x4xf16>, tensor<?xi64>, index, index, index)
     -> (tensor<?x30xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x4xf16>)
  return %o, %k, %v : tensor<?x30xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x4xf16>
}

// -----

func.func @no_room(%q: tensor<1x16xf32>, %cache: tensor<5x?x2x?x8xf32>, %start: tensor<1xi64>, %i: index) {
  // CHECK: error: 'llmc.decode_attention_part' op result 'out' must have its channels = a multiple of 18, but has 16
  %o, %k, %v = "llmc.decode_attention_part"(%q, %q, %q, %cache, %cache, %start, %i, %i, %i)
       {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>, first = 0 : i64, step = 2 : i64, interleaved = 0 : i64, norm_epsilon = 0.0, norm_offset = 0.0, head_stride = 0 : i64, query_offset = 0 : i64, key_offset = 0 : i64, value_offset = 0 : i64, key_channels = 8 : i64, value_channels = 8 : i64, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x16xf32>, tensor<1x16xf32>, tensor<1x16xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<1xi64>, index, index, index)
     -> (tensor<1x16xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>)
  return
}

// -----

func.func @beyond(%q: tensor<1x16xf32>, %cache: tensor<5x?x2x?x8xf32>, %start: tensor<1xi64>, %i: index) {
  // CHECK: error: 'llmc.decode_attention_part' op attribute 'first' must be less than 'step', 2, but is 2
  %o, %k, %v = "llmc.decode_attention_part"(%q, %q, %q, %cache, %cache, %start, %i, %i, %i)
       {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>, first = 2 : i64, step = 2 : i64, interleaved = 0 : i64, norm_epsilon = 0.0, norm_offset = 0.0, head_stride = 0 : i64, query_offset = 0 : i64, key_offset = 0 : i64, value_offset = 0 : i64, key_channels = 8 : i64, value_channels = 8 : i64, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x16xf32>, tensor<1x16xf32>, tensor<1x16xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<1xi64>, index, index, index)
     -> (tensor<1x18xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>)
  return
}
