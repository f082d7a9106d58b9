// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @one_row
// CHECK:         "llmc.packed_linear"(%arg0, %arg1) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 8 : i64}
//
// One row needs no packing; the padding of the last panel is cut off.
// LOWER-LABEL: func.func @one_row
// LOWER-NOT:     linalg.pack
// LOWER-DAG:     %[[X:.+]] = tensor.expand_shape %arg0 {{.+}} into tensor<1x6x1x1xf32>
// LOWER-DAG:     %[[W:.+]] = tensor.expand_shape %arg1 {{.+}} into tensor<2x6x4x1xf16>
// LOWER:         %[[Y:.+]] = linalg.mmt4d ins(%[[X]], %[[W]] : {{.+}}) outs({{.+}} : tensor<1x2x1x4xf32>)
// LOWER:         %[[FLAT:.+]] = tensor.collapse_shape %[[Y]] {{.+}} into tensor<1x8xf32>
// LOWER:         tensor.extract_slice %[[FLAT]][0, 0] [1, 5] [1, 1]
func.func @one_row(%x: tensor<1x6xf32>, %w: tensor<2x6x4xf16>) -> tensor<1x5xf32> {
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 8 : i64}
     : (tensor<1x6xf32>, tensor<2x6x4xf16>) -> tensor<1x5xf32>
  return %y : tensor<1x5xf32>
}

// Several rows are packed by `tile`, with zeros in the last.
// CHECK-LABEL: func.func @many_rows
// LOWER-LABEL: func.func @many_rows
// LOWER:         %[[ROWS:.+]] = tensor.collapse_shape %arg0 {{.+}} into tensor<?x6xf32>
// LOWER:         arith.ceildivui
// LOWER:         %[[PACKED:.+]] = linalg.pack %[[ROWS]] padding_value(%{{.+}} : f32) {{.*}}inner_tiles = [8, 1] {{.+}} -> tensor<?x6x8x1xf32>
// LOWER:         %[[PRODUCT:.+]] = linalg.mmt4d ins(%[[PACKED]]
// LOWER:         linalg.unpack %[[PRODUCT]] {{.*}}inner_tiles = [8, 4]
// LOWER:         linalg.generic {{.+}} ins(%{{.+}}, %arg2 :
// LOWER:           arith.addf
// LOWER:         tensor.expand_shape
func.func @many_rows(%x: tensor<1x?x6xf32>, %w: tensor<2x6x4xf32>, %b: tensor<8xf32>) -> tensor<1x?x8xf32> {
  %y = "llmc.packed_linear"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, tile = 8 : i64}
     : (tensor<1x?x6xf32>, tensor<2x6x4xf32>, tensor<8xf32>) -> tensor<1x?x8xf32>
  return %y : tensor<1x?x8xf32>
}

// Rows and weights may both be narrower than sums.
// LOWER-LABEL: func.func @narrow_rows
// LOWER:         linalg.mmt4d ins({{.+}} : tensor<1x6x1x1xbf16>, tensor<2x6x4x1xbf16>) outs({{.+}} : tensor<1x2x1x4xf32>)
func.func @narrow_rows(%x: tensor<1x6xbf16>, %w: tensor<2x6x4xbf16>) -> tensor<1x8xf32> {
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 8 : i64}
     : (tensor<1x6xbf16>, tensor<2x6x4xbf16>) -> tensor<1x8xf32>
  return %y : tensor<1x8xf32>
}

// What x leaves open, the weight knows.
// LOWER-LABEL: func.func @open_width
// LOWER:         %[[X:.+]] = tensor.cast %arg0 : tensor<1x?xf32> to tensor<1x6xf32>
// LOWER:         tensor.expand_shape %[[X]]
func.func @open_width(%x: tensor<1x?xf32>, %w: tensor<2x6x4xf32>) -> tensor<1x8xf32> {
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 8 : i64}
     : (tensor<1x?xf32>, tensor<2x6x4xf32>) -> tensor<1x8xf32>
  return %y : tensor<1x8xf32>
}

// -----

func.func @panels(%x: tensor<1x6xf32>, %w: tensor<3x6x4xf32>) {
  // CHECK: error: 'llmc.packed_linear' op operand 'weight' must have its panels = 2, but has 3
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 8 : i64}
     : (tensor<1x6xf32>, tensor<3x6x4xf32>) -> tensor<1x5xf32>
  return
}

// -----

func.func @width(%x: tensor<1x7xf32>, %w: tensor<2x6x4xf32>) {
  // CHECK: error: 'llmc.packed_linear' op operand 'x' must have its last dimension = 6, but has 7
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 8 : i64}
     : (tensor<1x7xf32>, tensor<2x6x4xf32>) -> tensor<1x5xf32>
  return
}

// -----

func.func @rank(%x: tensor<1x6xf32>, %w: tensor<12x4xf32>) {
  // CHECK: error: 'llmc.packed_linear' op operand 'weight' must have rank 3
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 8 : i64}
     : (tensor<1x6xf32>, tensor<12x4xf32>) -> tensor<1x5xf32>
  return
}

// -----

func.func @tile(%x: tensor<1x6xf32>, %w: tensor<2x6x4xf32>) {
  // CHECK: error: 'llmc.packed_linear' op attribute 'tile' must be from 1 to 2147483647, but is 0
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 0 : i64}
     : (tensor<1x6xf32>, tensor<2x6x4xf32>) -> tensor<1x5xf32>
  return
}

// -----

func.func @bias(%x: tensor<3x6xf32>, %w: tensor<2x6x4xf32>, %b: tensor<6xf32>) {
  // CHECK: error: 'llmc.packed_linear' op operand 'bias' must have its length = 5, but has 6
  %y = "llmc.packed_linear"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, tile = 8 : i64}
     : (tensor<3x6xf32>, tensor<2x6x4xf32>, tensor<6xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @bias_element(%x: tensor<3x6xf32>, %w: tensor<2x6x4xf32>, %b: tensor<5xf16>) {
  // CHECK: error: 'llmc.packed_linear' op operand 'bias' must hold f32, but is tensor<5xf16>
  %y = "llmc.packed_linear"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, tile = 8 : i64}
     : (tensor<3x6xf32>, tensor<2x6x4xf32>, tensor<5xf16>) -> tensor<3x5xf32>
  return
}

// -----

func.func @columns(%x: tensor<3x6xf32>, %w: tensor<2x6x0xf32>, %b: tensor<5xf32>) {
  // CHECK: error: 'llmc.packed_linear' op operand 'weight' must have columns
  %y = "llmc.packed_linear"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, tile = 8 : i64}
     : (tensor<3x6xf32>, tensor<2x6x0xf32>, tensor<5xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @open_weight(%x: tensor<3x6xf32>, %w: tensor<?x6x4xf32>, %b: tensor<5xf32>) {
  // CHECK: error: 'llmc.packed_linear' op operand 'weight' must be static in dimension 0, but is tensor<?x6x4xf32>
  %y = "llmc.packed_linear"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, tile = 8 : i64}
     : (tensor<3x6xf32>, tensor<?x6x4xf32>, tensor<5xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @wide_weight(%x: tensor<3x6xf32>, %w: tensor<2x6x4xf64>, %b: tensor<5xf32>) {
  // CHECK: error: 'llmc.packed_linear' op operand 'weight' must hold f32 or narrower, but is tensor<2x6x4xf64>
  %y = "llmc.packed_linear"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, tile = 8 : i64}
     : (tensor<3x6xf32>, tensor<2x6x4xf64>, tensor<5xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @wide_rows(%x: tensor<3x6xf32>, %w: tensor<2x6x4xbf16>) {
  // CHECK: error: 'llmc.packed_linear' op operand 'x' must hold bf16 or narrower, but is tensor<3x6xf32>
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 8 : i64}
     : (tensor<3x6xf32>, tensor<2x6x4xbf16>) -> tensor<3x5xbf16>
  return
}

// -----

func.func @rows(%x: tensor<3x6xf32>, %w: tensor<2x6x4xf32>, %b: tensor<5xf32>) {
  // CHECK: error: 'llmc.packed_linear' op result must have dimension 0 = 3, but has 4
  %y = "llmc.packed_linear"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, tile = 8 : i64}
     : (tensor<3x6xf32>, tensor<2x6x4xf32>, tensor<5xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @open_result(%x: tensor<3x6xf32>, %w: tensor<2x6x4xf32>, %b: tensor<5xf32>) {
  // CHECK: error: 'llmc.packed_linear' op result must be static in dimension 1, but is tensor<3x?xf32>
  %y = "llmc.packed_linear"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, tile = 8 : i64}
     : (tensor<3x6xf32>, tensor<2x6x4xf32>, tensor<5xf32>) -> tensor<3x?xf32>
  return
}
