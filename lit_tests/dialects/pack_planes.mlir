// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// Of 11 rows, three panels of 4 are made: of a scale, a plane of 4 bits and one of 2 bits.
// CHECK-LABEL: func.func @high
// CHECK:         "llmc.pack_planes"(%arg0) {columns = 4 : i64, part = "high"}
// LOWER-LABEL: func.func @high
// LOWER:         %[[FOUR:.+]] = linalg.generic {{.+}}outs(%{{.+}} : tensor<11x2x16xi8>)
// LOWER:         %[[TWO:.+]] = linalg.generic {{.+}}outs(%{{.+}} : tensor<11x2x8xi8>)
// LOWER:         tensor.concat dim(2) %{{.+}}, %[[FOUR]], %[[TWO]] : (tensor<11x2x2xi8>, tensor<11x2x16xi8>, tensor<11x2x8xi8>) -> tensor<11x2x26xi8>
// LOWER-COUNT-2: linalg.pack
// LOWER:         return %{{.+}} : tensor<3x2x104xi8>
func.func @high(%w: tensor<11x2x!llmc.q8_0>) -> tensor<3x2x104xi8> {
  %p = "llmc.pack_planes"(%w) {columns = 4 : i64, part = "high"} : (tensor<11x2x!llmc.q8_0>) -> tensor<3x2x104xi8>
  return %p : tensor<3x2x104xi8>
}

// -----

func.func @format(%w: tensor<8x2x!llmc.q4_0>) {
  // CHECK: error: 'llmc.pack_planes' op 'x' must hold blocks of q8_0, not of q4_0
  %p = "llmc.pack_planes"(%w) {columns = 4 : i64, part = "high"} : (tensor<8x2x!llmc.q4_0>) -> tensor<2x2x104xi8>
  return
}

// -----

func.func @part(%w: tensor<8x2x!llmc.q8_0>) {
  // CHECK: error: 'llmc.pack_planes' op 'part' must be one of high, low, but is 'middle'
  %p = "llmc.pack_planes"(%w) {columns = 4 : i64, part = "middle"} : (tensor<8x2x!llmc.q8_0>) -> tensor<2x2x104xi8>
  return
}

// -----

func.func @size(%w: tensor<8x2x!llmc.q8_0>) {
  // CHECK: error: 'llmc.pack_planes' op result must have dimension 2 = 32, but has 104
  %p = "llmc.pack_planes"(%w) {columns = 4 : i64, part = "low"} : (tensor<8x2x!llmc.q8_0>) -> tensor<2x2x104xi8>
  return
}
