// Products by the high bits alone multiply six bits without a sign: two sums fit into 16 bits. What
// AVX2 needs of whole integers, the sign of each weight, it does not need here.

// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:haswell' --schedule-kernels='target=cpu:haswell' | filecheck %s
// CHECK-LABEL: func.func private @quantized_matmul_0
// CHECK:         scf.forall {{.+}} = (0) to (64) step (8)
// CHECK-NOT:     llvm.x86.avx2.psign.b
// CHECK:         %[[A:.+]] = llvm.call_intrinsic "llvm.x86.avx2.pmadd.ub.sw"
// CHECK:         %[[B:.+]] = llvm.call_intrinsic "llvm.x86.avx2.pmadd.ub.sw"
// CHECK:         %[[SUM:.+]] = arith.addi %[[A]], %[[B]] : vector<16xi16>
// CHECK:         llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"(%[[SUM]], %{{.+}})
// CHECK-LABEL: func.func private @quantized_matmul_1
// CHECK:         llvm.x86.avx2.psign.b
//
// With faster products each of four cores has one workgroup, not two.
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:alderlake' --schedule-kernels='target=cpu:alderlake' | filecheck %s --check-prefix=VNNI
// VNNI:        scf.forall {{.+}} = (0) to (64) step (16)
func.func @both(%x: tensor<?x64xf32>, %high: tensor<64x2x208xi8>, %low: tensor<64x2x64xi8>) -> (tensor<?x512xf32>, tensor<?x512xf32>) {
  %r = "llmc.plane_linear"(%x, %high) {operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<?x64xf32>, tensor<64x2x208xi8>) -> tensor<?x512xf32>
  %e = "llmc.plane_linear"(%x, %high, %low) {operandSegmentSizes = array<i32: 1, 1, 1>}
    : (tensor<?x64xf32>, tensor<64x2x208xi8>, tensor<64x2x64xi8>) -> tensor<?x512xf32>
  return %r, %e : tensor<?x512xf32>, tensor<?x512xf32>
}
