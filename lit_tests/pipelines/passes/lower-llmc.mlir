// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(lower-llmc)' | filecheck %s
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(lower-llmc{keep-kernels=true})' | filecheck %s --check-prefix=KEEP
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(lower-llmc{keep-kernels=2})' 2>&1 | filecheck %s --check-prefix=TWO
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(lower-llmc{ops=rms_norm,cache_allocate})' | filecheck %s --check-prefix=SOME
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(lower-llmc{ops=rms_norm,parameter})' 2>&1 | filecheck %s --check-prefix=UNKNOWN

// TWO: error: option 'keep-kernels' of pass 'lower-llmc' must be of type bool, not '2'
// UNKNOWN: error: pass 'lower-llmc': ops has 'parameter', but must be of {{.*}}attention, {{.*}}rms_norm

// Operations are lowered in order, wherever they stand. How is tested in lit_tests/dialects.
// CHECK-LABEL: func.func @chain
// CHECK-NOT:     llmc.
// CHECK:         linalg.generic
// CHECK:         scf.if
// CHECK-NOT:     llmc.
// CHECK:           math.rsqrt
// CHECK:         return
// SOME-LABEL:  func.func @chain
// SOME-NEXT:     "llmc.linear"
// SOME-NOT:      llmc.rms_norm
// SOME:          math.rsqrt
func.func @chain(%x: tensor<2x6xf32>, %w: tensor<6x6xf32>, %g: tensor<6xf32>, %c: i1) -> tensor<2x6xf32> {
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<2x6xf32>, tensor<6x6xf32>) -> tensor<2x6xf32>
  %z = scf.if %c -> tensor<2x6xf32> {
    %n = "llmc.rms_norm"(%y, %g) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 0.0, offset = 0.0}
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

// So is a norm of heads that such a kernel takes in.
// CHECK-LABEL: func.func @taken_in
// CHECK-NOT:     llmc.
// KEEP-LABEL:  func.func @taken_in
// KEEP:          "llmc.rms_norm"
// KEEP-NEXT:     "llmc.rotary"
// CHECK-LABEL: func.func @read_by_others
// KEEP-LABEL:  func.func @read_by_others
// KEEP-NOT:      llmc.rms_norm
// KEEP:          "llmc.rotary"
func.func @taken_in(%x: tensor<1x2x?x8xf32>, %g: tensor<8xf32>, %t: tensor<1x?x8xf32>) -> tensor<1x2x?x8xf32> {
  %n = "llmc.rms_norm"(%x, %g) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 0.0, offset = 0.0}
     : (tensor<1x2x?x8xf32>, tensor<8xf32>) -> tensor<1x2x?x8xf32>
  %y = "llmc.rotary"(%n, %t, %t) {interleaved = 0 : i64}
     : (tensor<1x2x?x8xf32>, tensor<1x?x8xf32>, tensor<1x?x8xf32>) -> tensor<1x2x?x8xf32>
  return %y : tensor<1x2x?x8xf32>
}
func.func @read_by_others(%x: tensor<1x2x?x8xf32>, %g: tensor<8xf32>, %t: tensor<1x?x8xf32>)
    -> (tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>) {
  %n = "llmc.rms_norm"(%x, %g) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 0.0, offset = 0.0}
     : (tensor<1x2x?x8xf32>, tensor<8xf32>) -> tensor<1x2x?x8xf32>
  %y = "llmc.rotary"(%n, %t, %t) {interleaved = 0 : i64}
     : (tensor<1x2x?x8xf32>, tensor<1x?x8xf32>, tensor<1x?x8xf32>) -> tensor<1x2x?x8xf32>
  return %n, %y : tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>
}

// Not so one of which nothing but lengths is read.
// KEEP-LABEL:  func.func @length
// KEEP-NOT:      llmc.
// KEEP:          return
func.func @length(%x: tensor<1x2x?x8xf32>, %g: tensor<8xf32>) -> index {
  %c2 = arith.constant 2 : index
  %n = "llmc.rms_norm"(%x, %g) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 0.0, offset = 0.0}
     : (tensor<1x2x?x8xf32>, tensor<8xf32>) -> tensor<1x2x?x8xf32>
  %t = tensor.dim %n, %c2 : tensor<1x2x?x8xf32>
  return %t : index
}

// Of what there is no kernel for in the shape at hand, linalg is made all the same.
// KEEP-LABEL:  func.func @without_kernel
// KEEP-NOT:      llmc.
// KEEP:          return
func.func @without_kernel(%x: tensor<?x2x1x8xf32>, %t: tensor<1x1x8xf32>) -> tensor<?x2x1x8xf32> {
  %y = "llmc.rotary"(%x, %t, %t) {interleaved = 0 : i64}
     : (tensor<?x2x1x8xf32>, tensor<1x1x8xf32>, tensor<1x1x8xf32>) -> tensor<?x2x1x8xf32>
  return %y : tensor<?x2x1x8xf32>
}

// Several results are replaced one by one.
// CHECK-LABEL: func.func @groups
// CHECK:         %[[FIRST:.+]] = linalg.generic {{.+}} outs(%{{.+}} : tensor<9xi32>)
// CHECK:         linalg.generic {{.+}} ins(%arg0, %arg0 :
// CHECK:         %[[ORDER:.+]] = linalg.generic {{.+}} outs(%{{.+}} : tensor<?xi32>)
// CHECK:         return %[[ORDER]], %[[FIRST]]
func.func @groups(%expert: tensor<?xi64>) -> (tensor<?xi32>, tensor<9xi32>) {
  %order, %first, %place = "llmc.group_rows"(%expert)
     : (tensor<?xi64>) -> (tensor<?xi32>, tensor<9xi32>, tensor<?xi32>)
  return %order, %first : tensor<?xi32>, tensor<9xi32>
}

// What has no meaning in linalg stays, as does what is not llmc's.
// CHECK-LABEL: func.func @kept
// CHECK-NEXT:    "llmc.parameter"() {sources = ["w"]}
// CHECK-NEXT:    "llmc.bytes_to_blocks"(%arg0)
// CHECK-NEXT:    "llmc.blocks_to_bytes"
// CHECK-NEXT:    arith.addf
func.func @kept(%b: tensor<3x18xi8>) -> (tensor<6xf32>, tensor<3x18xi8>) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<6xf32>
  %q = "llmc.bytes_to_blocks"(%b) : (tensor<3x18xi8>) -> tensor<3x!llmc.q4_0>
  %c = "llmc.blocks_to_bytes"(%q) : (tensor<3x!llmc.q4_0>) -> tensor<3x18xi8>
  %twice = arith.addf %w, %w : tensor<6xf32>
  return %twice, %c : tensor<6xf32>, tensor<3x18xi8>
}

// -----

// What is no valid operation is not lowered.
func.func @invalid(%x: tensor<3x6xf32>, %w: tensor<5x7xf32>) {
  // expected-error@+1 {{'llmc.linear' op operand 'x' must have its last dimension = 7, but has 6}}
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<3x6xf32>, tensor<5x7xf32>) -> tensor<3x5xf32>
  return
}
