// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @attend
// CHECK:         "llmc.cached_attention"(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6) {scale
//
// The columns held and the new ones, of one layer, then attention over them.
// LOWER-LABEL: func.func @attend
// LOWER:         %[[COLUMNS:.+]] = arith.addi %arg6
// LOWER:         %[[K:.+]] = tensor.extract_slice %arg1[%arg4, %arg5, 0, 0, 0] [1, 1, 2, %[[COLUMNS]], 16]
// LOWER:         %[[V:.+]] = tensor.extract_slice %arg2[%arg4, %arg5, 0, 0, 0] [1, 1, 2, %[[COLUMNS]], 16]
// LOWER:         linalg.generic {{.+}} ins(%{{.+}}, %[[K]] :
// LOWER:         linalg.softmax
// LOWER:         linalg.generic {{.+}} ins(%{{.+}}, %[[V]] :
func.func @attend(%q: tensor<1x4x?x16xf32>, %keys: tensor<3x?x2x?x16xf32>,
                  %values: tensor<3x?x2x?x16xf32>, %start: tensor<1xi64>, %layer: index,
                  %sequence: index, %past: index) -> tensor<1x4x?x16xf32> {
  %o = "llmc.cached_attention"(%q, %keys, %values, %start, %layer, %sequence, %past)
     {scale = 0.25 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<1x4x?x16xf32>, tensor<3x?x2x?x16xf32>, tensor<3x?x2x?x16xf32>, tensor<1xi64>,
        index, index, index) -> tensor<1x4x?x16xf32>
  return %o : tensor<1x4x?x16xf32>
}

// -----

func.func @channels(%q: tensor<1x4x?x8xf32>, %cache: tensor<3x?x2x?x16xf32>,
                    %start: tensor<1xi64>, %i: index) {
  // CHECK: error: 'llmc.cached_attention' op operand 'keys' must have its channels = 8, but has 16
  %o = "llmc.cached_attention"(%q, %cache, %cache, %start, %i, %i, %i)
     {scale = 0.25 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<1x4x?x8xf32>, tensor<3x?x2x?x16xf32>, tensor<3x?x2x?x16xf32>, tensor<1xi64>,
        index, index, index) -> tensor<1x4x?x16xf32>
  return
}

// -----

func.func @heads(%q: tensor<1x3x?x16xf32>, %cache: tensor<3x?x2x?x16xf32>,
                 %start: tensor<1xi64>, %i: index) {
  // CHECK: error: 'llmc.cached_attention' op operand 'query' must have a multiple of 2 heads, but has 3
  %o = "llmc.cached_attention"(%q, %cache, %cache, %start, %i, %i, %i)
     {scale = 0.25 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<1x3x?x16xf32>, tensor<3x?x2x?x16xf32>, tensor<3x?x2x?x16xf32>, tensor<1xi64>,
        index, index, index) -> tensor<1x3x?x16xf32>
  return
}

// -----

func.func @start(%q: tensor<1x4x?x16xf32>, %cache: tensor<3x?x2x?x16xf32>,
                 %start: tensor<2xi64>, %i: index) {
  // CHECK: error: 'llmc.cached_attention' op operand 'start' must have its length = 1, but has 2
  %o = "llmc.cached_attention"(%q, %cache, %cache, %start, %i, %i, %i)
     {scale = 0.25 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<1x4x?x16xf32>, tensor<3x?x2x?x16xf32>, tensor<3x?x2x?x16xf32>, tensor<2xi64>,
        index, index, index) -> tensor<1x4x?x16xf32>
  return
}
