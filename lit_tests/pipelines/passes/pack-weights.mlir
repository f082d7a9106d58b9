// RUN: llmc-opt %s --pass-pipeline='builtin.module(pack-weights{columns=8 rows=4})' | filecheck %s
// RUN: llmc-opt %s --pass-pipeline='builtin.module(pack-weights)' | filecheck %s --check-prefix=DEFAULT
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(pack-weights{columns=0})' 2>&1 | filecheck %s --check-prefix=ZERO
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(pack-weights{columns=wide})' 2>&1 | filecheck %s --check-prefix=WORD

// ZERO: error: pass 'pack-weights': columns 0 and rows 16 must be at least 1
// WORD: error: option 'columns' of pass 'pack-weights' must be of type int, not 'wide'

// Ten outputs take two panels of eight.
// CHECK-LABEL: func.func @linear
// CHECK:         %[[W:.+]] = "llmc.parameter"() {llmc.layout = {columns = 8 : i64, transposed = 0 : i64}, sources = ["w"]} : () -> tensor<2x6x8xf32>
// CHECK-NEXT:    %[[Y:.+]] = "llmc.packed_linear"(%arg0, %[[W]], %arg1)
// CHECK-SAME:      tile = 4 : i64
// CHECK-SAME:      -> tensor<1x?x10xf32>
// CHECK-NEXT:    return %[[Y]]
// DEFAULT-LABEL: func.func @linear
// DEFAULT:         columns = 16 : i64
// DEFAULT-SAME:    tensor<1x6x16xf32>
// DEFAULT-NEXT:    tile = 16 : i64
func.func @linear(%x: tensor<1x?x6xf32>, %b: tensor<10xf32>) -> tensor<1x?x10xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<10x6xf32>
  %y = "llmc.linear"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, transposed = 0 : i64}
     : (tensor<1x?x6xf32>, tensor<10x6xf32>, tensor<10xf32>) -> tensor<1x?x10xf32>
  return %y : tensor<1x?x10xf32>
}

// CHECK-LABEL: func.func @transposed
// CHECK:         columns = 8 : i64, transposed = 1 : i64
// CHECK-SAME:    tensor<2x6x8xf32>
// CHECK-NEXT:    "llmc.packed_linear"
func.func @transposed(%x: tensor<1x?x6xf32>) -> tensor<1x?x10xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<6x10xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 1 : i64}
     : (tensor<1x?x6xf32>, tensor<6x10xf32>) -> tensor<1x?x10xf32>
  return %y : tensor<1x?x10xf32>
}

// A lookup in a tied embedding finds its element in the panels.
// CHECK-LABEL: func.func @tied
// CHECK:         %[[W:.+]] = "llmc.parameter"()
// CHECK-NEXT:    "llmc.packed_linear"(%arg0, %[[W]])
// CHECK-NEXT:    %[[EIGHT:.+]] = arith.constant 8 : index
// CHECK-NEXT:    %[[PANEL:.+]] = arith.divui %arg1, %[[EIGHT]]
// CHECK-NEXT:    %[[COLUMN:.+]] = arith.remui %arg1, %[[EIGHT]]
// CHECK-NEXT:    tensor.extract %[[W]][%[[PANEL]], %arg2, %[[COLUMN]]] : tensor<2x6x8xf32>
func.func @tied(%x: tensor<1x?x6xf32>, %token: index, %k: index) -> (tensor<1x?x10xf32>, f32) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<10x6xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x?x6xf32>, tensor<10x6xf32>) -> tensor<1x?x10xf32>
  %e = tensor.extract %w[%token, %k] : tensor<10x6xf32>
  return %y, %e : tensor<1x?x10xf32>, f32
}

// A weight that something else needs as rows is left alone, and so is one that is only looked up.
// CHECK-LABEL: func.func @rows_needed
// CHECK-NOT:     llmc.packed_linear
// CHECK-NOT:     llmc.layout
// CHECK:         "llmc.linear"
func.func @rows_needed(%x: tensor<1x?x6xf32>) -> (tensor<1x?x10xf32>, tensor<10x6xf32>) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<10x6xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x?x6xf32>, tensor<10x6xf32>) -> tensor<1x?x10xf32>
  %twice = arith.addf %w, %w : tensor<10x6xf32>
  return %y, %twice : tensor<1x?x10xf32>, tensor<10x6xf32>
}

// CHECK-LABEL: func.func @only_looked_up
// CHECK-NOT:     llmc.layout
// CHECK:         tensor.extract %{{.+}}[%arg0, %arg1] : tensor<10x6xf32>
func.func @only_looked_up(%token: index, %k: index) -> f32 {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<10x6xf32>
  %e = tensor.extract %w[%token, %k] : tensor<10x6xf32>
  return %e : f32
}

// Nor is one that is read both ways, or one that is the bias or the activations of a linear layer.
// CHECK-LABEL: func.func @both_ways
// CHECK-NOT:     llmc.packed_linear
// CHECK:         return
func.func @both_ways(%x: tensor<1x6xf32>) -> (tensor<1x6xf32>, tensor<1x6xf32>) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<6x6xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x6xf32>, tensor<6x6xf32>) -> tensor<1x6xf32>
  %z = "llmc.linear"(%y, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 1 : i64}
     : (tensor<1x6xf32>, tensor<6x6xf32>) -> tensor<1x6xf32>
  return %y, %z : tensor<1x6xf32>, tensor<1x6xf32>
}

// CHECK-LABEL: func.func @activations
// CHECK-NOT:     llmc.packed_linear
// CHECK:         return
func.func @activations(%w: tensor<6x6xf32>) -> tensor<6x6xf32> {
  %x = "llmc.parameter"() {sources = ["x"]} : () -> tensor<6x6xf32>
  %b = "llmc.parameter"() {sources = ["b"]} : () -> tensor<6xf32>
  %y = "llmc.linear"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, transposed = 0 : i64}
     : (tensor<6x6xf32>, tensor<6x6xf32>, tensor<6xf32>) -> tensor<6x6xf32>
  return %y : tensor<6x6xf32>
}
