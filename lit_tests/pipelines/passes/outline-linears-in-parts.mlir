// RUN: llmc-opt %s --outline-linears | filecheck %s

// A weight in parts is joined in the kernel. Its row is normalised outside, for all that read it, and
// of one that is screened a kernel computes a single panel.
// CHECK-LABEL: func.func @parts(
// CHECK:         %[[NORM:.*]] = "llmc.rms_norm"
// CHECK:         %[[ROUGH:.*]] = call @[[NEAR:.*]](%[[NORM]], %arg1) : (tensor<1x8xf32>, tensor<2x8x4xi8>)
// CHECK:         %[[EXACT:.*]] = call @[[SINGLE:.*]](%[[NORM]], %arg1, %arg2) : (tensor<1x8xf32>, tensor<2x8x4xi8>, tensor<2x8x4xi8>)
// CHECK-LABEL: func.func @all_parts(
// CHECK:         %[[NORM:.*]] = "llmc.rms_norm"
// CHECK:         call @[[WHOLE:.*]](%[[NORM]], %arg1, %arg2)
func.func @parts(%x: tensor<1x8xf32>, %high: tensor<2x8x4xi8>, %low: tensor<2x8x4xi8>, %m: tensor<8xf32>, %s: tensor<8xf32>) -> tensor<1xi64> {
  %n = "llmc.rms_norm"(%x) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 0>}
      : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %near = "llmc.join_float"(%high) {operandSegmentSizes = array<i32: 1, 0>} : (tensor<2x8x4xi8>) -> tensor<2x8x4xf32>
  %whole = "llmc.join_float"(%high, %low) {operandSegmentSizes = array<i32: 1, 1>} : (tensor<2x8x4xi8>, tensor<2x8x4xi8>) -> tensor<2x8x4xf32>
  %rough = "llmc.packed_linear"(%n, %near) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 4 : i64}
      : (tensor<1x8xf32>, tensor<2x8x4xf32>) -> tensor<1x8xf32>
  %exact = "llmc.packed_linear"(%n, %whole) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 4 : i64}
      : (tensor<1x8xf32>, tensor<2x8x4xf32>) -> tensor<1x8xf32>
  %best = "llmc.screened_argmax"(%exact, %rough, %n, %m, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>}
      : (tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1xi64>
  return %best : tensor<1xi64>
}
func.func @all_parts(%x: tensor<1x8xf32>, %high: tensor<2x8x4xi8>, %low: tensor<2x8x4xi8>) -> tensor<1x8xf32> {
  %n = "llmc.rms_norm"(%x) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 0>}
      : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %whole = "llmc.join_float"(%high, %low) {operandSegmentSizes = array<i32: 1, 1>} : (tensor<2x8x4xi8>, tensor<2x8x4xi8>) -> tensor<2x8x4xf32>
  %y = "llmc.packed_linear"(%n, %whole) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 4 : i64}
      : (tensor<1x8xf32>, tensor<2x8x4xf32>) -> tensor<1x8xf32>
  return %y : tensor<1x8xf32>
}

// CHECK:       func.func private @[[NEAR]]({{.*}} attributes {llmc.kernel = "panel_matvec"}
// CHECK:         arith.extsi
// CHECK:       func.func private @[[SINGLE]]({{.*}} attributes {llmc.kernel = "single_panel"}
// CHECK:         arith.bitcast %{{.*}} : i16 to f16
// CHECK:       func.func private @[[WHOLE]]({{.*}} attributes {llmc.kernel = "panel_matvec"}
