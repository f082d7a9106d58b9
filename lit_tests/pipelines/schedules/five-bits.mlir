// The fifth bits of a block's 32 values are one word of each row, which is read once: of it each of
// eight products of four values takes its bits, to the four that lie in halves of bytes.
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:sapphirerapids' --schedule='quantized_matvec{panels=4,together=1,ahead=0,instruction=vpdpbusd,lanes=16}' | filecheck %s

// CHECK-LABEL: func.func private @quantized_matvec_0
// CHECK:         scf.for {{.*}} iter_args({{.*}}) -> (vector<16xf32>)
// CHECK-COUNT-4:   vector.transfer_read {{.*}} vector<64xi8>
// CHECK:           %[[FIFTHS:.+]] = vector.transfer_read {{.*}} vector<64xi8>
// CHECK-NOT:       tensor<8x4x384xi8>
// CHECK-COUNT-4:   arith.shli %[[FIFTHS]]
// CHECK:           arith.andi %[[FIFTHS]]
// CHECK-COUNT-3:   arith.shrui %[[FIFTHS]]
// CHECK-COUNT-8:   vpdpbusd.512"
// CHECK-NOT:       vpdpbusd
// CHECK:           scf.yield {{.*}} : vector<16xf32>
func.func @layer(%x: tensor<1x128xf32>, %w: tensor<8x4x384xi8>) -> tensor<1x128xf32> {
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q5_1", operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<1x128xf32>, tensor<8x4x384xi8>) -> tensor<1x128xf32>
  return %y : tensor<1x128xf32>
}
