// RUN: llmc-opt %s --pass-pipeline='builtin.module(split-linears,canonicalize)' | filecheck %s

// Two parts of a layer's outputs become two layers.
// CHECK-LABEL: func.func @parts
func.func @parts(%x: tensor<1x?x8xf32>) -> (tensor<1x?x16xf32>, tensor<1x?x8xf32>) {
  // CHECK-DAG:  %[[W:.+]] = "llmc.parameter"() {sources = ["w"]}
  // CHECK-DAG:  %[[B:.+]] = "llmc.parameter"() {sources = ["b"]}
  // CHECK-DAG:  %[[W0:.+]] = tensor.extract_slice %[[W]][0, 0] [16, 8] [1, 1]
  // CHECK-DAG:  %[[B0:.+]] = tensor.extract_slice %[[B]][0] [16] [1]
  // CHECK-DAG:  %[[W1:.+]] = tensor.extract_slice %[[W]][16, 0] [8, 8] [1, 1]
  // CHECK-DAG:  %[[B1:.+]] = tensor.extract_slice %[[B]][16] [8] [1]
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<24x8xf32>
  %b = "llmc.parameter"() {sources = ["b"]} : () -> tensor<24xf32>
  // CHECK-DAG:  "llmc.linear"(%arg0, %[[W0]], %[[B0]]) {{.*}} -> tensor<1x?x16xf32>
  // CHECK-DAG:  "llmc.linear"(%arg0, %[[W1]], %[[B1]]) {{.*}} -> tensor<1x?x8xf32>
  // CHECK-NOT:  llmc.linear
  %y = "llmc.linear"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, transposed = 0 : i64}
      : (tensor<1x?x8xf32>, tensor<24x8xf32>, tensor<24xf32>) -> tensor<1x?x24xf32>
  %c1 = arith.constant 1 : index
  %tokens = tensor.dim %x, %c1 : tensor<1x?x8xf32>
  %0 = tensor.extract_slice %y[0, 0, 0] [1, %tokens, 16] [1, 1, 1]
      : tensor<1x?x24xf32> to tensor<1x?x16xf32>
  %1 = tensor.extract_slice %y[0, 0, 16] [1, %tokens, 8] [1, 1, 1]
      : tensor<1x?x24xf32> to tensor<1x?x8xf32>
  return %0, %1 : tensor<1x?x16xf32>, tensor<1x?x8xf32>
}

// Weights that are stored [K, N], and those of experts, are cut in N.
// CHECK-LABEL: func.func @experts
func.func @experts(%x: tensor<1x8xf32>, %e: tensor<2xi64>) -> tensor<2x4xf32> {
  // CHECK:      tensor.extract_slice %{{.+}}[0, 0, 4] [4, 8, 4] [1, 1, 1]
  // CHECK-NEXT: "llmc.expert_linear"{{.*}} -> tensor<2x4xf32>
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<4x8x8xf32>
  %y = "llmc.expert_linear"(%x, %e, %w) {top_k = 2 : i64, transposed = 1 : i64}
      : (tensor<1x8xf32>, tensor<2xi64>, tensor<4x8x8xf32>) -> tensor<2x8xf32>
  %0 = tensor.extract_slice %y[0, 4] [2, 4] [1, 1] : tensor<2x8xf32> to tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// Some of the rows, some of the tokens that may be fewer, and every other output stay as they are.
// CHECK-LABEL: func.func @others
func.func @others(%x: tensor<4x8xf32>, %some: index)
    -> (tensor<2x4xf32>, tensor<?x4xf32>, tensor<4x4xf32>) {
  // CHECK:      "llmc.linear"{{.*}} -> tensor<4x8xf32>
  // CHECK-COUNT-3: tensor.extract_slice %{{[0-9]+}}
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<8x8xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %0 = tensor.extract_slice %y[0, 0] [2, 4] [1, 1] : tensor<4x8xf32> to tensor<2x4xf32>
  %1 = tensor.extract_slice %y[0, 0] [%some, 4] [1, 1] : tensor<4x8xf32> to tensor<?x4xf32>
  %2 = tensor.extract_slice %y[0, 0] [4, 4] [1, 2] : tensor<4x8xf32> to tensor<4x4xf32>
  return %0, %1, %2 : tensor<2x4xf32>, tensor<?x4xf32>, tensor<4x4xf32>
}

// Nor is a layer kept for its size.
// CHECK-LABEL: func.func @size
func.func @size(%x: tensor<1x?x8xf32>) -> (tensor<1x?x4xf32>, index) {
  // CHECK:      "llmc.linear"{{.*}} -> tensor<1x?x4xf32>
  // CHECK-NOT:  llmc.linear
  // CHECK:      tensor.dim %arg0
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<8x8xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x?x8xf32>, tensor<8x8xf32>) -> tensor<1x?x8xf32>
  %c1 = arith.constant 1 : index
  %tokens = tensor.dim %y, %c1 : tensor<1x?x8xf32>
  %0 = tensor.extract_slice %y[0, 0, 0] [1, %tokens, 4] [1, 1, 1]
      : tensor<1x?x8xf32> to tensor<1x?x4xf32>
  return %0, %tokens : tensor<1x?x4xf32>, index
}

// How many outputs a layer has is no extent of what it reads.
// CHECK-LABEL: func.func @last
// CHECK:         %[[N:.+]] = arith.constant 24 : index
// CHECK:         return %[[N]]
func.func @last(%x: tensor<1x?x8xf32>) -> index {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<24x8xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x?x8xf32>, tensor<24x8xf32>) -> tensor<1x?x24xf32>
  %c2 = arith.constant 2 : index
  %n = tensor.dim %y, %c2 : tensor<1x?x24xf32>
  return %n : index
}

// A dimension that there is not is asked for in vain.
// CHECK-LABEL: func.func @beyond(
// CHECK:         tensor.dim
func.func @beyond(%x: tensor<?x4xf32>, %w: tensor<8x4xf32>) -> (tensor<?x8xf32>, index) {
  %less = arith.constant -3 : index
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<?x4xf32>, tensor<8x4xf32>) -> tensor<?x8xf32>
  %d = tensor.dim %y, %less : tensor<?x8xf32>
  return %y, %d : tensor<?x8xf32>, index
}

// It is read of what the first of several layers reads, at once.
// CHECK-LABEL: func.func @size_of_last
func.func @size_of_last(%x: tensor<1x?x8xf32>) -> (tensor<1x?x8xf32>, index) {
  // CHECK:      tensor.dim %arg0
  // CHECK-COUNT-2: "llmc.linear"
  // CHECK-NOT:  tensor.dim
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<8x8xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x?x8xf32>, tensor<8x8xf32>) -> tensor<1x?x8xf32>
  %z = "llmc.linear"(%y, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x?x8xf32>, tensor<8x8xf32>) -> tensor<1x?x8xf32>
  %c1 = arith.constant 1 : index
  %tokens = tensor.dim %z, %c1 : tensor<1x?x8xf32>
  return %z, %tokens : tensor<1x?x8xf32>, index
}
