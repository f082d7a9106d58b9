// CPUs that multiply pairs of bf16 do so, on whole registers.
// RUN: rm -rf %t && mkdir %t
// RUN: llmc-opt %s --narrow-activations --outline-linears --lower-llmc='{keep-kernels=true}' --schedule-kernels='target=cpu:zen4' --dispatch-kernels -o %t/zen4.mlir
// RUN: %{iree-compile-x86} %t/zen4.mlir --iree-llvmcpu-target-cpu=znver4 --iree-hal-dump-executable-intermediates-to=%t/zen4 -o %t/zen4.vmfb
// RUN: cat %t/zen4/*.s | filecheck %s --check-prefix=ZEN4
// ZEN4:         vpermw {{.*}}%zmm
// ZEN4:         vdpbf16ps {{.*}}%zmm

// RUN: llmc-opt %s --narrow-activations='instruction=bfdot' --outline-linears --lower-llmc='{keep-kernels=true}' --schedule-kernels='target=cpu:armv8.6' --dispatch-kernels -o %t/arm.mlir
// RUN: %{iree-compile-arm} %t/arm.mlir --iree-llvmcpu-target-cpu-features=+v8.6a,+dotprod,+fullfp16,+i8mm,+bf16 --iree-hal-dump-executable-intermediates-to=%t/arm -o %t/arm.vmfb
// RUN: cat %t/arm/*.s | filecheck %s --check-prefix=ARM
// ARM:         bfdot v{{[0-9]+}}.4s

func.func @sixteen_columns(%x: tensor<?x64xf32>, %w: tensor<16x64x16xbf16>) -> tensor<?x256xf32> {
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 8 : i64}
    : (tensor<?x64xf32>, tensor<16x64x16xbf16>) -> tensor<?x256xf32>
  return %y : tensor<?x256xf32>
}

func.func @four_columns(%x: tensor<?x64xf32>, %w: tensor<16x64x4xbf16>) -> tensor<?x64xf32> {
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 8 : i64}
    : (tensor<?x64xf32>, tensor<16x64x4xbf16>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
