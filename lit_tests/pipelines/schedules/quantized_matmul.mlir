// A workgroup computes panels for all rows: four rows at a time, then two, then one.
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:sapphirerapids' --schedule='quantized_matmul{panels=2,rows=4,together=2,instruction=vpdpbusd,lanes=16}' | filecheck %s
// CHECK-LABEL: func.func private @quantized_matmul_0
// CHECK:         scf.forall {{.*}} step (2)
// CHECK:           scf.for {{.*}} step %c4
// CHECK:             scf.for {{.*}} iter_args({{.*}}) -> (vector<4x2x16xf32>)
// CHECK-COUNT-64:      vpdpbusd.512"
// CHECK:               scf.yield {{.*}} : vector<4x2x16xf32>
// CHECK:           scf.for {{.*}} step %c4
// CHECK:             scf.for {{.*}} step %c2
// CHECK:               scf.for {{.*}} iter_args({{.*}}) -> (vector<2x2x16xf32>)
// CHECK-COUNT-32:        vpdpbusd.512"
// CHECK:             scf.for {{.*}} step %c2
// CHECK:               scf.for {{.*}} step %c1
// CHECK:                 scf.for {{.*}} iter_args({{.*}}) -> (vector<2x16xf32>)
// CHECK-COUNT-16:          vpdpbusd.512"
// CHECK-NOT:               vpdpbusd

// A workgroup quantises a row.
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:sapphirerapids' --schedule=quantize_rows | filecheck %s --check-prefix=ROWS
// ROWS-LABEL: func.func private @quantize_rows_0
// ROWS:         scf.forall (%{{.*}}) in (%{{.*}}) shared_outs
// ROWS:           vector.reduction <maxsi>
// ROWS:           math.round
// ROWS:           vector.reduction <add>
// ROWS:         return

func.func @layer(%x: tensor<?x64xf32>, %w: tensor<8x2x320xi8>) -> tensor<?x128xf32> {
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q4_1", operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<?x64xf32>, tensor<8x2x320xi8>) -> tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}
