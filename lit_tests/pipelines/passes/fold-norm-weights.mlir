// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(fold-norm-weights)' | filecheck %s

// Every linear layer that reads the norm gets its weight, and its offset.
// CHECK-LABEL: func.func @layer
// CHECK-DAG:     %[[N:.+]] = "llmc.parameter"() {sources = ["norm"]}
// CHECK-DAG:     %[[A:.+]] = "llmc.parameter"() {sources = ["a"]}
// CHECK-DAG:     %[[E:.+]] = "llmc.parameter"() {sources = ["e"]}
// CHECK:         %[[Y:.+]] = "llmc.rms_norm"(%arg0) {epsilon = 1.000000e-05 : f64, offset = 0.000000e+00 : f64, operandSegmentSizes = array<i32: 1, 0>}
// CHECK:         tensor.dim %[[Y]]
// CHECK:         %[[SA:.+]] = "llmc.scale_columns"(%[[A]], %[[N]]) {offset = 1.000000e+00 : f64}
// CHECK-NEXT:    "llmc.linear"(%[[Y]], %[[SA]], %arg2)
// CHECK:         %[[SE:.+]] = "llmc.scale_columns"(%[[E]], %[[N]]) {offset = 1.000000e+00 : f64} : (tensor<3x8x6xf32>, tensor<6xf32>)
// CHECK-NEXT:    "llmc.expert_linear"(%[[Y]], %arg1, %[[SE]])
func.func @layer(%x: tensor<?x6xf32>, %expert: tensor<?xi64>, %b: tensor<8xf32>)
    -> (tensor<?x8xf32>, tensor<?x8xf32>, index) {
  %c0 = arith.constant 0 : index
  %n = "llmc.parameter"() {sources = ["norm"]} : () -> tensor<6xf32>
  %a = "llmc.parameter"() {sources = ["a"]} : () -> tensor<8x6xf32>
  %e = "llmc.parameter"() {sources = ["e"]} : () -> tensor<3x8x6xf32>
  %y = "llmc.rms_norm"(%x, %n) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5, offset = 1.0}
     : (tensor<?x6xf32>, tensor<6xf32>) -> tensor<?x6xf32>
  %rows = tensor.dim %y, %c0 : tensor<?x6xf32>
  %1 = "llmc.linear"(%y, %a, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, transposed = 0 : i64}
     : (tensor<?x6xf32>, tensor<8x6xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %2 = "llmc.expert_linear"(%y, %expert, %e) {top_k = 1 : i64, transposed = 0 : i64}
     : (tensor<?x6xf32>, tensor<?xi64>, tensor<3x8x6xf32>) -> tensor<?x8xf32>
  return %1, %2, %rows : tensor<?x8xf32>, tensor<?x8xf32>, index
}

// -----

// Not where something else reads the norm, nor where the weight of a layer is transposed, no
// parameter, or looked up elsewhere, nor without a layer.
// CHECK-LABEL: func.func @left_alone
// CHECK-NOT:     llmc.scale_columns
// CHECK-COUNT-5: "llmc.rms_norm"({{.+}}, {{.+}})
// CHECK-NOT:     llmc.scale_columns
// CHECK:         return
func.func @left_alone(%x: tensor<4x6xf32>, %w: tensor<8x6xf32>, %i: index)
    -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, f32) {
  %n = "llmc.parameter"() {sources = ["norm"]} : () -> tensor<6xf32>
  %a = "llmc.parameter"() {sources = ["a"]} : () -> tensor<8x6xf32>
  %b = "llmc.parameter"() {sources = ["b"]} : () -> tensor<6x8xf32>
  %c = "llmc.parameter"() {sources = ["c"]} : () -> tensor<8x6xf32>
  %y1 = "llmc.rms_norm"(%x, %n) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5, offset = 0.0}
      : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %1 = "llmc.linear"(%y1, %a) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
  %y2 = "llmc.rms_norm"(%x, %n) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 2.0e-5, offset = 0.0}
      : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %2 = "llmc.linear"(%y2, %b) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 1 : i64}
     : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %y3 = "llmc.rms_norm"(%x, %n) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 3.0e-5, offset = 0.0}
      : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %3 = "llmc.linear"(%y3, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
  %y4 = "llmc.rms_norm"(%x, %n) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 4.0e-5, offset = 0.0}
      : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %4 = "llmc.linear"(%y4, %c) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
  %l = tensor.extract %c[%i, %i] : tensor<8x6xf32>
  %y5 = "llmc.rms_norm"(%x, %n) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 5.0e-5, offset = 0.0}
      : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  return %y1, %y5, %1, %2, %3, %4, %l : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, f32
}

// -----

// Nor where another function reads the layer's weight without this norm: it would be stored twice.
// CHECK-LABEL: func.func @decode
// CHECK-NOT:     llmc.scale_columns
// CHECK:         return
func.func @decode(%x: tensor<4x6xf32>) -> tensor<4x8xf32> {
  %n = "llmc.parameter"() {sources = ["norm"]} : () -> tensor<6xf32>
  %a = "llmc.parameter"() {sources = ["a"]} : () -> tensor<8x6xf32>
  %y = "llmc.rms_norm"(%x, %n) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5, offset = 0.0}
     : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %1 = "llmc.linear"(%y, %a) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
func.func @prefill(%x: tensor<4x6xf32>) -> tensor<4x8xf32> {
  %a = "llmc.parameter"() {sources = ["a"]} : () -> tensor<8x6xf32>
  %1 = "llmc.linear"(%x, %a) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

func.func @invalid(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error@+1 {{attribute 'offset' must be 0 without a weight}}
  %y = "llmc.rms_norm"(%x) {operandSegmentSizes = array<i32: 1, 0>, epsilon = 1.0e-5, offset = 1.0}
     : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}
