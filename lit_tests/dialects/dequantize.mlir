// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @matrix
// CHECK-NEXT:    "llmc.dequantize"(%arg0) : (tensor<6x?x!llmc.q4_1>) -> tensor<6x?xf32>
//
// Halves of bytes, scale and minimum are put together, and no element is gathered.
// LOWER-LABEL: func.func @matrix
// LOWER:         %[[BYTES:.+]] = "llmc.blocks_to_bytes"(%arg0)
// LOWER-NOT:     tensor.extract %
// LOWER:         tensor.extract_slice %[[BYTES]][0, 0, 4] [6, %{{.+}}, 16]
// LOWER:           arith.shrui
// LOWER:           arith.andi
// LOWER:         tensor.extract_slice %[[BYTES]][0, 0, 0] [6, %{{.+}}, 2]
// LOWER:           arith.bitcast %{{.+}} : i16 to f16
// LOWER:         tensor.extract_slice %[[BYTES]][0, 0, 2] [6, %{{.+}}, 2]
// LOWER:         linalg.generic
// LOWER:           arith.mulf
// LOWER:           arith.addf
// LOWER:         tensor.collapse_shape %{{.+}} {{.*}}into tensor<6x?xf32>
func.func @matrix(%w: tensor<6x?x!llmc.q4_1>) -> tensor<6x?xf32> {
  %y = "llmc.dequantize"(%w) : (tensor<6x?x!llmc.q4_1>) -> tensor<6x?xf32>
  return %y : tensor<6x?xf32>
}

// -----

func.func @numbers(%w: tensor<6x2xf32>) {
  // CHECK: error: 'llmc.dequantize' op operand 'x' must hold blocks, but is tensor<6x2xf32>
  %y = "llmc.dequantize"(%w) : (tensor<6x2xf32>) -> tensor<6x64xf32>
  return
}

// -----

func.func @count(%w: tensor<6x2x!llmc.q4_0>) {
  // CHECK: error: 'llmc.dequantize' op operand 'x' must have its last dimension = 3, but has 2
  %y = "llmc.dequantize"(%w) : (tensor<6x2x!llmc.q4_0>) -> tensor<6x96xf32>
  return
}

// -----

func.func @part(%w: tensor<6x2x!llmc.q4_0>) {
  // CHECK: error: 'llmc.dequantize' op result must have its last dimension = a multiple of 32, but has 60
  %y = "llmc.dequantize"(%w) : (tensor<6x2x!llmc.q4_0>) -> tensor<6x60xf32>
  return
}

// -----

func.func @element(%w: tensor<6x2x!llmc.q4_0>) {
  // CHECK: error: 'llmc.dequantize' op result must hold f32, but is tensor<6x64xf16>
  %y = "llmc.dequantize"(%w) : (tensor<6x2x!llmc.q4_0>) -> tensor<6x64xf16>
  return
}

// -----

func.func @scalar(%w: tensor<!llmc.q4_0>) {
  // CHECK: error: 'llmc.dequantize' op operand 'x' must have rank 1 or more, but is tensor<!llmc.q4_0>
  %y = "llmc.dequantize"(%w) : (tensor<!llmc.q4_0>) -> tensor<32xf32>
  return
}

// -----

func.func @empty(%w: tensor<0x2x!llmc.q4_0>) {
  // CHECK: error: 'llmc.dequantize' op operand 'x' must not be empty, but is tensor<0x2x!llmc.q4_0>
  %y = "llmc.dequantize"(%w) : (tensor<0x2x!llmc.q4_0>) -> tensor<0x64xf32>
  return
}
