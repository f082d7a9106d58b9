// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s

// CHECK-LABEL: func.func @weight
// CHECK-NEXT:    "llmc.bytes_to_blocks"(%arg0) : (tensor<6x?x34xi8>) -> tensor<6x?x!llmc.q8_0>
func.func @weight(%b: tensor<6x?x34xi8>) -> tensor<6x?x!llmc.q8_0> {
  %w = "llmc.bytes_to_blocks"(%b) : (tensor<6x?x34xi8>) -> tensor<6x?x!llmc.q8_0>
  return %w : tensor<6x?x!llmc.q8_0>
}

// -----

func.func @bytes(%b: tensor<6x2x20xi8>) {
  // CHECK: error: 'llmc.bytes_to_blocks' op operand 'x' must have dimension 2 = 18, but has 20
  %w = "llmc.bytes_to_blocks"(%b) : (tensor<6x2x20xi8>) -> tensor<6x2x!llmc.q4_0>
  return
}

// -----

func.func @rank(%b: tensor<6x20xi8>) {
  // CHECK: error: 'llmc.bytes_to_blocks' op operand 'x' must have rank 3, but is tensor<6x20xi8>
  %w = "llmc.bytes_to_blocks"(%b) : (tensor<6x20xi8>) -> tensor<6x2x!llmc.q4_1>
  return
}

// -----

func.func @numbers(%b: tensor<6x2x20xi8>) {
  // CHECK: error: 'llmc.bytes_to_blocks' op result must hold blocks, but is tensor<6x2xi8>
  %w = "llmc.bytes_to_blocks"(%b) : (tensor<6x2x20xi8>) -> tensor<6x2xi8>
  return
}
