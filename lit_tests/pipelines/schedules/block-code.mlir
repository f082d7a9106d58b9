// Blocks of every format are multiplied by the instruction that a CPU has for bytes, be it of one
// row or of many.
// RUN: rm -rf %t && mkdir %t
//
// With AVX2 the sign of a weight of 8 bits goes to the activation: the instruction takes none.
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:haswell' --schedule-kernels='target=cpu:haswell' --dispatch-kernels -o %t/avx2.mlir
// RUN: %{iree-compile-x86} %t/avx2.mlir --iree-llvmcpu-target-cpu=haswell --iree-hal-dump-executable-intermediates-to=%t/avx2 -o %t/avx2.vmfb
// RUN: cat %t/avx2/*.s | filecheck %s --check-prefix=AVX2
// AVX2-LABEL: {{^}}quantized_matvec_0_
// AVX2:         vpmaddubsw {{.*}}%ymm
// AVX2:         vpmaddwd {{.*}}%ymm
// AVX2-LABEL: {{^}}quantized_matmul_0_
// AVX2:         vpmaddubsw {{.*}}%ymm
// AVX2:         vpmaddwd {{.*}}%ymm
// AVX2-LABEL: {{^}}quantized_matvec_1_
// AVX2:         vpsignb {{.*}}%ymm
// AVX2:         vpmaddubsw {{.*}}%ymm
// AVX2:         vpmaddwd {{.*}}%ymm
// AVX2-LABEL: {{^}}quantized_matmul_1_
// AVX2:         vpsignb {{.*}}%ymm
// AVX2:         vpmaddubsw {{.*}}%ymm
// AVX2:         vpmaddwd {{.*}}%ymm
// AVX2-LABEL: {{^}}quantized_matvec_2_
// AVX2:         vpmaddubsw {{.*}}%ymm
// AVX2:         vpmaddwd {{.*}}%ymm
// AVX2-LABEL: {{^}}quantized_matmul_2_
// AVX2:         vpmaddubsw {{.*}}%ymm
// AVX2:         vpmaddwd {{.*}}%ymm
//
// With AVX-VNNI.
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:alderlake' --schedule-kernels='target=cpu:alderlake' --dispatch-kernels -o %t/vnni.mlir
// RUN: %{iree-compile-x86} %t/vnni.mlir --iree-llvmcpu-target-cpu=alderlake --iree-hal-dump-executable-intermediates-to=%t/vnni -o %t/vnni.vmfb
// RUN: cat %t/vnni/*.s | filecheck %s --check-prefix=VNNI
// VNNI-LABEL: {{^}}quantized_matvec_0_
// VNNI-COUNT-32: {vex} vpdpbusd {{.*}}%ymm
// VNNI-NOT:     vpdpbusd
// VNNI-LABEL: {{^}}quantized_matmul_0_
// VNNI-COUNT-240: {vex} vpdpbusd {{.*}}%ymm
// VNNI-NOT:     vpdpbusd
// VNNI-LABEL: {{^}}quantized_matvec_1_
// VNNI-COUNT-32: {vex} vpdpbusd {{.*}}%ymm
// VNNI-NOT:     vpdpbusd
// VNNI-LABEL: {{^}}quantized_matmul_1_
// VNNI-COUNT-240: {vex} vpdpbusd {{.*}}%ymm
// VNNI-NOT:     vpdpbusd
// VNNI-LABEL: {{^}}quantized_matvec_2_
// VNNI-COUNT-64: {vex} vpdpbusd {{.*}}%ymm
// VNNI-NOT:     vpdpbusd
// VNNI-LABEL: {{^}}quantized_matmul_2_
// VNNI-COUNT-480: {vex} vpdpbusd {{.*}}%ymm
// VNNI-NOT:     vpdpbusd
//
// With AVX-512 and VNNI.
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:zen4' --schedule-kernels='target=cpu:zen4' --dispatch-kernels -o %t/avx512.mlir
// RUN: %{iree-compile-x86} %t/avx512.mlir --iree-llvmcpu-target-cpu=znver4 --iree-hal-dump-executable-intermediates-to=%t/avx512 -o %t/avx512.vmfb
// RUN: cat %t/avx512/*.s | filecheck %s --check-prefix=AVX512
// AVX512-LABEL: {{^}}quantized_matvec_0_
// AVX512-COUNT-8: vpdpbusd {{.*}}%zmm
// AVX512-NOT:     vpdpbusd
// AVX512-LABEL: {{^}}quantized_matmul_0_
// AVX512-COUNT-120: vpdpbusd {{.*}}%zmm
// AVX512-NOT:     vpdpbusd
// AVX512-LABEL: {{^}}quantized_matvec_1_
// AVX512-COUNT-8: vpdpbusd {{.*}}%zmm
// AVX512-NOT:     vpdpbusd
// AVX512-LABEL: {{^}}quantized_matmul_1_
// AVX512-COUNT-120: vpdpbusd {{.*}}%zmm
// AVX512-NOT:     vpdpbusd
// AVX512-LABEL: {{^}}quantized_matvec_2_
// AVX512-COUNT-16: vpdpbusd {{.*}}%zmm
// AVX512-NOT:     vpdpbusd
// AVX512-LABEL: {{^}}quantized_matmul_2_
// AVX512-COUNT-240: vpdpbusd {{.*}}%zmm
// AVX512-NOT:     vpdpbusd
//
// With i8mm of Arm two rows at once, and the last by itself.
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:armv8.6' --schedule-kernels='target=cpu:armv8.6' --dispatch-kernels -o %t/arm.mlir
// RUN: %{iree-compile-arm} %t/arm.mlir --iree-llvmcpu-target-cpu-features=+v8.6a,+dotprod,+fullfp16,+i8mm,+bf16 --iree-hal-dump-executable-intermediates-to=%t/arm -o %t/arm.vmfb
// RUN: cat %t/arm/*.s | filecheck %s --check-prefix=ARM
// ARM-LABEL: {{^}}quantized_matvec_0_
// ARM:         sdot v{{[0-9]+}}.4s, v{{[0-9]+}}.16b
// ARM-NOT:     smmla
// ARM-LABEL: {{^}}quantized_matmul_0_
// ARM:         smmla v{{[0-9]+}}.4s, v{{[0-9]+}}.16b, v{{[0-9]+}}.16b
// ARM:         sdot v{{[0-9]+}}.4s, v{{[0-9]+}}.16b
// ARM-LABEL: {{^}}quantized_matvec_1_
// ARM:         sdot v{{[0-9]+}}.4s, v{{[0-9]+}}.16b
// ARM-NOT:     smmla
// ARM-LABEL: {{^}}quantized_matmul_1_
// ARM:         smmla v{{[0-9]+}}.4s, v{{[0-9]+}}.16b, v{{[0-9]+}}.16b
// ARM:         sdot v{{[0-9]+}}.4s, v{{[0-9]+}}.16b
// ARM-LABEL: {{^}}quantized_matvec_2_
// ARM:         sdot v{{[0-9]+}}.4s, v{{[0-9]+}}.16b
// ARM-NOT:     smmla
// ARM-LABEL: {{^}}quantized_matmul_2_
// ARM:         smmla v{{[0-9]+}}.4s, v{{[0-9]+}}.16b, v{{[0-9]+}}.16b
// ARM:         sdot v{{[0-9]+}}.4s, v{{[0-9]+}}.16b

func.func @q4_0_row(%x: tensor<1x128xf32>, %w: tensor<8x4x288xi8>) -> tensor<1x128xf32> {
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q4_0", operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<1x128xf32>, tensor<8x4x288xi8>) -> tensor<1x128xf32>
  return %y : tensor<1x128xf32>
}
func.func @q4_0_rows(%x: tensor<?x128xf32>, %w: tensor<8x4x288xi8>) -> tensor<?x128xf32> {
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q4_0", operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<?x128xf32>, tensor<8x4x288xi8>) -> tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}
func.func @q8_0_row(%x: tensor<1x128xf32>, %w: tensor<8x4x544xi8>) -> tensor<1x128xf32> {
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q8_0", operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<1x128xf32>, tensor<8x4x544xi8>) -> tensor<1x128xf32>
  return %y : tensor<1x128xf32>
}
func.func @q8_0_rows(%x: tensor<?x128xf32>, %w: tensor<8x4x544xi8>) -> tensor<?x128xf32> {
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q8_0", operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<?x128xf32>, tensor<8x4x544xi8>) -> tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}
func.func @int4_g64_row(%x: tensor<1x128xf32>, %w: tensor<8x2x576xi8>) -> tensor<1x128xf32> {
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "int4_g64", operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<1x128xf32>, tensor<8x2x576xi8>) -> tensor<1x128xf32>
  return %y : tensor<1x128xf32>
}
func.func @int4_g64_rows(%x: tensor<?x128xf32>, %w: tensor<8x2x576xi8>) -> tensor<?x128xf32> {
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "int4_g64", operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<?x128xf32>, tensor<8x2x576xi8>) -> tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}
