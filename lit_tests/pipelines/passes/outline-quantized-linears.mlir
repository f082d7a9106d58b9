// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:sapphirerapids' --split-input-file --verify-diagnostics | filecheck %s
// RUN: not llmc-opt %s --outline-quantized-linears='target=gpu' --split-input-file 2>&1 | filecheck %s --check-prefix=TARGET
// TARGET: there is no target 'gpu'

#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

// One row: the norm before it and the addition after it are the kernel's. It takes the weights of
// all layers, biases among them, and the number of its own.
// CHECK-LABEL: func.func @one_row(
// CHECK-SAME:    %[[X:.*]]: tensor<1x1x64xf32>, %[[NORM:.*]]: tensor<3x64xf32>, %[[W:.*]]: tensor<3x4x2x320xi8>, %[[B:.*]]: tensor<3x64xf32>, %[[LAYER:.*]]: index
// CHECK-NOT:     llmc.rms_norm
// CHECK:         %[[HALVES:.*]] = "llmc.bitcast"(%[[W]]) : {{.*}} -> tensor<3x4x2x160xf16>
// CHECK:         %[[BIASES:.*]] = tensor.expand_shape %[[B]] {{\[\[}}0], [1, 2]] {{.*}} into tensor<3x4x16xf32>
// CHECK:         call @quantized_matvec_0({{.*}}, %[[NORM]], %[[LAYER]], %[[W]], %[[HALVES]], %[[BIASES]], {{.*}}) : {{.*}} -> tensor<1x4x16xf32>
// CHECK-NOT:     arith.addf
// CHECK:         return
// CHECK-LABEL: func.func private @quantized_matvec_0
// CHECK-SAME:    %[[LAYER:[^:]*]]: index
// CHECK-SAME:    %[[BIASES:[^:]*]]: tensor<3x4x16xf32>
// CHECK-SAME:    llmc.kernel = "quantized_matvec"
// CHECK:         tensor.extract_slice %[[BIASES]][%[[LAYER]], 0, 0] [1, 4, 16] [1, 1, 1]
// CHECK:         linalg.generic {{.*}}llmc.stage = "dots0"
// CHECK:         linalg.generic {{.*}}llmc.stage = "sums0"
// CHECK:         linalg.generic {{.*}}llmc.result
// CHECK:           arith.addf
func.func @one_row(%x: tensor<1x1x64xf32>, %norms: tensor<3x64xf32>, %weights: tensor<3x4x2x320xi8>, %biases: tensor<3x64xf32>, %layer: index) -> tensor<1x1x64xf32> {
  %norm = tensor.extract_slice %norms[%layer, 0] [1, 64] [1, 1] : tensor<3x64xf32> to tensor<64xf32>
  %w = tensor.extract_slice %weights[%layer, 0, 0, 0] [1, 4, 2, 320] [1, 1, 1, 1] : tensor<3x4x2x320xi8> to tensor<4x2x320xi8>
  %bias = tensor.extract_slice %biases[%layer, 0] [1, 64] [1, 1] : tensor<3x64xf32> to tensor<64xf32>
  %normed = "llmc.rms_norm"(%x, %norm) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 1>}
    : (tensor<1x1x64xf32>, tensor<64xf32>) -> tensor<1x1x64xf32>
  %y = "llmc.packed_quantized_linear"(%normed, %w, %bias) {format = "q4_1", operandSegmentSizes = array<i32: 1, 1, 1>}
    : (tensor<1x1x64xf32>, tensor<4x2x320xi8>, tensor<64xf32>) -> tensor<1x1x64xf32>
  %room = tensor.empty() : tensor<1x1x64xf32>
  %sum = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %y : tensor<1x1x64xf32>, tensor<1x1x64xf32>) outs(%room : tensor<1x1x64xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<1x1x64xf32>
  return %sum : tensor<1x1x64xf32>
}

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>

// Many rows: they are quantised once for both layers, and the two halves of one are multiplied in
// its kernel.
// CHECK-LABEL: func.func @many_rows
// CHECK:         %[[ROWS:.*]]:3 = call @quantize_rows_0
// CHECK:         call @quantized_matmul_0(%[[ROWS]]#0, %[[ROWS]]#1, %[[ROWS]]#2, {{.*}} -> tensor<?x2x16xf32>
// CHECK-NOT:     call @quantize_rows
// CHECK:         call @quantized_matmul_1(%[[ROWS]]#0, %[[ROWS]]#1, %[[ROWS]]#2, {{.*}} -> tensor<?x2x16xf32>
// CHECK-LABEL: func.func private @quantized_matmul_0
// CHECK:         llmc.stage = "sums0"
// CHECK:         llmc.stage = "sums1"
// CHECK:         arith.mulf
func.func @many_rows(%x: tensor<?x64xf32>, %w: tensor<4x2x288xi8>, %v: tensor<2x2x288xi8>) -> (tensor<?x32xf32>, tensor<?x32xf32>) {
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q4_0", operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<?x64xf32>, tensor<4x2x288xi8>) -> tensor<?x64xf32>
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %y, %c0 : tensor<?x64xf32>
  %gate = tensor.extract_slice %y[0, 0] [%rows, 32] [1, 1] : tensor<?x64xf32> to tensor<?x32xf32>
  %up = tensor.extract_slice %y[0, 32] [%rows, 32] [1, 1] : tensor<?x64xf32> to tensor<?x32xf32>
  %room = tensor.empty(%rows) : tensor<?x32xf32>
  %product = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%gate, %up : tensor<?x32xf32>, tensor<?x32xf32>) outs(%room : tensor<?x32xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<?x32xf32>
  %z = "llmc.packed_quantized_linear"(%x, %v) {format = "q4_0", operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<?x64xf32>, tensor<2x2x288xi8>) -> tensor<?x32xf32>
  return %product, %z : tensor<?x32xf32>, tensor<?x32xf32>
}

// -----

// 4,093 panels are shared by none but as many workgroups: the row is normalised and quantised before.
// CHECK-LABEL: func.func @large(
// CHECK:         %[[ROW:.*]]:3 = call @quantize_rows_0({{.*}}) : {{.*}} -> (tensor<?x32x32xi8>, tensor<?x32xf32>, tensor<?x32xi32>)
// CHECK:         %[[VALUES:.*]] = tensor.cast %[[ROW]]#0 : tensor<?x32x32xi8> to tensor<1x32x32xi8>
// CHECK:         call @quantized_matvec_0(%[[VALUES]], {{.*}}) : {{.*}} -> tensor<1x4093x16xf32>
// CHECK-LABEL: func.func private @quantized_matvec_0
// CHECK-NOT:     llmc.stage = "scales"
func.func @large(%x: tensor<1x1024xf32>, %norm: tensor<1024xf32>, %w: tensor<4093x32x288xi8>) -> tensor<1x65488xf32> {
  %normed = "llmc.rms_norm"(%x, %norm) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 1>}
    : (tensor<1x1024xf32>, tensor<1024xf32>) -> tensor<1x1024xf32>
  %y = "llmc.packed_quantized_linear"(%normed, %w) {format = "q4_0", operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<1x1024xf32>, tensor<4093x32x288xi8>) -> tensor<1x65488xf32>
  return %y : tensor<1x65488xf32>
}

// -----

// So is one that is very long, which is still one row.
// CHECK-LABEL: func.func @long(
// CHECK:         %[[ROW:.*]]:3 = call @quantize_rows_0({{.*}}) : {{.*}} -> (tensor<?x1025x32xi8>, tensor<?x1025xf32>, tensor<?x1025xi32>)
// CHECK:         call @quantized_matvec_0({{.*}}) : {{.*}} -> tensor<1x2x16xf32>
func.func @long(%x: tensor<1x32800xf32>, %w: tensor<2x1025x288xi8>) -> tensor<1x32xf32> {
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q4_0", operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<1x32800xf32>, tensor<2x1025x288xi8>) -> tensor<1x32xf32>
  return %y : tensor<1x32xf32>
}

// -----

// A norm that others read stays, what is computed from a result that others read follows, and a
// layer of one panel is no kernel.
// CHECK-LABEL: func.func @apart
// CHECK:         llmc.rms_norm
// CHECK:         call @quantized_matvec_0
// CHECK:         linalg.exp
// CHECK:         llmc.packed_quantized_linear
func.func @apart(%x: tensor<1x32xf32>, %w: tensor<2x1x544xi8>, %v: tensor<1x1x544xi8>)
    -> (tensor<1x32xf32>, tensor<1x32xf32>, tensor<1x32xf32>, tensor<1x16xf32>) {
  %normed = "llmc.rms_norm"(%x) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 0>}
    : (tensor<1x32xf32>) -> tensor<1x32xf32>
  %y = "llmc.packed_quantized_linear"(%normed, %w) {format = "q8_0", operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<1x32xf32>, tensor<2x1x544xi8>) -> tensor<1x32xf32>
  %room = tensor.empty() : tensor<1x32xf32>
  %e = linalg.exp ins(%y : tensor<1x32xf32>) outs(%room : tensor<1x32xf32>) -> tensor<1x32xf32>
  %z = "llmc.packed_quantized_linear"(%x, %v) {format = "q8_0", operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<1x32xf32>, tensor<1x1x544xi8>) -> tensor<1x16xf32>
  return %normed, %y, %e, %z : tensor<1x32xf32>, tensor<1x32xf32>, tensor<1x32xf32>, tensor<1x16xf32>
}

// -----

// An invalid layer is an error.
func.func @invalid(%x: tensor<1x64xf32>, %w: tensor<2x1x544xi8>) {
  // expected-error@+1 {{'llmc.packed_quantized_linear' op operand 'x' must have its last dimension = 32, but has 64}}
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q8_0", operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<1x64xf32>, tensor<2x1x544xi8>) -> tensor<1x32xf32>
  return
}

// -----

// What two products by bit planes read is quantised once, with the norm, and that is known to the
// search. Of the exact product it needs few numbers: it is a kernel of panels.
// CHECK-LABEL: func.func @screened(
// CHECK:         %[[ROWS:.*]]:3 = call @quantize_rows_0({{.*}}) : (tensor<?x2x32xf32>, tensor<64xf32>)
// CHECK-NOT:     llmc.rms_norm
// CHECK-NOT:     llmc.quantize_rows
// CHECK:         call @quantized_matvec_0({{.*}}) : {{.*}} tensor<4x2x416xi8>, tensor<4x2x208xf16>) -> tensor<1x4x16xf32>
// CHECK:         call @quantized_panel_0({{.*}}) : {{.*}} tensor<4x2x416xi8>, tensor<4x2x128xi8>, tensor<4x2x208xf16>) -> tensor<1x4x16xf32>
// CHECK:         "llmc.screened_argmax"
// CHECK-LABEL: func.func private @quantized_matvec_0
// CHECK:         linalg.generic {{.*}}llmc.stage = "dots0"
// CHECK-LABEL: func.func private @quantized_panel_0
// CHECK:         linalg.generic {{.*}}llmc.stage = "dots0"
func.func @screened(%x: tensor<1x64xf32>, %n: tensor<64xf32>, %h: tensor<4x2x416xi8>, %l: tensor<4x2x128xi8>, %m: tensor<64xf32>, %f: tensor<64xf32>) -> tensor<1xi64> {
  %normed = "llmc.rms_norm"(%x, %n) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 1>}
    : (tensor<1x64xf32>, tensor<64xf32>) -> tensor<1x64xf32>
  %r = "llmc.plane_linear"(%normed, %h) {operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<1x64xf32>, tensor<4x2x416xi8>) -> tensor<1x64xf32>
  %e = "llmc.plane_linear"(%normed, %h, %l) {operandSegmentSizes = array<i32: 1, 1, 1>}
    : (tensor<1x64xf32>, tensor<4x2x416xi8>, tensor<4x2x128xi8>) -> tensor<1x64xf32>
  %v, %s = "llmc.quantize_rows"(%normed) {group = 32 : i64} : (tensor<1x64xf32>) -> (tensor<1x64xi8>, tensor<1x2xf32>)
  %b = "llmc.screened_argmax"(%e, %r, %v, %m, %f, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>}
     : (tensor<1x64xf32>, tensor<1x64xf32>, tensor<1x64xi8>, tensor<64xf32>, tensor<64xf32>, tensor<1x2xf32>) -> tensor<1xi64>
  return %b : tensor<1xi64>
}

// -----

// Of several rows the exact product is a kernel of panels, too.
// CHECK-LABEL: func.func @screened_rows(
// CHECK:         call @quantized_matmul_0({{.*}}) : {{.*}} -> tensor<?x4x16xf32>
// CHECK:         call @quantized_panel_0({{.*}}) : {{.*}} -> tensor<?x4x16xf32>
func.func @screened_rows(%x: tensor<?x64xf32>, %h: tensor<4x2x416xi8>, %l: tensor<4x2x128xi8>, %m: tensor<64xf32>, %f: tensor<64xf32>) -> tensor<?xi64> {
  %r = "llmc.plane_linear"(%x, %h) {operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<?x64xf32>, tensor<4x2x416xi8>) -> tensor<?x64xf32>
  %e = "llmc.plane_linear"(%x, %h, %l) {operandSegmentSizes = array<i32: 1, 1, 1>}
    : (tensor<?x64xf32>, tensor<4x2x416xi8>, tensor<4x2x128xi8>) -> tensor<?x64xf32>
  %v, %s = "llmc.quantize_rows"(%x) {group = 32 : i64} : (tensor<?x64xf32>) -> (tensor<?x64xi8>, tensor<?x2xf32>)
  %b = "llmc.screened_argmax"(%e, %r, %v, %m, %f, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>}
     : (tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xi8>, tensor<64xf32>, tensor<64xf32>, tensor<?x2xf32>) -> tensor<?xi64>
  return %b : tensor<?xi64>
}

// -----

// Rows that two layers read are quantised before either, in whatever order these end.
// CHECK-LABEL: func.func @order
// CHECK:         %[[ROWS:.+]]:3 = call @quantize_rows_{{.+}}
// CHECK:         call @quantized_matmul_{{.+}}(%[[ROWS]]#0
// CHECK:         call @quantized_matmul_{{.+}}(%[[ROWS]]#0
func.func @order(%x: tensor<?x64xf32>, %w: tensor<2x2x288xi8>, %v: tensor<2x2x288xi8>, %n: index) -> (tensor<?x32xf32>, tensor<?x32xf32>) {
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q4_0", operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<?x64xf32>, tensor<2x2x288xi8>) -> tensor<?x32xf32>
  %z = "llmc.packed_quantized_linear"(%x, %v) {format = "q4_0", operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<?x64xf32>, tensor<2x2x288xi8>) -> tensor<?x32xf32>
  %room = tensor.empty(%n) : tensor<?x32xf32>
  %q = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%z : tensor<?x32xf32>) outs(%room : tensor<?x32xf32>) {
  ^bb0(%a: f32, %old: f32):
    %p = arith.negf %a : f32
    linalg.yield %p : f32
  } -> tensor<?x32xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<?x32xf32>) outs(%room : tensor<?x32xf32>) {
  ^bb0(%a: f32, %old: f32):
    %p = arith.negf %a : f32
    linalg.yield %p : f32
  } -> tensor<?x32xf32>
  return %p, %q : tensor<?x32xf32>, tensor<?x32xf32>
}
