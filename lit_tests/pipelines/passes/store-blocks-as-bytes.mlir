// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(store-blocks-as-bytes)' | filecheck %s
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(lower-llmc,store-blocks-as-bytes)' | filecheck %s --check-prefix=LOWERED
// LOWERED-NOT: llmc.{{[bq]}}

// Blocks are bytes through globals, functions, calls and parameters.
// CHECK:       ml_program.global private @table(#extern) : tensor<3x4x2x20xi8>
// CHECK:       func.func private @elsewhere(tensor<?x34xi8>) -> tensor<?x34xi8>
ml_program.global private @table(#ml_program.extern : tensor<3x4x2x!llmc.q4_1>) : tensor<3x4x2x!llmc.q4_1>
func.func private @elsewhere(tensor<?x!llmc.q8_0>) -> tensor<?x!llmc.q8_0>

// CHECK-LABEL: func.func @carried(
// CHECK-SAME:      %arg0: tensor<4x2x20xi8>, %arg1: tensor<?x34xi8>, %arg2: index, %arg3: i1) -> (tensor<4x2x20xi8>, tensor<?x34xi8>, tensor<4x2x20xi8>)
// CHECK-NEXT:    %[[ALL:.+]] = ml_program.global_load @table : tensor<3x4x2x20xi8>
// CHECK-NEXT:    %[[ONE:.+]] = tensor.extract_slice %[[ALL]][%arg2, 0, 0, 0] [1, 4, 2, 20] [1, 1, 1, 1] : tensor<3x4x2x20xi8> to tensor<4x2x20xi8>
// CHECK-NEXT:    %[[CALLED:.+]] = call @elsewhere(%arg1) : (tensor<?x34xi8>) -> tensor<?x34xi8>
// CHECK-NEXT:    %[[W:.+]] = "llmc.parameter"() {sources = ["w"]} : () -> tensor<4x2x20xi8>
// CHECK-NEXT:    %[[CHOSEN:.+]] = scf.if %arg3 -> (tensor<4x2x20xi8>) {
// CHECK-NEXT:      scf.yield %[[ONE]]
func.func @carried(%w: tensor<4x2x!llmc.q4_1>, %x: tensor<?x!llmc.q8_0>, %layer: index, %c: i1)
    -> (tensor<4x2x!llmc.q4_1>, tensor<?x!llmc.q8_0>, tensor<4x2x!llmc.q4_1>) {
  %all = ml_program.global_load @table : tensor<3x4x2x!llmc.q4_1>
  %one = tensor.extract_slice %all[%layer, 0, 0] [1, 4, 2] [1, 1, 1] : tensor<3x4x2x!llmc.q4_1> to tensor<4x2x!llmc.q4_1>
  %called = func.call @elsewhere(%x) : (tensor<?x!llmc.q8_0>) -> tensor<?x!llmc.q8_0>
  %p = "llmc.parameter"() {sources = ["w"]} : () -> tensor<4x2x!llmc.q4_1>
  %chosen = scf.if %c -> tensor<4x2x!llmc.q4_1> {
    scf.yield %one : tensor<4x2x!llmc.q4_1>
  } else {
    scf.yield %w : tensor<4x2x!llmc.q4_1>
  }
  return %chosen, %called, %p : tensor<4x2x!llmc.q4_1>, tensor<?x!llmc.q8_0>, tensor<4x2x!llmc.q4_1>
}

// The bytes of a block stay together.
// CHECK-LABEL: func.func @reshaped
// CHECK-NEXT:    %[[FLAT:.+]] = tensor.collapse_shape %arg0 {{\[\[}}0, 1], [2]] : tensor<4x?x18xi8> into tensor<?x18xi8>
// CHECK-NEXT:    %[[C:.+]] = arith.constant 1
// CHECK-NEXT:    %[[N:.+]] = tensor.dim %arg0, %[[C]] : tensor<4x?x18xi8>
// CHECK-NEXT:    tensor.expand_shape %[[FLAT]] {{\[\[}}0, 1], [2]] output_shape [4, %[[N]], 18] : tensor<?x18xi8> into tensor<4x?x18xi8>
func.func @reshaped(%w: tensor<4x?x!llmc.q4_0>) -> tensor<4x?x!llmc.q4_0> {
  %flat = tensor.collapse_shape %w [[0, 1]] : tensor<4x?x!llmc.q4_0> into tensor<?x!llmc.q4_0>
  %c1 = arith.constant 1 : index
  %n = tensor.dim %w, %c1 : tensor<4x?x!llmc.q4_0>
  %again = tensor.expand_shape %flat [[0, 1]] output_shape [4, %n] : tensor<?x!llmc.q4_0> into tensor<4x?x!llmc.q4_0>
  return %again : tensor<4x?x!llmc.q4_0>
}

// Casts are nothing, but for what one type knows and the other does not.
// CHECK-LABEL: func.func @casts
// CHECK-NEXT:    %[[CAST:.+]] = tensor.cast %arg0 : tensor<?x18xi8> to tensor<4x18xi8>
// CHECK-NEXT:    return %[[CAST]], %arg1
func.func @casts(%w: tensor<?x!llmc.q4_0>, %b: tensor<4x18xi8>) -> (tensor<4x18xi8>, tensor<4x!llmc.q4_0>) {
  %bytes = "llmc.blocks_to_bytes"(%w) : (tensor<?x!llmc.q4_0>) -> tensor<4x18xi8>
  %blocks = "llmc.bytes_to_blocks"(%b) : (tensor<4x18xi8>) -> tensor<4x!llmc.q4_0>
  return %bytes, %blocks : tensor<4x18xi8>, tensor<4x!llmc.q4_0>
}

// An operation that needs blocks keeps them.
// CHECK-LABEL: func.func @computed
// CHECK-NEXT:    %[[BLOCKS:.+]] = "llmc.quantize"(%arg0) : (tensor<5x64xf32>) -> tensor<5x2x!llmc.q4_0>
// CHECK-NEXT:    %[[BYTES:.+]] = "llmc.blocks_to_bytes"(%[[BLOCKS]])
// CHECK-NEXT:    %[[AGAIN:.+]] = "llmc.bytes_to_blocks"(%[[BYTES]])
// CHECK-NEXT:    "llmc.dequantize"(%[[AGAIN]])
// LOWERED-LABEL: func.func @computed
// LOWERED-NOT:   llmc.
// LOWERED:       return
func.func @computed(%x: tensor<5x64xf32>) -> tensor<5x64xf32> {
  %w = "llmc.quantize"(%x) : (tensor<5x64xf32>) -> tensor<5x2x!llmc.q4_0>
  %y = "llmc.dequantize"(%w) : (tensor<5x2x!llmc.q4_0>) -> tensor<5x64xf32>
  return %y : tensor<5x64xf32>
}

// What is no block stays as it is.
// CHECK-LABEL: func.func @numbers(%arg0: tensor<4x8xi8>, %arg1: tensor<*xf32>)
// CHECK-NEXT:    tensor.extract_slice %arg0[0, 0] [2, 8] [1, 1]
// CHECK-NEXT:    tensor.cast %arg1 : tensor<*xf32> to tensor<?xf32>
func.func @numbers(%x: tensor<4x8xi8>, %u: tensor<*xf32>) -> (tensor<2x8xi8>, tensor<?xf32>) {
  %part = tensor.extract_slice %x[0, 0] [2, 8] [1, 1] : tensor<4x8xi8> to tensor<2x8xi8>
  %ranked = tensor.cast %u : tensor<*xf32> to tensor<?xf32>
  return %part, %ranked : tensor<2x8xi8>, tensor<?xf32>
}

// -----

// A cast that is none is an error before anything is rewritten.
func.func @invalid(%w: tensor<4x!llmc.q4_0>) {
  // expected-error@+1 {{'llmc.blocks_to_bytes' op result must have dimension 1 = 18, but has 20}}
  %bytes = "llmc.blocks_to_bytes"(%w) : (tensor<4x!llmc.q4_0>) -> tensor<4x20xi8>
  return
}

// -----

// What chooses block by block keeps blocks.
// CHECK-LABEL: func.func @chosen_apart
// CHECK:         arith.select %arg0, %{{.*}} : tensor<4xi1>, tensor<4x!llmc.q4_0>
func.func @chosen_apart(%c: tensor<4xi1>, %a: tensor<4x!llmc.q4_0>, %b: tensor<4x!llmc.q4_0>) -> tensor<4x!llmc.q4_0> {
  %r = arith.select %c, %a, %b : tensor<4xi1>, tensor<4x!llmc.q4_0>
  return %r : tensor<4x!llmc.q4_0>
}
