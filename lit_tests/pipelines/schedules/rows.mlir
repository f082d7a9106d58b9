// RUN: llmc-opt %s --lower-llmc='{keep-kernels=true}' --canonicalize --cse --outline-rows --canonicalize --schedule='rows{lanes=8}' | filecheck %s

// A workgroup has a row: it is read once for the sum, in 8 partial ones that stay in a register, and
// again for the result. Nothing of linalg is left.
// CHECK-LABEL: func.func private @rows_0
// CHECK-NOT:     linalg
// CHECK:         scf.forall (%[[ROW:.*]]) in (%{{.*}}) shared_outs
// CHECK:           %[[PARTIAL:.*]] = scf.for {{.*}} to %c64 step %c8 iter_args({{.*}}) -> (vector<1x8xf32>)
// CHECK:             vector.transfer_read %arg0[%[[ROW]],
// CHECK:           vector.reduction <add>
// CHECK:           math.rsqrt
// CHECK:           scf.for {{.*}} to %c64 step %c8
// CHECK:             vector.transfer_write
// CHECK-NOT:     linalg
func.func private @layer(%x: tensor<?x1x64xf32>, %weight: tensor<64xf32>, %layer: index) -> tensor<?x1x64xf32> attributes {llmc.layer_argument = 2 : index} {
  %y = "llmc.rms_norm"(%x, %weight) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 1>} : (tensor<?x1x64xf32>, tensor<64xf32>) -> tensor<?x1x64xf32>
  return %y : tensor<?x1x64xf32>
}

// The lanes divide the row, and are 64 at most.
// RUN: llmc-opt %s --lower-llmc='{keep-kernels=true}' --canonicalize --cse --outline-rows --canonicalize --schedule-kernels --dump-schedule | filecheck %s --check-prefix=CHOSEN
// CHOSEN: // rows{lanes=64}
