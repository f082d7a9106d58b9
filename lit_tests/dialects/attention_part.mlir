// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @part
// CHECK:         "llmc.attention_part"(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6) {first = 1 : i64, scale = 5.000000e-01 : f64, softcap = 0.000000e+00 : f64, step = 2 : i64, window = 3 : i64}
//
// Attention to every other column, and behind each row the logarithm of what it divides by.
// LOWER-LABEL: func.func @part
// LOWER:         %[[HELD:.+]] = arith.divui %{{.+}}, %c2
// LOWER:         %[[COUNT:.+]] = arith.maxui %[[HELD]], %c1
// LOWER:         tensor.extract_slice %arg1[%arg4, %arg5, 0, 0, 0] [1, 1, 2, %[[COUNT]], 8]
// LOWER:         arith.muli %{{.+}}, %c2
// LOWER:         linalg.softmax
// LOWER:         arith.maximumf
// LOWER:         math.log
// LOWER:         tensor.concat dim(3)
// LOWER-NOT:     llmc.
// LOWER:         return
func.func @part(%q: tensor<1x6x?x8xf32>, %keys: tensor<5x?x2x?x8xf32>, %values: tensor<5x?x2x?x4xf32>, %start: tensor<1xi64>, %layer: index, %sequence: index, %past: index) -> tensor<1x6x?x5xf32> {
  %o = "llmc.attention_part"(%q, %keys, %values, %start, %layer, %sequence, %past)
       {first = 1 : i64, step = 2 : i64, scale = 0.5, window = 3 : i64, softcap = 0.0}
     : (tensor<1x6x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x4xf32>, tensor<1xi64>, index, index, index) -> tensor<1x6x?x5xf32>
  return %o : tensor<1x6x?x5xf32>
}

// -----

// Of f16 the least number is that of a column which a row does not see, too.
// LOWER-LABEL: func.func @halves
// LOWER:         %[[HIDDEN:.+]] = arith.constant -6.550400e+04 : f16
// LOWER:         arith.select %{{.+}}, %{{.+}}, %[[HIDDEN]] : f16
// LOWER:         linalg.softmax
// LOWER:         arith.cmpf ogt, %{{.+}}, %[[HIDDEN]] : f16
func.func @halves(%q: tensor<1x6x?x8xf16>, %cache: tensor<5x?x2x?x8xf16>, %start: tensor<1xi64>, %i: index) -> tensor<1x6x?x9xf16> {
  %o = "llmc.attention_part"(%q, %cache, %cache, %start, %i, %i, %i)
       {first = 1 : i64, step = 2 : i64, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x6x?x8xf16>, tensor<5x?x2x?x8xf16>, tensor<5x?x2x?x8xf16>, tensor<1xi64>, index, index, index) -> tensor<1x6x?x9xf16>
  return %o : tensor<1x6x?x9xf16>
}

// -----

func.func @step(%q: tensor<1x6x?x8xf32>, %cache: tensor<5x?x2x?x8xf32>, %start: tensor<1xi64>, %i: index) {
  // CHECK: error: 'llmc.attention_part' op attribute 'step' must be from 1 to
  %o = "llmc.attention_part"(%q, %cache, %cache, %start, %i, %i, %i) {first = 0 : i64, step = 0 : i64, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x6x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<1xi64>, index, index, index) -> tensor<1x6x?x9xf32>
  return
}

// -----

func.func @no_room(%q: tensor<1x6x?x8xf32>, %cache: tensor<5x?x2x?x8xf32>, %start: tensor<1xi64>, %i: index) {
  // CHECK: error: 'llmc.attention_part' op result must have its channels but one = 8, but has 7
  %o = "llmc.attention_part"(%q, %cache, %cache, %start, %i, %i, %i) {first = 0 : i64, step = 2 : i64, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x6x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<1xi64>, index, index, index) -> tensor<1x6x?x8xf32>
  return
}
