// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(fold-transposes)' | filecheck %s

// CHECK-LABEL: func.func @linear
// CHECK:         %[[W:.+]] = "llmc.parameter"()
// CHECK:         %[[T:.+]] = linalg.transpose ins(%[[W]] : tensor<6x8xf32>) outs({{.+}} : tensor<8x6xf32>) permutation = [1, 0]
// CHECK-NEXT:    "llmc.linear"(%arg0, %[[T]])
// CHECK-SAME:      transposed = 0 : i64
func.func @linear(%x: tensor<?x6xf32>) -> tensor<?x8xf32> {
  %w = "llmc.parameter"() {sources = ["linear"]} : () -> tensor<6x8xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 1 : i64}
     : (tensor<?x6xf32>, tensor<6x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @experts
// CHECK:         linalg.transpose ins({{.+}} : tensor<3x6x8xf32>) outs({{.+}} : tensor<3x8x6xf32>) permutation = [0, 2, 1]
// CHECK-NEXT:    "llmc.expert_linear"
// CHECK-SAME:      transposed = 0 : i64
func.func @experts(%x: tensor<?x6xf32>, %expert: tensor<?xi64>) -> tensor<?x8xf32> {
  %w = "llmc.parameter"() {sources = ["experts"]} : () -> tensor<3x6x8xf32>
  %y = "llmc.expert_linear"(%x, %expert, %w) {top_k = 1 : i64, transposed = 1 : i64}
     : (tensor<?x6xf32>, tensor<?xi64>, tensor<3x6x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// A transposed layer over a transposition needs none.
// CHECK-LABEL: func.func @cancel
// CHECK:         %[[W:.+]] = "llmc.parameter"()
// CHECK-NOT:     linalg.transpose
// CHECK:         "llmc.linear"(%arg0, %[[W]])
// CHECK-SAME:      transposed = 0 : i64
func.func @cancel(%x: tensor<?x6xf32>) -> tensor<?x8xf32> {
  %w = "llmc.parameter"() {sources = ["cancel"]} : () -> tensor<8x6xf32>
  %room = tensor.empty() : tensor<6x8xf32>
  %t = linalg.transpose ins(%w : tensor<8x6xf32>) outs(%room : tensor<6x8xf32>) permutation = [1, 0]
  %y = "llmc.linear"(%x, %t) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 1 : i64}
     : (tensor<?x6xf32>, tensor<6x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// Two transpositions are one, in their order; what is written as a generic is seen through.
#in = affine_map<(d0, d1, d2) -> (d2, d0, d1)>
#out = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-LABEL: func.func @merge
// CHECK:         %[[W:.+]] = "llmc.parameter"()
// CHECK:         %[[T:.+]] = linalg.transpose ins(%[[W]] : tensor<2x3x4xf32>) outs({{.+}} : tensor<4x3x2xf32>) permutation = [2, 1, 0]
// CHECK-NOT:     linalg.generic
// CHECK:         return %[[T]]
func.func @merge() -> tensor<4x3x2xf32> {
  %w = "llmc.parameter"() {sources = ["merge"]} : () -> tensor<2x3x4xf32>
  %room = tensor.empty() : tensor<3x4x2xf32>
  %1 = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%w : tensor<2x3x4xf32>) outs(%room : tensor<3x4x2xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<3x4x2xf32>
  %again = tensor.empty() : tensor<4x3x2xf32>
  %2 = linalg.transpose ins(%1 : tensor<3x4x2xf32>) outs(%again : tensor<4x3x2xf32>) permutation = [1, 0, 2]
  return %2 : tensor<4x3x2xf32>
}

// Activations are none of its business, nor are a generic that computes and a weight that is no
// parameter or that a lookup reads as well.
// CHECK-LABEL: func.func @left_alone
// CHECK:         linalg.generic
// CHECK:         linalg.generic
// CHECK:         linalg.transpose
// CHECK:         linalg.transpose
// CHECK:         "llmc.linear"{{.+}} transposed = 1 : i64
// CHECK:         "llmc.linear"{{.+}} transposed = 1 : i64
#turned = affine_map<(d0, d1) -> (d1, d0)>
#same = affine_map<(d0, d1) -> (d0, d1)>
func.func @left_alone(%x: tensor<6x6xf32>, %i: index)
    -> (tensor<6x6xf32>, tensor<6x6xf32>, tensor<6x6xf32>, tensor<6x6xf32>, tensor<6x6xf32>, f32) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<6x6xf32>
  %v = "llmc.parameter"() {sources = ["v"]} : () -> tensor<6x6xf32>
  %room = tensor.empty() : tensor<6x6xf32>
  %1 = linalg.generic {indexing_maps = [#turned, #same], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<6x6xf32>) outs(%room : tensor<6x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<6x6xf32>
  %2 = linalg.generic {indexing_maps = [#turned, #same], iterator_types = ["parallel", "parallel"]}
      ins(%v : tensor<6x6xf32>) outs(%room : tensor<6x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = math.tanh %a : f32
    linalg.yield %c : f32
  } -> tensor<6x6xf32>
  %t = linalg.transpose ins(%x : tensor<6x6xf32>) outs(%room : tensor<6x6xf32>) permutation = [1, 0]
  %3 = linalg.transpose ins(%t : tensor<6x6xf32>) outs(%room : tensor<6x6xf32>) permutation = [1, 0]
  %4 = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 1 : i64}
     : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
  %5 = "llmc.linear"(%x, %x) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 1 : i64}
     : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
  %6 = tensor.extract %w[%i, %i] : tensor<6x6xf32>
  return %1, %2, %3, %4, %5, %6 : tensor<6x6xf32>, tensor<6x6xf32>, tensor<6x6xf32>, tensor<6x6xf32>, tensor<6x6xf32>, f32
}

// -----

func.func @invalid(%x: tensor<?x6xf32>) -> tensor<?x8xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<8x6xf32>
  // expected-error@+1 {{operand 'x' must have its last dimension = 8, but has 6}}
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 1 : i64}
     : (tensor<?x6xf32>, tensor<8x6xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
