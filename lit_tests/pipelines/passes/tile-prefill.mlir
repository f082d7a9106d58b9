// RUN: llmc-opt %s --split-input-file --verify-diagnostics --tile-prefill=tokens=4 | filecheck %s

// The layer and what surrounds it are made for four tokens.
// CHECK-LABEL: func.func private @prefill.tile.layer0(%arg0: tensor<1x4x6xf32>) -> tensor<1x4x6xf32>
// CHECK-NOT:   @prefill.layer0
// A tile takes its tokens from the prompt, and zeros where that ends.
// CHECK-LABEL: func.func private @prefill.tile(
// CHECK-SAME:      %[[PROMPT:.+]]: tensor<1x?xi64>, %arg1: tensor<1xi64>, %arg2: i64, %[[PAST:.+]]: i64, %[[AT:.+]]: index) -> tensor<1x6xf32>
// CHECK:         %[[LEFT:.+]] = arith.subi %{{.+}}, %[[AT]]
// CHECK:         %[[COUNT:.+]] = arith.minui %[[LEFT]], %c4
// CHECK:         %[[PIECE:.+]] = tensor.extract_slice %[[PROMPT]][0, %[[AT]]] [1, %[[COUNT]]]
// CHECK:         %[[TOKENS:.+]] = tensor.insert_slice %[[PIECE]] into %{{.+}}[0, 0] [1, %[[COUNT]]]
// CHECK:         "llmc.embedding"(%[[TOKENS]], %{{.+}}) : {{.+}} -> tensor<1x4x6xf32>
// CHECK:         %[[X:.+]] = call @prefill.tile.layer0
// Of all rows the last that is asked for is left.
// CHECK:         %[[ROW:.+]] = arith.subi %[[COUNT]], %c1
// CHECK:         tensor.extract_slice %[[X]][0, %[[ROW]], 0] [1, 1, 6]
// CHECK-LABEL: func.func @prefill(
// CHECK:         %[[LAST:.+]] = arith.muli %{{.+}}, %c4
// CHECK:         scf.for %[[I:.+]] = %c0 to %[[LAST]] step %c4
// CHECK:           func.call @prefill.tile(%arg0, %arg1, %arg2, %arg3, %[[I]])
// CHECK:         %[[OUT:.+]] = call @prefill.tile(%arg0, %arg1, %arg2, %arg3, %[[LAST]])
// CHECK:         return %[[OUT]]
// CHECK-LABEL: func.func @reset
// CHECK:         %[[ROOM:.+]] = arith.addi %arg1, %c3
// CHECK:         "llmc.cache_allocate"(%arg0, %[[ROOM]])
// A cell has 512 columns.
// CHECK:         %[[CELLS:.+]] = arith.addi %arg2, %c1
// CHECK:         "llmc.cache_allocate"(%arg0, %[[CELLS]])
func.func private @prefill.layer0(%x: tensor<1x?x6xf32>) -> tensor<1x?x6xf32> {
  %w = "llmc.parameter"() {sources = ["norm"]} : () -> tensor<6xf32>
  %y = "llmc.rms_norm"(%x, %w) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5, offset = 0.0} : (tensor<1x?x6xf32>, tensor<6xf32>) -> tensor<1x?x6xf32>
  return %y : tensor<1x?x6xf32>
}
func.func @prefill(%tokens: tensor<1x?xi64>, %start: tensor<1xi64>, %sequence: i64, %past: i64) -> tensor<1x6xf32> {
  %c1 = arith.constant 1 : index
  %w = "llmc.parameter"() {sources = ["embedding"]} : () -> tensor<5x6xf32>
  %x = "llmc.embedding"(%tokens, %w) : (tensor<1x?xi64>, tensor<5x6xf32>) -> tensor<1x?x6xf32>
  %y = call @prefill.layer0(%x) : (tensor<1x?x6xf32>) -> tensor<1x?x6xf32>
  %count = tensor.dim %y, %c1 : tensor<1x?x6xf32>
  %row = arith.subi %count, %c1 : index
  %last = tensor.extract_slice %y[0, %row, 0] [1, 1, 6] [1, 1, 1] : tensor<1x?x6xf32> to tensor<1x6xf32>
  return %last : tensor<1x6xf32>
}
func.func @reset(%sequences: index, %capacity: index, %cells: index) {
  %cache = "llmc.cache_allocate"(%sequences, %capacity) : (index, index) -> tensor<2x?x1x?x6xf32>
  %of_cells = "llmc.cache_allocate"(%sequences, %cells) : (index, index) -> tensor<2x?x1x?x2x!llmc.q8_0_keys>
  return
}

// -----

// What has no prefill stays.
// CHECK-LABEL: func.func @decode(%arg0: tensor<1x1xi64>)
func.func @decode(%tokens: tensor<1x1xi64>) {
  return
}

// -----

// expected-error@+1 {{must take tokens, start, sequence and past, as thread-kv-cache leaves it}}
func.func @prefill(%tokens: tensor<1x?xi64>, %positions: tensor<1x?xi64>) {
  return
}

// -----

// expected-error@+1 {{does not select the logits of the last token}}
func.func @prefill(%tokens: tensor<1x?xi64>, %start: tensor<1xi64>, %sequence: i64, %past: i64) -> tensor<1x?xi64> {
  return %tokens : tensor<1x?xi64>
}

// -----

// expected-error@+1 {{must take tokens, start, sequence and past, as thread-kv-cache leaves it}}
func.func @prefill(%tokens: index, %start: tensor<1xi64>, %sequence: i64, %past: i64) {
  return
}
