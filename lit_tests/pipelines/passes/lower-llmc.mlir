// RUN: llmc-opt %s --pass-pipeline='builtin.module(lower-llmc)' | filecheck %s
// RUN: llmc-opt %s --pass-pipeline='builtin.module(lower-llmc{keep-kernels=true})' | filecheck %s --check-prefix=KEEP
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(lower-llmc{keep-kernels=2})' 2>&1 | filecheck %s --check-prefix=TWO

// TWO: error: option 'keep-kernels' of pass 'lower-llmc' must be of type bool, not '2'

// Operations are lowered in order, wherever they stand. How is tested in lit_tests/dialects.
// CHECK-LABEL: func.func @chain
// CHECK-NOT:     llmc.
// CHECK:         linalg.generic
// CHECK:         scf.if
// CHECK-NOT:     llmc.
// CHECK:           math.rsqrt
// CHECK:         return
func.func @chain(%x: tensor<2x6xf32>, %w: tensor<6x6xf32>, %g: tensor<6xf32>, %c: i1) -> tensor<2x6xf32> {
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<2x6xf32>, tensor<6x6xf32>) -> tensor<2x6xf32>
  %z = scf.if %c -> tensor<2x6xf32> {
    %n = "llmc.rms_norm"(%y, %g) {epsilon = 0.0, offset = 0.0}
       : (tensor<2x6xf32>, tensor<6xf32>) -> tensor<2x6xf32>
    scf.yield %n : tensor<2x6xf32>
  } else {
    scf.yield %y : tensor<2x6xf32>
  }
  return %z : tensor<2x6xf32>
}

// A result that is known better than the operands say is cast.
// CHECK-LABEL: func.func @refined
// CHECK:         %[[CAST:.+]] = tensor.cast %{{.+}} : tensor<?x5xf32> to tensor<2x5xf32>
// CHECK-NEXT:    return %[[CAST]]
func.func @refined(%x: tensor<?x6xf32>, %w: tensor<5x6xf32>) -> tensor<2x5xf32> {
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<?x6xf32>, tensor<5x6xf32>) -> tensor<2x5xf32>
  return %y : tensor<2x5xf32>
}

// What a kernel of ours computes is left to it, where that is asked for.
// CHECK-LABEL: func.func @kernel
// CHECK-NOT:     llmc.
// CHECK:         return
// KEEP-LABEL:  func.func @kernel
// KEEP-NEXT:     "llmc.cached_attention"
func.func @kernel(%q: tensor<1x2x?x8xf32>, %cache: tensor<5x?x2x?x8xf32>, %start: tensor<1xi64>, %i: index) -> tensor<1x2x?x8xf32> {
  %o = "llmc.cached_attention"(%q, %cache, %cache, %start, %i, %i, %i) {scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x2x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<5x?x2x?x8xf32>, tensor<1xi64>, index, index, index) -> tensor<1x2x?x8xf32>
  return %o : tensor<1x2x?x8xf32>
}

// What has no meaning in linalg stays, as does what is not llmc's.
// CHECK-LABEL: func.func @kept
// CHECK-NEXT:    "llmc.parameter"() {sources = ["w"]}
// CHECK-NEXT:    "llmc.cache_allocate"(%arg0, %arg0)
// CHECK-NEXT:    arith.addf
func.func @kept(%n: index) -> (tensor<6xf32>, tensor<2x?x3x?x4xf32>) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<6xf32>
  %c = "llmc.cache_allocate"(%n, %n) : (index, index) -> tensor<2x?x3x?x4xf32>
  %twice = arith.addf %w, %w : tensor<6xf32>
  return %twice, %c : tensor<6xf32>, tensor<2x?x3x?x4xf32>
}
