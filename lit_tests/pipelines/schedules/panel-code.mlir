// Panels of 16 bits are widened in registers, and multiplied by instructions that add, too.
// RUN: rm -rf %t && mkdir %t
// RUN: llmc-opt %s --outline-linears --lower-llmc='{keep-kernels=true}' --schedule-kernels='target=cpu:haswell' --dispatch-kernels -o %t/avx2.mlir
// RUN: %{iree-compile-x86} %t/avx2.mlir --iree-llvmcpu-target-cpu=haswell --iree-hal-dump-executable-intermediates-to=%t/avx2 -o %t/avx2.vmfb
// RUN: cat %t/avx2/*.s | filecheck %s --check-prefix=AVX2
// AVX2-LABEL: panel_matvec_0
// AVX2:         vcvtph2ps {{.*}}%ymm
// AVX2:         vfmadd{{.*}}ps {{.*}}%ymm
// AVX2-LABEL: panel_matmul_0
// AVX2:         vfmadd{{.*}}ps {{.*}}%ymm

// RUN: llmc-opt %s --outline-linears --lower-llmc='{keep-kernels=true}' --schedule-kernels='target=cpu:armv8.2' --dispatch-kernels -o %t/arm.mlir
// RUN: %{iree-compile-arm} %t/arm.mlir --iree-llvmcpu-target-cpu-features=+v8.2a,+dotprod,+fullfp16 --iree-hal-dump-executable-intermediates-to=%t/arm -o %t/arm.vmfb
// RUN: cat %t/arm/*.s | filecheck %s --check-prefix=ARM
// ARM-LABEL: panel_matvec_0
// ARM:         fcvtl
// ARM:         fmla v{{[0-9]+}}.4s
// ARM-LABEL: panel_matmul_0
// ARM:         fmla v{{[0-9]+}}.4s

func.func @row(%x: tensor<1x64xf32>, %w: tensor<16x64x8xf16>) -> tensor<1x128xf32> {
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 8 : i64}
    : (tensor<1x64xf32>, tensor<16x64x8xf16>) -> tensor<1x128xf32>
  return %y : tensor<1x128xf32>
}

func.func @rows(%x: tensor<?x64xf32>, %w: tensor<16x64x8xf16>) -> tensor<?x128xf32> {
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 8 : i64}
    : (tensor<?x64xf32>, tensor<16x64x8xf16>) -> tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}
