// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @least_and_largest
// CHECK-NEXT:    "llmc.quantize"(%arg0) : (tensor<6x64xf32>) -> tensor<6x2x!llmc.q4_1>
//
// LOWER-LABEL: func.func @least_and_largest
// LOWER:         tensor.expand_shape %arg0 {{.+}} into tensor<6x2x32xf32>
// LOWER:           arith.minimumf
// LOWER:           arith.maximumf
// LOWER:         tensor.insert_slice %{{.+}} into %{{.+}}[0, 0, 0] [6, 2, 2]
// LOWER:         tensor.insert_slice %{{.+}} into %{{.+}}[0, 0, 2] [6, 2, 2]
// LOWER:         %[[BYTES:.+]] = tensor.insert_slice %{{.+}} into %{{.+}}[0, 0, 4] [6, 2, 16]
// LOWER:         "llmc.bytes_to_blocks"(%[[BYTES]])
func.func @least_and_largest(%x: tensor<6x64xf32>) -> tensor<6x2x!llmc.q4_1> {
  %w = "llmc.quantize"(%x) : (tensor<6x64xf32>) -> tensor<6x2x!llmc.q4_1>
  return %w : tensor<6x2x!llmc.q4_1>
}

// -----

func.func @part(%x: tensor<6x60xf32>) {
  // CHECK: error: 'llmc.quantize' op operand 'x' must have its last dimension = a multiple of 32, but has 60
  %w = "llmc.quantize"(%x) : (tensor<6x60xf32>) -> tensor<6x2x!llmc.q4_0>
  return
}

// -----

func.func @count(%x: tensor<6x64xf32>) {
  // CHECK: error: 'llmc.quantize' op result must have dimension 1 = 2, but has 3
  %w = "llmc.quantize"(%x) : (tensor<6x64xf32>) -> tensor<6x3x!llmc.q4_0>
  return
}

// -----

func.func @element(%x: tensor<6x64xf16>) {
  // CHECK: error: 'llmc.quantize' op operand 'x' must hold f32, but is tensor<6x64xf16>
  %w = "llmc.quantize"(%x) : (tensor<6x64xf16>) -> tensor<6x2x!llmc.q4_0>
  return
}

// -----

func.func @numbers(%x: tensor<6x64xf32>) {
  // CHECK: error: 'llmc.quantize' op result must hold blocks, but is tensor<6x2xi8>
  %w = "llmc.quantize"(%x) : (tensor<6x64xf32>) -> tensor<6x2xi8>
  return
}
