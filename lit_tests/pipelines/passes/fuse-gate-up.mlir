// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(fuse-gate-up)' | filecheck %s

// The layer whose result is activated comes first; up's weight moves to where it is needed.
#map = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @mlp
// CHECK:         %[[G:.+]] = "llmc.parameter"() {sources = ["gate"]}
// CHECK-NEXT:    %[[U:.+]] = "llmc.parameter"() {sources = ["up"]}
// CHECK-NEXT:    %[[W:.+]] = tensor.concat dim(0) %[[G]], %[[U]] : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<16x6xf32>
// CHECK-NEXT:    %[[Y:.+]] = "llmc.linear"(%arg0, %[[W]])
// CHECK:         tensor.extract_slice %[[Y]][0, 0] [%[[T:.+]], 8] [1, 1]
// CHECK-NEXT:    tensor.extract_slice %[[Y]][0, 8] [%[[T]], 8] [1, 1]
// CHECK-NOT:     llmc.linear
// CHECK:         return
func.func @mlp(%x: tensor<?x6xf32>, %room: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %wg = "llmc.parameter"() {sources = ["gate"]} : () -> tensor<8x6xf32>
  %gate = "llmc.linear"(%x, %wg) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<?x6xf32>, tensor<8x6xf32>) -> tensor<?x8xf32>
  %act = math.tanh %gate : tensor<?x8xf32>
  %wu = "llmc.parameter"() {sources = ["up"]} : () -> tensor<8x6xf32>
  %up = "llmc.linear"(%x, %wu) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<?x6xf32>, tensor<8x6xf32>) -> tensor<?x8xf32>
  %y = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%act, %up : tensor<?x8xf32>, tensor<?x8xf32>) outs(%room : tensor<?x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

// Experts are fused output by output, here stored transposed.
#map = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @experts
// CHECK:         %[[W:.+]] = tensor.concat dim(2) {{.+}} -> tensor<3x6x16xf32>
// CHECK:         "llmc.expert_linear"(%arg0, %arg1, %[[W]]) {top_k = 2 : i64, transposed = 1 : i64}
// CHECK-SAME:      -> tensor<?x16xf32>
// CHECK-NOT:     llmc.expert_linear
func.func @experts(%x: tensor<?x6xf32>, %expert: tensor<?xi64>, %room: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %wg = "llmc.parameter"() {sources = ["gate"]} : () -> tensor<3x6x8xf32>
  %wu = "llmc.parameter"() {sources = ["up"]} : () -> tensor<3x6x8xf32>
  %gate = "llmc.expert_linear"(%x, %expert, %wg) {top_k = 2 : i64, transposed = 1 : i64}
      : (tensor<?x6xf32>, tensor<?xi64>, tensor<3x6x8xf32>) -> tensor<?x8xf32>
  %up = "llmc.expert_linear"(%x, %expert, %wu) {top_k = 2 : i64, transposed = 1 : i64}
      : (tensor<?x6xf32>, tensor<?xi64>, tensor<3x6x8xf32>) -> tensor<?x8xf32>
  %y = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%gate, %up : tensor<?x8xf32>, tensor<?x8xf32>) outs(%room : tensor<?x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %n = math.tanh %a : f32
    %m = arith.mulf %n, %b : f32
    linalg.yield %m : f32
  } -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

// Experts that were chosen differently are not fused, nor is what meets in a sum, nor one layer
// with itself.
#map = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @left_alone
// CHECK-NOT:     tensor.concat
// CHECK:         return
func.func @left_alone(%x: tensor<4x6xf32>, %expert: tensor<4xi64>, %other: tensor<4xi64>, %room: tensor<4x8xf32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %wg = "llmc.parameter"() {sources = ["gate"]} : () -> tensor<3x8x6xf32>
  %wu = "llmc.parameter"() {sources = ["up"]} : () -> tensor<3x8x6xf32>
  %gate = "llmc.expert_linear"(%x, %expert, %wg) {top_k = 1 : i64, transposed = 0 : i64}
      : (tensor<4x6xf32>, tensor<4xi64>, tensor<3x8x6xf32>) -> tensor<4x8xf32>
  %up = "llmc.expert_linear"(%x, %other, %wu) {top_k = 1 : i64, transposed = 0 : i64}
      : (tensor<4x6xf32>, tensor<4xi64>, tensor<3x8x6xf32>) -> tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%gate, %up : tensor<4x8xf32>, tensor<4x8xf32>) outs(%room : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<4x8xf32>
  %wl = "llmc.parameter"() {sources = ["left"]} : () -> tensor<8x6xf32>
  %wr = "llmc.parameter"() {sources = ["right"]} : () -> tensor<8x6xf32>
  %left = "llmc.linear"(%x, %wl) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
  %right = "llmc.linear"(%x, %wr) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%left, %right : tensor<4x8xf32>, tensor<4x8xf32>) outs(%room : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.addf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<4x8xf32>
  %3 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%left, %left : tensor<4x8xf32>, tensor<4x8xf32>) outs(%room : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<4x8xf32>
  return %1, %2, %3 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

func.func @invalid(%x: tensor<?x6xf32>, %expert: tensor<?xi64>) -> tensor<?x8xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<3x8x6xf32>
  // expected-error@+1 {{attribute 'top_k' must be from 1 to 2147483647, but is}}
  %y = "llmc.expert_linear"(%x, %expert, %w) {top_k = 0 : i64, transposed = 0 : i64}
     : (tensor<?x6xf32>, tensor<?xi64>, tensor<3x8x6xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
