// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s

// CHECK-LABEL: func.func @weight
// CHECK-NEXT:    "llmc.blocks_to_bytes"(%arg0) : (tensor<?x2x!llmc.q4_1>) -> tensor<?x2x20xi8>
func.func @weight(%w: tensor<?x2x!llmc.q4_1>) -> tensor<?x2x20xi8> {
  %b = "llmc.blocks_to_bytes"(%w) : (tensor<?x2x!llmc.q4_1>) -> tensor<?x2x20xi8>
  return %b : tensor<?x2x20xi8>
}

// -----

func.func @numbers(%w: tensor<6x2xf32>) {
  // CHECK: error: 'llmc.blocks_to_bytes' op operand 'x' must hold blocks, but is tensor<6x2xf32>
  %b = "llmc.blocks_to_bytes"(%w) : (tensor<6x2xf32>) -> tensor<6x2x18xi8>
  return
}

// -----

func.func @bytes(%w: tensor<6x2x!llmc.q4_0>) {
  // CHECK: error: 'llmc.blocks_to_bytes' op result must have dimension 2 = 18, but has 20
  %b = "llmc.blocks_to_bytes"(%w) : (tensor<6x2x!llmc.q4_0>) -> tensor<6x2x20xi8>
  return
}

// -----

func.func @element(%w: tensor<6x2x!llmc.q8_0>) {
  // CHECK: error: 'llmc.blocks_to_bytes' op result must hold i8, but is tensor<6x2x34xi16>
  %b = "llmc.blocks_to_bytes"(%w) : (tensor<6x2x!llmc.q8_0>) -> tensor<6x2x34xi16>
  return
}
