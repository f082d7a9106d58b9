// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(attend-in-place,cse,canonicalize)' | filecheck %s

// The reads of the cache are gone: attention has the caches themselves.
// CHECK-LABEL: func.func @prefill
// CHECK-NOT:     llmc.cache_read
// CHECK:         %[[O:.+]] = "llmc.cached_attention"(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6)
// CHECK-SAME:      softcap = 3.0{{.*}}window = 8
// CHECK-NEXT:    return %[[O]]
func.func @prefill(%q: tensor<1x4x?x16xf32>, %keys: tensor<3x?x2x?x16xf32>,
                   %values: tensor<3x?x2x?x16xf32>, %start: tensor<1xi64>, %layer: index,
                   %sequence: index, %past: index) -> tensor<1x4x?x16xf32> {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %tokens = tensor.dim %q, %c2 : tensor<1x4x?x16xf32>
  %columns = arith.addi %past, %tokens : index
  %k = "llmc.cache_read"(%keys, %layer, %sequence, %c1, %columns)
     : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %v = "llmc.cache_read"(%values, %layer, %sequence, %c1, %columns)
     : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %o = "llmc.attention"(%q, %k, %v, %past, %start)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.25 : f64, window = 8 : i64,
      softcap = 3.0 : f64}
     : (tensor<1x4x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, index, tensor<1xi64>)
     -> tensor<1x4x?x16xf32>
  return %o : tensor<1x4x?x16xf32>
}

// Keys of one layer and values of another are left as they are, and so are those of two sequences.
// CHECK-LABEL: func.func @elsewhere
// CHECK-NOT:     llmc.cached_attention
// CHECK:         return
func.func @elsewhere(%q: tensor<1x4x?x16xf32>, %keys: tensor<3x?x2x?x16xf32>,
                     %values: tensor<3x?x2x?x16xf32>, %start: tensor<1xi64>, %layer: index,
                     %other: index, %past: index) -> (tensor<1x4x?x16xf32>, tensor<1x4x?x16xf32>) {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %tokens = tensor.dim %q, %c2 : tensor<1x4x?x16xf32>
  %columns = arith.addi %past, %tokens : index
  %k = "llmc.cache_read"(%keys, %layer, %layer, %c1, %columns)
     : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %v = "llmc.cache_read"(%values, %other, %layer, %c1, %columns)
     : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %w = "llmc.cache_read"(%values, %layer, %other, %c1, %columns)
     : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %o = "llmc.attention"(%q, %k, %v, %past, %start)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.25 : f64, window = 0 : i64,
      softcap = 0.0 : f64}
     : (tensor<1x4x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, index, tensor<1xi64>)
     -> tensor<1x4x?x16xf32>
  %p = "llmc.attention"(%q, %k, %w, %past, %start)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.25 : f64, window = 0 : i64,
      softcap = 0.0 : f64}
     : (tensor<1x4x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, index, tensor<1xi64>)
     -> tensor<1x4x?x16xf32>
  return %o, %p : tensor<1x4x?x16xf32>, tensor<1x4x?x16xf32>
}

// One token alone is left as it is.
// CHECK-LABEL: func.func @decode
// CHECK-COUNT-2: llmc.cache_read
// CHECK:         llmc.attention
func.func @decode(%q: tensor<1x4x1x16xf32>, %keys: tensor<3x?x2x?x16xf32>,
                  %values: tensor<3x?x2x?x16xf32>, %start: tensor<1xi64>, %layer: index,
                  %sequence: index, %past: index) -> tensor<1x4x1x16xf32> {
  %c1 = arith.constant 1 : index
  %columns = arith.addi %past, %c1 : index
  %k = "llmc.cache_read"(%keys, %layer, %sequence, %c1, %columns)
     : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %v = "llmc.cache_read"(%values, %layer, %sequence, %c1, %columns)
     : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %o = "llmc.attention"(%q, %k, %v, %past, %start)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.25 : f64, window = 0 : i64,
      softcap = 0.0 : f64}
     : (tensor<1x4x1x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, index, tensor<1xi64>)
     -> tensor<1x4x1x16xf32>
  return %o : tensor<1x4x1x16xf32>
}

// Keys that come from no cache are none of this pass's business.
// CHECK-LABEL: func.func @stateless
// CHECK:         llmc.attention
func.func @stateless(%q: tensor<1x4x?x16xf32>, %k: tensor<1x2x?x16xf32>,
                     %v: tensor<1x2x?x16xf32>) -> tensor<1x4x?x16xf32> {
  %o = "llmc.attention"(%q, %k, %v)
     {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.25 : f64, window = 0 : i64,
      softcap = 0.0 : f64}
     : (tensor<1x4x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) -> tensor<1x4x?x16xf32>
  return %o : tensor<1x4x?x16xf32>
}

// -----

// A read of a cache that cannot be is told before the pass runs.
func.func @invalid(%cache: tensor<2x?x2x?x8xf32>, %n: index) -> tensor<1x3x?x8xf32> {
  // expected-error@+1 {{'llmc.cache_read' op result must have its heads = 2, but has 3}}
  %k = "llmc.cache_read"(%cache, %n, %n, %n, %n)
     : (tensor<2x?x2x?x8xf32>, index, index, index, index) -> tensor<1x3x?x8xf32>
  return %k : tensor<1x3x?x8xf32>
}

// -----

// Fewer columns than the tokens see are no cache as it is.
// CHECK-LABEL: func.func @few_columns
// CHECK-COUNT-2: llmc.cache_read
// CHECK:         "llmc.attention"
func.func @few_columns(%q: tensor<1x4x?x16xf32>, %keys: tensor<3x?x2x?x16xf32>,
                   %values: tensor<3x?x2x?x16xf32>, %start: tensor<1xi64>, %layer: index,
                   %sequence: index, %past: index, %few: index) -> tensor<1x4x?x16xf32> {
  %c1 = arith.constant 1 : index
  %k = "llmc.cache_read"(%keys, %layer, %sequence, %c1, %few)
     : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %v = "llmc.cache_read"(%values, %layer, %sequence, %c1, %few)
     : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %o = "llmc.attention"(%q, %k, %v, %past, %start)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.25 : f64, window = 8 : i64,
      softcap = 3.0 : f64}
     : (tensor<1x4x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, index, tensor<1xi64>)
     -> tensor<1x4x?x16xf32>
  return %o : tensor<1x4x?x16xf32>
}
