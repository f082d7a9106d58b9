// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @prefill
// CHECK:         "llmc.cached_attention"(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6) {scale = 5.000000e-01 : f64, softcap = 0.000000e+00 : f64, window = 3 : i64}
//
// It means attention over the columns that are held, the new ones included.
// LOWER-LABEL: func.func @prefill
// LOWER:         %[[TOKENS:.+]] = tensor.dim %arg0
// LOWER:         %[[END:.+]] = arith.addi %arg6, %[[TOKENS]]
// LOWER:         %[[KEYS:.+]] = tensor.extract_slice %arg1[%arg4, %arg5, 0, 0, 0] [1, 1, 2, %[[END]], 8]
// LOWER:         %[[VALUES:.+]] = tensor.extract_slice %arg2[%arg4, %arg5, 0, 0, 0] [1, 1, 2, %[[END]], 4]
// LOWER:         linalg.generic {{.+}} ins(%{{.+}}, %[[KEYS]] :
// LOWER:         linalg.softmax
// LOWER:         linalg.generic {{.+}} ins(%{{.+}}, %[[VALUES]] :
// LOWER-NOT:     llmc.
// LOWER:         return
func.func @prefill(%q: tensor<1x6x?x8xf32>, %keys: tensor<5x?x2x?x8xf32>, %values: tensor<5x?x2x?x4xf32>, %start: tensor<1xi64>, %layer: index, %sequence: index, %past: index) -> tensor<1x6x?x4xf32> {
  %o = "llmc.cached_attention"(%q, %keys, %values, %start, %layer, %sequence, %past)
       {scale = 0.5, window = 3 : i64, softcap = 0.0}
     : (tensor<1x6x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x4xf32>, tensor<1xi64>, index, index, index) -> tensor<1x6x?x4xf32>
  return %o : tensor<1x6x?x4xf32>
}

// -----

func.func @heads(%q: tensor<1x5x?x8xf32>, %cache: tensor<5x?x2x?x8xf32>, %start: tensor<1xi64>, %i: index) {
  // CHECK: error: 'llmc.cached_attention' op operand 'query' must have its heads = a multiple of 2, but has 5
  %o = "llmc.cached_attention"(%q, %cache, %cache, %start, %i, %i, %i) {scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x5x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<1xi64>, index, index, index) -> tensor<1x5x?x8xf32>
  return
}

// -----

func.func @channels(%q: tensor<1x6x?x4xf32>, %cache: tensor<5x?x2x?x8xf32>, %start: tensor<1xi64>, %i: index) {
  // CHECK: error: 'llmc.cached_attention' op operand 'query' must have its channels = 8, but has 4
  %o = "llmc.cached_attention"(%q, %cache, %cache, %start, %i, %i, %i) {scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x6x?x4xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<1xi64>, index, index, index) -> tensor<1x6x?x8xf32>
  return
}

// -----

func.func @open(%q: tensor<1x6x?x8xf32>, %cache: tensor<5x?x?x?x8xf32>, %start: tensor<1xi64>, %i: index) {
  // CHECK: error: 'llmc.cached_attention' op operand 'keys' must be static in dimension 2, but is tensor<5x?x?x?x8xf32>
  %o = "llmc.cached_attention"(%q, %cache, %cache, %start, %i, %i, %i) {scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x6x?x8xf32>, tensor<5x?x?x?x8xf32>, tensor<5x?x?x?x8xf32>, tensor<1xi64>, index, index, index) -> tensor<1x6x?x8xf32>
  return
}

// -----

func.func @result(%q: tensor<1x6x3x8xf32>, %cache: tensor<5x?x2x?x8xf32>, %start: tensor<1xi64>, %i: index) {
  // CHECK: error: 'llmc.cached_attention' op result must have dimension 2 = 3, but has 4
  %o = "llmc.cached_attention"(%q, %cache, %cache, %start, %i, %i, %i) {scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x6x3x8xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<1xi64>, index, index, index) -> tensor<1x6x4x8xf32>
  return
}

// -----

func.func @values(%q: tensor<1x6x3x8xf32>, %k: tensor<5x?x2x?x8xf32>, %v: tensor<5x?x3x?x8xf32>, %start: tensor<1xi64>, %i: index) {
  // CHECK: error: 'llmc.cached_attention' op operand 'values' must have its heads = 2, but has 3
  %o = "llmc.cached_attention"(%q, %k, %v, %start, %i, %i, %i) {scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x6x3x8xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x3x?x8xf32>, tensor<1xi64>, index, index, index) -> tensor<1x6x3x8xf32>
  return
}

// -----

func.func @start(%q: tensor<1x6x3x8xf32>, %k: tensor<5x?x2x?x8xf32>, %v: tensor<5x?x2x?x8xf32>, %start: tensor<2xi64>, %i: index) {
  // CHECK: error: 'llmc.cached_attention' op operand 'start' must have its length = 1, but has 2
  %o = "llmc.cached_attention"(%q, %k, %v, %start, %i, %i, %i) {scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x6x3x8xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<2xi64>, index, index, index) -> tensor<1x6x3x8xf32>
  return
}

// -----

func.func @start_floats(%q: tensor<1x6x3x8xf32>, %k: tensor<5x?x2x?x8xf32>, %v: tensor<5x?x2x?x8xf32>, %start: tensor<1xf32>, %i: index) {
  // CHECK: error: 'llmc.cached_attention' op operand 'start' must hold integers (i8, i16, i32, i64), but is tensor<1xf32>
  %o = "llmc.cached_attention"(%q, %k, %v, %start, %i, %i, %i) {scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x6x3x8xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<1xf32>, index, index, index) -> tensor<1x6x3x8xf32>
  return
}

// -----

func.func @capacity(%q: tensor<1x6x3x8xf32>, %k: tensor<5x?x2x2x8xf32>, %v: tensor<5x?x2x?x8xf32>, %start: tensor<1xi64>, %i: index) {
  // CHECK: error: 'llmc.cached_attention' op operand 'query' must have tokens of at most 2, but has 3
  %o = "llmc.cached_attention"(%q, %k, %v, %start, %i, %i, %i) {scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x6x3x8xf32>, tensor<5x?x2x2x8xf32>, tensor<5x?x2x?x8xf32>, tensor<1xi64>, index, index, index) -> tensor<1x6x3x8xf32>
  return
}

// -----

func.func @sequences(%q: tensor<4x6x3x8xf32>, %k: tensor<5x2x2x?x8xf32>, %v: tensor<5x?x2x?x8xf32>, %start: tensor<1xi64>, %i: index) {
  // CHECK: error: 'llmc.cached_attention' op operand 'query' must have a batch of at most 2, but has 4
  %o = "llmc.cached_attention"(%q, %k, %v, %start, %i, %i, %i) {scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<4x6x3x8xf32>, tensor<5x2x2x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<1xi64>, index, index, index) -> tensor<1x6x3x8xf32>
  return
}

// -----

func.func @empty(%q: tensor<1x6x3x8xf32>, %k: tensor<5x?x0x?x8xf32>, %v: tensor<5x?x2x?x8xf32>, %start: tensor<1xi64>, %i: index) {
  // CHECK: error: 'llmc.cached_attention' op operand 'keys' must not be empty, but is tensor<5x?x0x?x8xf32>
  %o = "llmc.cached_attention"(%q, %k, %v, %start, %i, %i, %i) {scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x6x3x8xf32>, tensor<5x?x0x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<1xi64>, index, index, index) -> tensor<1x6x3x8xf32>
  return
}

// -----

func.func @window(%q: tensor<1x6x3x8xf32>, %k: tensor<5x?x2x?x8xf32>, %v: tensor<5x?x2x?x8xf32>, %start: tensor<1xi64>, %i: index) {
  // CHECK: error: 'llmc.cached_attention' op attribute 'window' must be from 0 to 2147483647, but is -1
  %o = "llmc.cached_attention"(%q, %k, %v, %start, %i, %i, %i) {scale = 0.5, window = -1 : i64, softcap = 0.0}
     : (tensor<1x6x3x8xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<1xi64>, index, index, index) -> tensor<1x6x3x8xf32>
  return
}

// -----

func.func @softcap(%q: tensor<1x6x3x8xf32>, %k: tensor<5x?x2x?x8xf32>, %v: tensor<5x?x2x?x8xf32>, %start: tensor<1xi64>, %i: index) {
  // CHECK: error: 'llmc.cached_attention' op attribute 'softcap' must not be negative
  %o = "llmc.cached_attention"(%q, %k, %v, %start, %i, %i, %i) {scale = 0.5, window = 0 : i64, softcap = -1.0}
     : (tensor<1x6x3x8xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<1xi64>, index, index, index) -> tensor<1x6x3x8xf32>
  return
}

// -----

func.func @cells(%q: tensor<1x6x3x64xf32>, %k: tensor<5x?x2x?x2x!llmc.q8_0_values>, %start: tensor<1xi64>, %i: index) {
  // CHECK: error: 'llmc.cached_attention' op operand 'keys' must hold !llmc.q8_0_keys, but is tensor<5x?x2x?x2x!llmc.q8_0_values>
  %o = "llmc.cached_attention"(%q, %k, %k, %start, %i, %i, %i)
     {scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x6x3x64xf32>, tensor<5x?x2x?x2x!llmc.q8_0_values>, tensor<5x?x2x?x2x!llmc.q8_0_values>, tensor<1xi64>, index, index, index) -> tensor<1x6x3x64xf32>
  return
}

// -----

func.func @mixed(%q: tensor<1x6x3x64xf32>, %k: tensor<5x?x2x?x2x!llmc.q8_0_keys>, %v: tensor<5x?x2x?x64xf16>, %start: tensor<1xi64>, %i: index) {
  // CHECK: error: 'llmc.cached_attention' op operand 'values' must hold cells, or floats, as 'keys' do
  %o = "llmc.cached_attention"(%q, %k, %v, %start, %i, %i, %i)
     {scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x6x3x64xf32>, tensor<5x?x2x?x2x!llmc.q8_0_keys>, tensor<5x?x2x?x64xf16>, tensor<1xi64>, index, index, index) -> tensor<1x6x3x64xf32>
  return
}

// -----

func.func @no_sequence(%q: tensor<0x9x?x64xf32>, %keys: tensor<5x?x3x?x2x!llmc.q8_0_keys>, %values: tensor<5x?x3x?x2x!llmc.q8_0_values>, %start: tensor<0xi64>, %i: index) {
  // CHECK: error: 'llmc.cached_attention' op operand 'query' must not be empty, but is tensor<0x9x?x64xf32>
  %o = "llmc.cached_attention"(%q, %keys, %values, %start, %i, %i, %i) {scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<0x9x?x64xf32>, tensor<5x?x3x?x2x!llmc.q8_0_keys>, tensor<5x?x3x?x2x!llmc.q8_0_values>, tensor<0xi64>, index, index, index) -> tensor<0x9x?x64xf32>
  return
}
