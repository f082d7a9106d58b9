// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// Scales and minima are interleaved in twos, integers in fours; the last panel is padded.
// CHECK-LABEL: func.func @rows
// CHECK:         "llmc.pack_blocks"(%arg0) {columns = 4 : i64} : (tensor<11x2x!llmc.q4_1>) -> tensor<3x2x80xi8>
// LOWER-LABEL: func.func @rows
// LOWER:         %[[B:.+]] = "llmc.blocks_to_bytes"(%arg0)
// LOWER:         tensor.extract_slice %[[B]][0, 0, 0] [11, 2, 4] [1, 1, 1]
// LOWER:         linalg.pack %{{.+}} padding_value(%{{.+}} : i8) {{.*}}inner_dims_pos = [0, 3] inner_tiles = [4, 2] {{.+}} -> tensor<3x2x2x1x4x2xi8>
// LOWER:         tensor.extract_slice %[[B]][0, 0, 4] [11, 2, 16] [1, 1, 1]
// LOWER:         linalg.pack %{{.+}} inner_tiles = [4, 4] {{.+}} -> tensor<3x2x4x1x4x4xi8>
// LOWER:         tensor.concat dim(2)
func.func @rows(%w: tensor<11x2x!llmc.q4_1>) -> tensor<3x2x80xi8> {
  %p = "llmc.pack_blocks"(%w) {columns = 4 : i64} : (tensor<11x2x!llmc.q4_1>) -> tensor<3x2x80xi8>
  return %p : tensor<3x2x80xi8>
}

// -----

func.func @numbers(%w: tensor<11x2xf32>) {
  // CHECK: error: 'llmc.pack_blocks' op operand 'x' must hold blocks, but is tensor<11x2xf32>
  %y = "llmc.pack_blocks"(%w) {columns = 4 : i64}
     : (tensor<11x2xf32>) -> tensor<3x2x80xi8>
  return
}

// -----

func.func @columns(%w: tensor<11x2x!llmc.q4_1>) {
  // CHECK: error: 'llmc.pack_blocks' op attribute 'columns' must be from 1 to 2147483647, but is 0
  %y = "llmc.pack_blocks"(%w) {columns = 0 : i64}
     : (tensor<11x2x!llmc.q4_1>) -> tensor<3x2x80xi8>
  return
}

// -----

func.func @panels(%w: tensor<11x2x!llmc.q4_1>) {
  // CHECK: error: 'llmc.pack_blocks' op result must have dimension 0 = 3, but has 2
  %y = "llmc.pack_blocks"(%w) {columns = 4 : i64}
     : (tensor<11x2x!llmc.q4_1>) -> tensor<2x2x80xi8>
  return
}

// -----

func.func @cells(%w: tensor<11x2x!llmc.q4_1>) {
  // CHECK: error: 'llmc.pack_blocks' op result must have dimension 2 = 80, but has 72
  %y = "llmc.pack_blocks"(%w) {columns = 4 : i64}
     : (tensor<11x2x!llmc.q4_1>) -> tensor<3x2x72xi8>
  return
}

// -----

func.func @element(%w: tensor<11x2x!llmc.q4_1>) {
  // CHECK: error: 'llmc.pack_blocks' op result must hold i8, but is tensor<3x2x80xf32>
  %y = "llmc.pack_blocks"(%w) {columns = 4 : i64}
     : (tensor<11x2x!llmc.q4_1>) -> tensor<3x2x80xf32>
  return
}

// -----

func.func @open(%w: tensor<?x2x!llmc.q4_1>) {
  // CHECK: error: 'llmc.pack_blocks' op operand 'x' must be static in dimension 0, but is tensor<?x2x!llmc.q4_1>
  %y = "llmc.pack_blocks"(%w) {columns = 4 : i64}
     : (tensor<?x2x!llmc.q4_1>) -> tensor<3x2x80xi8>
  return
}
