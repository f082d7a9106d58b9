// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s

// A block is an element of a tensor, static or dynamic.
// CHECK-LABEL: func.func @formats(%arg0: tensor<6x2x!llmc.q4_0>, %arg1: tensor<?x2x!llmc.q4_1>, %arg2: tensor<?x!llmc.q8_0>)
func.func @formats(%a: tensor<6x2x!llmc.q4_0>, %b: tensor<?x2x!llmc.q4_1>, %c: tensor<?x!llmc.q8_0>) -> tensor<2x!llmc.q4_0> {
  // CHECK-NEXT: tensor.extract_slice %arg0[3, 0] [1, 2] [1, 1] : tensor<6x2x!llmc.q4_0> to tensor<2x!llmc.q4_0>
  %row = tensor.extract_slice %a[3, 0] [1, 2] [1, 1] : tensor<6x2x!llmc.q4_0> to tensor<2x!llmc.q4_0>
  return %row : tensor<2x!llmc.q4_0>
}

// -----

// Of a format that is not there it is said which there are.
// CHECK: error: no such type: those of llmc are !llmc.q4_0, !llmc.q4_1, !llmc.q5_0, !llmc.q5_1, !llmc.q6_g16, !llmc.q8_0, !llmc.int4_g64, !llmc.int4_g128, !llmc.q8_0_keys, !llmc.q8_0_values
func.func private @unknown(tensor<6x2x!llmc.q6_0>)

// -----

// CHECK: error: expected 0 type arguments, but had 1
func.func private @parametric(tensor<6x2x!llmc.q4_0<32>>)

// -----

// Blocks have no meaning as elements of a vector or a buffer: they are bytes by then.
// CHECK: error: failed to verify 'elementType'
func.func private @vector(vector<2x!llmc.q4_0>)

// -----

// CHECK: error: invalid memref element type
func.func private @buffer(memref<2x!llmc.q4_0>)
