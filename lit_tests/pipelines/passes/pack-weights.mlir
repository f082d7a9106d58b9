// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(pack-weights{columns=8 rows=4})' | filecheck %s
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(pack-weights)' | filecheck %s --check-prefix=DEFAULT
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(pack-weights{columns=0})' 2>&1 | filecheck %s --check-prefix=ZERO
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(pack-weights{columns=wide})' 2>&1 | filecheck %s --check-prefix=WORD

// ZERO: error: option 'columns' of pass 'pack-weights' must be from 1 to 4096, not 0
// WORD: error: option 'columns' of pass 'pack-weights' must be of type int, not 'wide'

// Ten outputs take two panels of eight.
// CHECK-LABEL: func.func @linear
// CHECK:         %[[W:.+]] = "llmc.parameter"()
// CHECK:         %[[PAD:.+]] = arith.constant 0.000000e+00 : f32
// CHECK:         %[[P:.+]] = linalg.pack %[[W]] padding_value(%[[PAD]] : f32) outer_dims_perm = [0, 1] inner_dims_pos = [0] inner_tiles = [8] into %{{.+}} : tensor<10x6xf32> -> tensor<2x6x8xf32>
// CHECK-NEXT:    %[[Y:.+]] = "llmc.packed_linear"(%arg0, %[[P]], %arg1)
// CHECK-SAME:      tile = 4 : i64
// CHECK-SAME:      -> tensor<1x?x10xf32>
// CHECK-NEXT:    return %[[Y]]
// DEFAULT-LABEL: func.func @linear
// DEFAULT:         linalg.pack {{.+}} inner_tiles = [16] into
// DEFAULT-NEXT:    tile = 16 : i64
func.func @linear(%x: tensor<1x?x6xf32>, %b: tensor<10xf32>) -> tensor<1x?x10xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<10x6xf32>
  %y = "llmc.linear"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, transposed = 0 : i64}
     : (tensor<1x?x6xf32>, tensor<10x6xf32>, tensor<10xf32>) -> tensor<1x?x10xf32>
  return %y : tensor<1x?x10xf32>
}

// CHECK-LABEL: func.func @transposed
// CHECK:         linalg.pack {{.+}} outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [8] into %{{.+}} : tensor<6x10xf32> -> tensor<2x6x8xf32>
// CHECK-NEXT:    "llmc.packed_linear"
func.func @transposed(%x: tensor<1x?x6xf32>) -> tensor<1x?x10xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<6x10xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 1 : i64}
     : (tensor<1x?x6xf32>, tensor<6x10xf32>) -> tensor<1x?x10xf32>
  return %y : tensor<1x?x10xf32>
}

// So are experts; sixteen outputs need no padding.
// CHECK-LABEL: func.func @experts
// CHECK:         %[[P:.+]] = linalg.pack %{{[^ ]+}} outer_dims_perm = [0, 2, 1] inner_dims_pos = [2] inner_tiles = [8] into %{{.+}} : tensor<3x6x16xf32> -> tensor<3x2x6x8xf32>
// CHECK-NEXT:    "llmc.packed_expert_linear"(%arg0, %arg1, %[[P]])
func.func @experts(%x: tensor<?x6xf32>, %expert: tensor<?xi64>) -> tensor<?x16xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<3x6x16xf32>
  %y = "llmc.expert_linear"(%x, %expert, %w) {top_k = 2 : i64, transposed = 1 : i64}
     : (tensor<?x6xf32>, tensor<?xi64>, tensor<3x6x16xf32>) -> tensor<?x16xf32>
  return %y : tensor<?x16xf32>
}

// A weight may be computed from others.
// CHECK-LABEL: func.func @fused
// CHECK:         %[[C:.+]] = tensor.concat dim(0)
// CHECK:         %[[P:.+]] = linalg.pack %[[C]]
// CHECK-NEXT:    "llmc.packed_linear"(%arg0, %[[P]])
func.func @fused(%x: tensor<1x?x6xf32>) -> tensor<1x?x10xf32> {
  %a = "llmc.parameter"() {sources = ["a"]} : () -> tensor<4x6xf32>
  %b = "llmc.parameter"() {sources = ["b"]} : () -> tensor<6x6xf32>
  %w = tensor.concat dim(0) %a, %b : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<10x6xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x?x6xf32>, tensor<10x6xf32>) -> tensor<1x?x10xf32>
  return %y : tensor<1x?x10xf32>
}

// A lookup in a tied embedding finds its element in the panels.
// CHECK-LABEL: func.func @tied
// CHECK:         %[[P:.+]] = linalg.pack
// CHECK-NEXT:    "llmc.packed_linear"(%arg0, %[[P]])
// CHECK-NEXT:    %[[EIGHT:.+]] = arith.constant 8 : index
// CHECK-NEXT:    %[[PANEL:.+]] = arith.divui %arg1, %[[EIGHT]]
// CHECK-NEXT:    %[[COLUMN:.+]] = arith.remui %arg1, %[[EIGHT]]
// CHECK-NEXT:    tensor.extract %[[P]][%[[PANEL]], %arg2, %[[COLUMN]]] : tensor<2x6x8xf32>
func.func @tied(%x: tensor<1x?x6xf32>, %token: index, %k: index) -> (tensor<1x?x10xf32>, f32) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<10x6xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x?x6xf32>, tensor<10x6xf32>) -> tensor<1x?x10xf32>
  %e = tensor.extract %w[%token, %k] : tensor<10x6xf32>
  return %y, %e : tensor<1x?x10xf32>, f32
}

// So does an embedding, element by element.
// CHECK-LABEL: func.func @embedded
// CHECK:         %[[P:.+]] = linalg.pack
// CHECK-NOT:     llmc.embedding
// CHECK:         linalg.generic {{.+}} ins(%arg1 : tensor<?xi64>)
// CHECK:           tensor.extract %[[P]][%{{.+}}, %{{.+}}, %{{.+}}] : tensor<2x6x8xf32>
func.func @embedded(%x: tensor<1x?x6xf32>, %ids: tensor<?xi64>) -> (tensor<1x?x10xf32>, tensor<?x6xf32>) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<10x6xf32>
  %e = "llmc.embedding"(%ids, %w) : (tensor<?xi64>, tensor<10x6xf32>) -> tensor<?x6xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x?x6xf32>, tensor<10x6xf32>) -> tensor<1x?x10xf32>
  return %y, %e : tensor<1x?x10xf32>, tensor<?x6xf32>
}

// A weight that something else needs as rows is left alone, and so is one that is only looked up.
// CHECK-LABEL: func.func @rows_needed
// CHECK-NOT:     llmc.packed_linear
// CHECK-NOT:     linalg.pack
// CHECK:         "llmc.linear"
func.func @rows_needed(%x: tensor<1x?x6xf32>) -> (tensor<1x?x10xf32>, tensor<10x6xf32>) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<10x6xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x?x6xf32>, tensor<10x6xf32>) -> tensor<1x?x10xf32>
  %twice = arith.addf %w, %w : tensor<10x6xf32>
  return %y, %twice : tensor<1x?x10xf32>, tensor<10x6xf32>
}

// CHECK-LABEL: func.func @only_looked_up
// CHECK-NOT:     linalg.pack
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

// -----

func.func @invalid(%x: tensor<1x?x5xf32>) -> tensor<1x?x10xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<10x6xf32>
  // expected-error@+1 {{operand 'x' must have its last dimension = 6, but has 5}}
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x?x5xf32>, tensor<10x6xf32>) -> tensor<1x?x10xf32>
  return %y : tensor<1x?x10xf32>
}

// -----

// Outputs as few as experts are in panels of fewer columns, so that there are several whole ones. A
// single output is a sum over a row.
// CHECK-LABEL: func.func @few
// CHECK:         linalg.pack {{.*}} inner_tiles = [4] {{.*}} : tensor<12x6xf32> -> tensor<3x6x4xf32>
// CHECK:         "llmc.packed_linear"
// CHECK:         "llmc.linear"{{.*}} tensor<1x6xf32>
func.func @few(%x: tensor<?x6xf32>) -> (tensor<?x12xf32>, tensor<?x1xf32>) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<12x6xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<?x6xf32>, tensor<12x6xf32>) -> tensor<?x12xf32>
  %v = "llmc.parameter"() {sources = ["v"]} : () -> tensor<1x6xf32>
  %z = "llmc.linear"(%x, %v) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<?x6xf32>, tensor<1x6xf32>) -> tensor<?x1xf32>
  return %y, %z : tensor<?x12xf32>, tensor<?x1xf32>
}
