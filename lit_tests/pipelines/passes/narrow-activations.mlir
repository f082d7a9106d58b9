// RUN: llmc-opt %s --narrow-activations | filecheck %s
// RUN: llmc-opt %s --narrow-activations='instruction=plain' | filecheck %s --check-prefix=PLAIN
// RUN: llmc-opt %s --narrow-activations --outline-linears --lower-llmc='{keep-kernels=true}' --canonicalize --cse --outline-rows --canonicalize --cse | filecheck %s --check-prefix=KERNELS
// PLAIN-NOT: arith.truncf

// A kernel rounds where it computes: a norm, or what follows a layer.
// CHECK-LABEL: func.func private @rows(
// CHECK:         %[[NORMED:.+]] = "llmc.rms_norm"
// CHECK:         %[[X:.+]] = linalg.generic {{.+}} ins(%[[NORMED]] : tensor<1x?x32xf32>) outs(%{{.+}} : tensor<1x?x32xbf16>)
// CHECK:           arith.truncf
// CHECK:         %[[Y:.+]] = "llmc.packed_linear"(%[[X]], %{{.+}}) {{.+}} : (tensor<1x?x32xbf16>, tensor<4x32x16xbf16>) -> tensor<1x?x64xf32>
// CHECK:         %[[SQUARES:.+]] = linalg.generic {{.+}} ins(%[[Y]]
// CHECK:         %[[ROUNDED:.+]] = linalg.generic {{.+}} ins(%[[SQUARES]] : tensor<1x?x64xf32>)
// CHECK:         "llmc.packed_linear"(%[[ROUNDED]], %{{.+}}) {{.+}} : (tensor<1x?x64xbf16>, tensor<2x64x16xbf16>) -> tensor<1x?x32xf32>
//
// KERNELS-LABEL: func.func private @rows(
// KERNELS-NOT:     linalg
// KERNELS:         %[[NORMED:.+]] = call @rows_0(%{{.+}}) : (tensor<?x32xf32>) -> tensor<?x32xbf16>
// KERNELS-NOT:     linalg
// KERNELS:         %[[SQUARES:.+]] = call @panel_matmul_0(%{{.+}}) : (tensor<?x32xbf16>, tensor<4x32x16xbf16>) -> tensor<?x4x16xbf16>
// KERNELS-NOT:     linalg
// KERNELS:         call @panel_matmul_1(%{{.+}}) : (tensor<?x64xbf16>, tensor<2x64x16xbf16>) -> tensor<?x2x16xf32>
#id = affine_map<(b, t, n) -> (b, t, n)>
func.func private @rows(%x: tensor<1x?x32xf32>, %w: tensor<4x32x16xbf16>, %v: tensor<2x64x16xbf16>, %layer: index) -> tensor<1x?x32xf32> attributes {llmc.layer_argument = 3 : index} {
  %one = arith.constant 1 : index
  %n = "llmc.rms_norm"(%x) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1x?x32xf32>) -> tensor<1x?x32xf32>
  %y = "llmc.packed_linear"(%n, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 8 : i64}
     : (tensor<1x?x32xf32>, tensor<4x32x16xbf16>) -> tensor<1x?x64xf32>
  %rows = tensor.dim %x, %one : tensor<1x?x32xf32>
  %room = tensor.empty(%rows) : tensor<1x?x64xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%y : tensor<1x?x64xf32>) outs(%room : tensor<1x?x64xf32>) {
  ^bb0(%a: f32, %old: f32):
    %square = arith.mulf %a, %a : f32
    linalg.yield %square : f32
  } -> tensor<1x?x64xf32>
  %z = "llmc.packed_linear"(%s, %v) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 8 : i64}
     : (tensor<1x?x64xf32>, tensor<2x64x16xbf16>) -> tensor<1x?x32xf32>
  return %z : tensor<1x?x32xf32>
}

// CHECK-LABEL: func.func @experts(
// CHECK:         "llmc.grouped_expert_linear"({{.+}}) : (tensor<?x32xbf16>, tensor<6xi32>, tensor<5x4x32x16xbf16>) -> tensor<?x64xf32>
func.func @experts(%x: tensor<?x32xf32>, %first: tensor<6xi32>, %w: tensor<5x4x32x16xbf16>) -> tensor<?x64xf32> {
  %y = "llmc.grouped_expert_linear"(%x, %first, %w) : (tensor<?x32xf32>, tensor<6xi32>, tensor<5x4x32x16xbf16>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// A single row, a weight of another type, sums of another length and columns that no instruction takes
// stay as they are.
// CHECK-LABEL: func.func @left(
// CHECK-NOT:     arith.truncf
func.func @left(%row: tensor<1x1x32xf32>, %x: tensor<?x32xf32>, %odd: tensor<?x40xf32>, %w: tensor<4x32x16xbf16>, %half: tensor<4x32x16xf16>, %long: tensor<4x40x16xbf16>, %narrow: tensor<4x32x2xbf16>) -> (tensor<1x1x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x8xf32>) {
  %a = "llmc.packed_linear"(%row, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 8 : i64} : (tensor<1x1x32xf32>, tensor<4x32x16xbf16>) -> tensor<1x1x64xf32>
  %b = "llmc.packed_linear"(%x, %half) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 8 : i64} : (tensor<?x32xf32>, tensor<4x32x16xf16>) -> tensor<?x64xf32>
  %c = "llmc.packed_linear"(%odd, %long) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 8 : i64} : (tensor<?x40xf32>, tensor<4x40x16xbf16>) -> tensor<?x64xf32>
  %d = "llmc.packed_linear"(%x, %narrow) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 8 : i64} : (tensor<?x32xf32>, tensor<4x32x2xbf16>) -> tensor<?x8xf32>
  return %a, %b, %c, %d : tensor<1x1x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x8xf32>
}
