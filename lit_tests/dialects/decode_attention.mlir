// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @decode
// CHECK:         "llmc.decode_attention"(%arg0, %arg0, %arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6, %arg7, %arg7)
// CHECK-SAME:      key_offset = 48 : i64
// CHECK-SAME:      -> (tensor<?x24xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x4xf16>)
//
// It means rotary embedding, appending, and attention over the columns that are held then.
// LOWER-LABEL: func.func @decode
// LOWER-DAG:     %[[QUERY:.+]] = tensor.extract_slice %arg0[0, 0] [%{{.+}}, 48]
// LOWER-DAG:     %[[KEY:.+]] = tensor.extract_slice %arg0[0, 48] [%{{.+}}, 16]
// LOWER-DAG:     %[[VALUE:.+]] = tensor.extract_slice %arg0[0, 64] [%{{.+}}, 8]
// LOWER:         %[[KEYS:.+]] = tensor.insert_slice %{{.+}} into %arg1[%arg4, %arg5, 0, %arg6, 0] [1, %{{.+}}, 2, 1, 8]
// LOWER:         arith.truncf
// LOWER:         %[[VALUES:.+]] = tensor.insert_slice %{{.+}} into %arg2[%arg4, %arg5, 0, %arg6, 0] [1, %{{.+}}, 2, 1, 4]
// LOWER:         linalg.softmax
// LOWER-NOT:     llmc.
// LOWER:         return %{{.+}}, %[[KEYS]], %[[VALUES]]
func.func @decode(%qkv: tensor<?x72xf32>, %keys: tensor<5x?x2x?x8xf32>, %values: tensor<5x?x2x?x4xf16>, %start: tensor<?xi64>, %layer: index, %sequence: index, %past: index, %table: tensor<?x1x8xf32>)
    -> (tensor<?x24xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x4xf16>) {
  %o, %k, %v = "llmc.decode_attention"(%qkv, %qkv, %qkv, %keys, %values, %start, %layer, %sequence, %past, %table, %table)
       {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0>, interleaved = 0 : i64, norm_epsilon = 0.0, norm_offset = 0.0, head_stride = 0 : i64, query_offset = 0 : i64, key_offset = 48 : i64, value_offset = 64 : i64, key_channels = 8 : i64, value_channels = 4 : i64, scale = 0.5, window = 3 : i64, softcap = 0.0}
     : (tensor<?x72xf32>, tensor<?x72xf32>, tensor<?x72xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x4xf16>, tensor<?xi64>, index, index, index, tensor<?x1x8xf32>, tensor<?x1x8xf32>)
     -> (tensor<?x24xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x4xf16>)
  return %o, %k, %v : tensor<?x24xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x4xf16>
}

// -----

// Norms come before the rotary embedding, by the layer's row of weights.
// CHECK-LABEL: func.func @normed
// CHECK:         "llmc.decode_attention"({{.+}}, %arg6, %arg7)
// CHECK-SAME:      norm_epsilon = {{9.99.+}} : f64, norm_offset = 1.000000e+00 : f64
// LOWER-LABEL: func.func @normed
// LOWER:         %[[OWN:.+]] = tensor.extract_slice %arg6[%arg3, 0] [1, 8]
// LOWER:         math.rsqrt
// LOWER:         tensor.extract_slice %arg7[%arg3, 0] [1, 8]
// LOWER:         math.rsqrt
// LOWER:         tensor.insert_slice
func.func @normed(%qkv: tensor<1x32xf32>, %cache: tensor<5x?x1x?x8xf32>, %start: tensor<1xi64>, %layer: index, %sequence: index, %past: index, %qn: tensor<5x8xf32>, %kn: tensor<5x8xf32>)
    -> (tensor<1x16xf32>, tensor<5x?x1x?x8xf32>, tensor<5x?x1x?x8xf32>) {
  %o, %k, %v = "llmc.decode_attention"(%qkv, %qkv, %qkv, %cache, %cache, %start, %layer, %sequence, %past, %qn, %kn)
       {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1>, interleaved = 0 : i64, norm_epsilon = 1.0e-6, norm_offset = 1.0, head_stride = 0 : i64, query_offset = 0 : i64, key_offset = 16 : i64, value_offset = 24 : i64, key_channels = 8 : i64, value_channels = 8 : i64, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x32xf32>, tensor<1x32xf32>, tensor<1x32xf32>, tensor<5x?x1x?x8xf32>, tensor<5x?x1x?x8xf32>, tensor<1xi64>, index, index, index, tensor<5x8xf32>, tensor<5x8xf32>)
     -> (tensor<1x16xf32>, tensor<5x?x1x?x8xf32>, tensor<5x?x1x?x8xf32>)
  return %o, %k, %v : tensor<1x16xf32>, tensor<5x?x1x?x8xf32>, tensor<5x?x1x?x8xf32>
}

// -----

func.func @norms(%q: tensor<1x16xf32>, %cache: tensor<5x?x2x?x8xf32>, %start: tensor<1xi64>, %i: index, %norm: tensor<4x8xf32>) {
  // CHECK: error: 'llmc.decode_attention' op operand 'query_norm' must have its layers = 5, but has 4
  %o, %k, %v = "llmc.decode_attention"(%q, %q, %q, %cache, %cache, %start, %i, %i, %i, %norm, %norm)
       {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1>, interleaved = 0 : i64, norm_epsilon = 0.0, norm_offset = 0.0, head_stride = 0 : i64, query_offset = 0 : i64, key_offset = 0 : i64, value_offset = 0 : i64, key_channels = 8 : i64, value_channels = 8 : i64, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x16xf32>, tensor<1x16xf32>, tensor<1x16xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<1xi64>, index, index, index, tensor<4x8xf32>, tensor<4x8xf32>)
     -> (tensor<1x16xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>)
  return
}

// -----

func.func @open_norm(%q: tensor<1x16xf32>, %cache: tensor<5x?x2x?x8xf32>, %start: tensor<1xi64>, %i: index, %norm: tensor<5x?xf32>) {
  // CHECK: error: 'llmc.decode_attention' op operand 'query_norm' must be static in dimension 1, but is tensor<5x?xf32>
  %o, %k, %v = "llmc.decode_attention"(%q, %q, %q, %cache, %cache, %start, %i, %i, %i, %norm, %norm)
       {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1>, interleaved = 0 : i64, norm_epsilon = 0.0, norm_offset = 0.0, head_stride = 0 : i64, query_offset = 0 : i64, key_offset = 0 : i64, value_offset = 0 : i64, key_channels = 8 : i64, value_channels = 8 : i64, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x16xf32>, tensor<1x16xf32>, tensor<1x16xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<1xi64>, index, index, index, tensor<5x?xf32>, tensor<5x?xf32>)
     -> (tensor<1x16xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>)
  return
}

// -----

func.func @room(%qkv: tensor<1x32xf32>, %cache: tensor<5x?x2x?x8xf32>, %start: tensor<1xi64>, %i: index) {
  // CHECK: error: 'llmc.decode_attention' op operand 'value' must have 16 channels from 24 on, but has 32 in all
  %o, %k, %v = "llmc.decode_attention"(%qkv, %qkv, %qkv, %cache, %cache, %start, %i, %i, %i)
       {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>, interleaved = 0 : i64, norm_epsilon = 0.0, norm_offset = 0.0, head_stride = 0 : i64, query_offset = 0 : i64, key_offset = 16 : i64, value_offset = 24 : i64, key_channels = 8 : i64, value_channels = 8 : i64, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x32xf32>, tensor<1x32xf32>, tensor<1x32xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<1xi64>, index, index, index)
     -> (tensor<1x16xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>)
  return
}

// -----

func.func @heads(%q: tensor<1x24xf32>, %cache: tensor<5x?x2x?x8xf32>, %start: tensor<1xi64>, %i: index) {
  // CHECK: error: 'llmc.decode_attention' op result 'out' must have its channels = a multiple of 16, but has 24
  %o, %k, %v = "llmc.decode_attention"(%q, %q, %q, %cache, %cache, %start, %i, %i, %i)
       {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>, interleaved = 0 : i64, norm_epsilon = 0.0, norm_offset = 0.0, head_stride = 0 : i64, query_offset = 0 : i64, key_offset = 0 : i64, value_offset = 0 : i64, key_channels = 8 : i64, value_channels = 8 : i64, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x24xf32>, tensor<1x24xf32>, tensor<1x24xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<1xi64>, index, index, index)
     -> (tensor<1x24xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>)
  return
}

// -----

func.func @tables(%q: tensor<1x16xf32>, %cache: tensor<5x?x2x?x8xf32>, %start: tensor<1xi64>, %i: index, %table: tensor<1x1x16xf32>) {
  // CHECK: error: 'llmc.decode_attention' op operand 'cos' must have a last dimension of at most 8, but has 16
  %o, %k, %v = "llmc.decode_attention"(%q, %q, %q, %cache, %cache, %start, %i, %i, %i, %table, %table)
       {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0>, interleaved = 0 : i64, norm_epsilon = 0.0, norm_offset = 0.0, head_stride = 0 : i64, query_offset = 0 : i64, key_offset = 0 : i64, value_offset = 0 : i64, key_channels = 8 : i64, value_channels = 8 : i64, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x16xf32>, tensor<1x16xf32>, tensor<1x16xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<1xi64>, index, index, index, tensor<1x1x16xf32>, tensor<1x1x16xf32>)
     -> (tensor<1x16xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>)
  return
}

// -----

func.func @half(%q: tensor<1x16xf32>, %cache: tensor<5x?x2x?x8xf32>, %start: tensor<1xi64>, %i: index, %table: tensor<1x1x8xf32>) {
  // CHECK: error: 'llmc.decode_attention' op operand 'cos' must go together with 'sin'
  %o, %k, %v = "llmc.decode_attention"(%q, %q, %q, %cache, %cache, %start, %i, %i, %i, %table)
       {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0>, interleaved = 0 : i64, norm_epsilon = 0.0, norm_offset = 0.0, head_stride = 0 : i64, query_offset = 0 : i64, key_offset = 0 : i64, value_offset = 0 : i64, key_channels = 8 : i64, value_channels = 8 : i64, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x16xf32>, tensor<1x16xf32>, tensor<1x16xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<1xi64>, index, index, index, tensor<1x1x8xf32>)
     -> (tensor<1x16xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>)
  return
}
