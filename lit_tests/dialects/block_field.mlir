// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @fields
// CHECK:         "llmc.block_field"(%arg0) {field = "integers"} : (tensor<3x2x!llmc.q4_1>) -> tensor<3x2x16xi8>
// CHECK:         "llmc.block_field"(%arg0) {field = "minimum"} : (tensor<3x2x!llmc.q4_1>) -> tensor<3x2xf16>
// LOWER-LABEL: func.func @fields
// LOWER:         %[[B:.+]] = "llmc.blocks_to_bytes"(%arg0)
// LOWER:         tensor.extract_slice %[[B]][0, 0, 4] [3, 2, 16] [1, 1, 1]
// LOWER:         %[[PAIRS:.+]] = tensor.expand_shape %{{.+}} output_shape [3, 2, 16, 2]
// LOWER:         tensor.extract_slice %[[PAIRS]][0, 0, 0, 1] [3, 2, 16, 1]
// LOWER:         arith.bitcast %{{.+}} : i16 to f16
func.func @fields(%w: tensor<3x2x!llmc.q4_1>) -> (tensor<3x2x16xi8>, tensor<3x2xf16>) {
  %p = "llmc.block_field"(%w) {field = "integers"} : (tensor<3x2x!llmc.q4_1>) -> tensor<3x2x16xi8>
  %m = "llmc.block_field"(%w) {field = "minimum"} : (tensor<3x2x!llmc.q4_1>) -> tensor<3x2xf16>
  return %p, %m : tensor<3x2x16xi8>, tensor<3x2xf16>
}

// -----

func.func @absent(%w: tensor<3x2x!llmc.q4_0>) {
  // CHECK: error: 'llmc.block_field' op 'field' must be one of scale, integers, but is 'minimum'
  %m = "llmc.block_field"(%w) {field = "minimum"} : (tensor<3x2x!llmc.q4_0>) -> tensor<3x2xf16>
  return
}

// -----

func.func @size(%w: tensor<3x2x!llmc.q4_0>) {
  // CHECK: error: 'llmc.block_field' op result must have dimension 2 = 16, but has 18
  %p = "llmc.block_field"(%w) {field = "integers"} : (tensor<3x2x!llmc.q4_0>) -> tensor<3x2x18xi8>
  return
}

// -----

func.func @element(%w: tensor<3x2x!llmc.q4_0>) {
  // CHECK: error: 'llmc.block_field' op result must hold f16, but is tensor<3x2xf32>
  %s = "llmc.block_field"(%w) {field = "scale"} : (tensor<3x2x!llmc.q4_0>) -> tensor<3x2xf32>
  return
}
