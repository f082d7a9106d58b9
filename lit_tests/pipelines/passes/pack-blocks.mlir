// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(pack-blocks)' | filecheck %s
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(pack-blocks{columns=4},bind-parameters)' | filecheck %s --check-prefix=BOUND
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(pack-blocks{columns=0})' 2>&1 | filecheck %s --check-prefix=COLUMNS

// COLUMNS: error: option 'columns' of pass 'pack-blocks' must be from 1 to 4096, not 0

// Both read the panels, which the archive computes: 11 rows make one panel of 16, or three of 4.
// BOUND:       ml_program.global private @head(#{{.+}}) : tensor<3x2x72xi8> {llmc.recipe = {columns = 4 : i64, op = "llmc.pack_blocks", operands = [{format = "q4_0", op = "llmc.quantize", operands = {{\[\[}}"head"]]}]}}
// CHECK-LABEL: func.func @tied
// CHECK:         %[[Q:.+]] = "llmc.quantize"
// CHECK:         %[[P:.+]] = "llmc.pack_blocks"(%[[Q]]) {columns = 16 : i64} : (tensor<11x2x!llmc.q4_0>) -> tensor<1x2x288xi8>
// CHECK:         "llmc.packed_embedding"(%arg1, %[[P]]) {format = "q4_0"}
// CHECK:         "llmc.packed_quantized_linear"(%arg0, %[[P]], %arg2) {format = "q4_0", operandSegmentSizes = array<i32: 1, 1, 1>}
func.func @tied(%x: tensor<3x64xf32>, %i: tensor<3xi64>, %b: tensor<11xf32>)
    -> (tensor<3x11xf32>, tensor<3x64xf32>) {
  %w = "llmc.parameter"() {sources = ["head"]} : () -> tensor<11x64xf32>
  %q = "llmc.quantize"(%w) : (tensor<11x64xf32>) -> tensor<11x2x!llmc.q4_0>
  %e = "llmc.embedding"(%i, %q) : (tensor<3xi64>, tensor<11x2x!llmc.q4_0>) -> tensor<3x64xf32>
  %y = "llmc.quantized_linear"(%x, %q, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 1>}
     : (tensor<3x64xf32>, tensor<11x2x!llmc.q4_0>, tensor<11xf32>) -> tensor<3x11xf32>
  return %y, %e : tensor<3x11xf32>, tensor<3x64xf32>
}

// The matrices of experts have panels of their own, the last padded.
// CHECK-LABEL: func.func @experts
// CHECK:         %[[P:.+]] = "llmc.pack_blocks"(%{{.+}}) {columns = 16 : i64} : (tensor<4x20x2x!llmc.q4_0>) -> tensor<4x2x2x288xi8>
// CHECK:         "llmc.packed_quantized_expert_linear"(%arg0, %arg1, %[[P]]) {format = "q4_0", top_k = 2 : i64}
func.func @experts(%x: tensor<3x64xf32>, %e: tensor<6xi64>) -> tensor<6x20xf32> {
  %w = "llmc.parameter"() {sources = ["experts"]} : () -> tensor<4x20x64xf32>
  %q = "llmc.quantize"(%w) : (tensor<4x20x64xf32>) -> tensor<4x20x2x!llmc.q4_0>
  %y = "llmc.expert_linear"(%x, %e, %q) {top_k = 2 : i64, transposed = 0 : i64}
     : (tensor<3x64xf32>, tensor<6xi64>, tensor<4x20x2x!llmc.q4_0>) -> tensor<6x20xf32>
  return %y : tensor<6x20xf32>
}

// What else reads the blocks needs them as they are; so do layers on integers; what is no weight
// would be packed at every run.
// CHECK-LABEL: func.func @others
// CHECK-NOT:     llmc.pack
// CHECK:         return
func.func @others(%x: tensor<3x64xf32>, %i: tensor<3x64xi8>, %s: tensor<3x2xf32>, %given: tensor<8x2x!llmc.q8_0>)
    -> (tensor<3x8xf32>, tensor<8x64xf32>, tensor<3x8xf32>, tensor<3x8xf32>) {
  %w = "llmc.parameter"() {sources = ["read"]} : () -> tensor<8x64xf32>
  %q = "llmc.quantize"(%w) : (tensor<8x64xf32>) -> tensor<8x2x!llmc.q8_0>
  %0 = "llmc.quantized_linear"(%x, %q) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
     : (tensor<3x64xf32>, tensor<8x2x!llmc.q8_0>) -> tensor<3x8xf32>
  %1 = "llmc.dequantize"(%q) : (tensor<8x2x!llmc.q8_0>) -> tensor<8x64xf32>
  %v = "llmc.parameter"() {sources = ["integers"]} : () -> tensor<8x64xf32>
  %r = "llmc.quantize"(%v) : (tensor<8x64xf32>) -> tensor<8x2x!llmc.q8_0>
  %2 = "llmc.quantized_linear"(%i, %r, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0>}
     : (tensor<3x64xi8>, tensor<8x2x!llmc.q8_0>, tensor<3x2xf32>) -> tensor<3x8xf32>
  %3 = "llmc.quantized_linear"(%x, %given) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
     : (tensor<3x64xf32>, tensor<8x2x!llmc.q8_0>) -> tensor<3x8xf32>
  return %0, %1, %2, %3 : tensor<3x8xf32>, tensor<8x64xf32>, tensor<3x8xf32>, tensor<3x8xf32>
}

// -----

// An invalid layer is an error.
func.func @invalid(%x: tensor<3x32xf32>) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<8x64xf32>
  %q = "llmc.quantize"(%w) : (tensor<8x64xf32>) -> tensor<8x2x!llmc.q8_0>
  // expected-error@+1 {{'llmc.quantized_linear' op operand 'x' must have its last dimension = 64, but has 32}}
  %y = "llmc.quantized_linear"(%x, %q) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
     : (tensor<3x32xf32>, tensor<8x2x!llmc.q8_0>) -> tensor<3x8xf32>
  return
}
