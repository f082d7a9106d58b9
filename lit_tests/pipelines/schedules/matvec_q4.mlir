// RUN: llmc-opt %s --lower-llmc --store-blocks-as-bytes --schedule='matvec_q4{rows=2 unroll=3}' | filecheck %s

// Of two rows, three blocks in a round: bytes become floats in registers and are multiplied there.
// CHECK-LABEL: func.func @kernel
// CHECK:         scf.for {{.*}} step %c2
// CHECK:           scf.for {{.*}} step %c3 iter_args({{.*}}) -> (vector<1x2x16xf32>)
// CHECK:             vector.transfer_read {{.*}} : tensor<64x6x18xi8>, vector<2x1x16xi8>
// CHECK:             arith.shrui
// CHECK:             arith.andi
// CHECK:             arith.sitofp {{.*}} to vector<{{.*}}x16xf32>
// CHECK-COUNT-3:     arith.addf {{.*}} : vector<1x2x16xf32>
// CHECK:             scf.yield {{.*}} : vector<1x2x16xf32>
// CHECK-COUNT-2:   vector.reduction <add>
// CHECK-NOT:     linalg
func.func @kernel(%x: tensor<1x192xf32>, %w: tensor<64x6x!llmc.q4_0>) -> tensor<1x64xf32>
    attributes {llmc.kernel = "matvec_q4"} {
  %y = "llmc.quantized_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
     : (tensor<1x192xf32>, tensor<64x6x!llmc.q4_0>) -> tensor<1x64xf32>
  return %y : tensor<1x64xf32>
}
