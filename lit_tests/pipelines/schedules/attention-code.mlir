// To a cache of cells attention multiplies by the instruction that a CPU has for bytes: one token,
// and the tokens of a prompt.
// RUN: rm -rf %t && mkdir %t
// RUN: llmc-opt %s --pass-pipeline='builtin.module(call-kernels{lanes=8 instruction=vpmaddubsw},store-blocks-as-bytes,cse,canonicalize)' -o %t/avx2.mlir
// RUN: %{iree-compile-x86} %t/avx2.mlir --iree-llvmcpu-target-cpu=haswell --iree-hal-dump-executable-intermediates-to=%t/avx2 -o %t/avx2.vmfb
// RUN: cat %t/avx2/*.s | filecheck %s --check-prefix=AVX2
// AVX2-LABEL: {{^}}decode_attention_
// AVX2:         vpmaddubsw {{.*}}%ymm
// AVX2-LABEL: {{^}}byte_attention_
// AVX2:         vpmaddubsw {{.*}}%ymm
// RUN: llmc-opt %s --pass-pipeline='builtin.module(call-kernels{lanes=8 instruction=vpdpbusd},store-blocks-as-bytes,cse,canonicalize)' -o %t/vnni.mlir
// RUN: %{iree-compile-x86} %t/vnni.mlir --iree-llvmcpu-target-cpu=alderlake --iree-hal-dump-executable-intermediates-to=%t/vnni -o %t/vnni.vmfb
// RUN: cat %t/vnni/*.s | filecheck %s --check-prefix=VNNI
// VNNI-LABEL: {{^}}decode_attention_
// VNNI:         {vex} vpdpbusd {{.*}}%ymm
// VNNI-LABEL: {{^}}byte_attention_
// VNNI:         {vex} vpdpbusd {{.*}}%ymm
// RUN: llmc-opt %s --pass-pipeline='builtin.module(call-kernels{lanes=16 instruction=vpdpbusd},store-blocks-as-bytes,cse,canonicalize)' -o %t/avx512.mlir
// RUN: %{iree-compile-x86} %t/avx512.mlir --iree-llvmcpu-target-cpu=znver4 --iree-hal-dump-executable-intermediates-to=%t/avx512 -o %t/avx512.vmfb
// RUN: cat %t/avx512/*.s | filecheck %s --check-prefix=AVX512
// AVX512-LABEL: {{^}}decode_attention_
// AVX512:         vpdpbusd {{.*}}%zmm
// AVX512-LABEL: {{^}}byte_attention_
// AVX512:         vpdpbusd {{.*}}%zmm
// RUN: llmc-opt %s --pass-pipeline='builtin.module(call-kernels{lanes=4 instruction=smmla},store-blocks-as-bytes,cse,canonicalize)' -o %t/arm.mlir
// RUN: %{iree-compile-arm} %t/arm.mlir --iree-llvmcpu-target-cpu-features=+v8.6a,+dotprod,+fullfp16,+i8mm,+bf16 --iree-hal-dump-executable-intermediates-to=%t/arm -o %t/arm.vmfb
// RUN: cat %t/arm/*.s | filecheck %s --check-prefix=ARM
// ARM-LABEL: {{^}}decode_attention_
// ARM:         sdot v{{[0-9]+}}.4s, v{{[0-9]+}}.16b
// ARM-LABEL: {{^}}byte_attention_
// ARM:         sdot v{{[0-9]+}}.4s, v{{[0-9]+}}.16b

func.func @decode(%qkv: tensor<1x256xf32>, %k: tensor<2x?x2x?x1x!llmc.q8_0_keys>, %v: tensor<2x?x2x?x1x!llmc.q8_0_values>,
                  %start: tensor<1xi64>, %i: index)
    -> (tensor<1x128xf32>, tensor<2x?x2x?x1x!llmc.q8_0_keys>, tensor<2x?x2x?x1x!llmc.q8_0_values>) {
  %o, %nk, %nv = "llmc.decode_attention"(%qkv, %qkv, %qkv, %k, %v, %start, %i, %i, %i)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>, interleaved = 0 : i64, norm_epsilon = 0.0, norm_offset = 0.0, head_stride = 0 : i64, query_offset = 0 : i64,
      key_offset = 128 : i64, value_offset = 192 : i64, key_channels = 32 : i64, value_channels = 32 : i64, scale = 0.25, window = 0 : i64, softcap = 0.0}
     : (tensor<1x256xf32>, tensor<1x256xf32>, tensor<1x256xf32>, tensor<2x?x2x?x1x!llmc.q8_0_keys>,
        tensor<2x?x2x?x1x!llmc.q8_0_values>, tensor<1xi64>, index, index, index)
     -> (tensor<1x128xf32>, tensor<2x?x2x?x1x!llmc.q8_0_keys>, tensor<2x?x2x?x1x!llmc.q8_0_values>)
  return %o, %nk, %nv : tensor<1x128xf32>, tensor<2x?x2x?x1x!llmc.q8_0_keys>, tensor<2x?x2x?x1x!llmc.q8_0_values>
}

func.func @prefill(%q: tensor<1x4x?x32xf32>, %k: tensor<2x?x2x?x1x!llmc.q8_0_keys>,
                   %v: tensor<2x?x2x?x1x!llmc.q8_0_values>, %start: tensor<1xi64>, %i: index)
    -> tensor<1x4x?x32xf32> {
  %o = "llmc.cached_attention"(%q, %k, %v, %start, %i, %i, %i)
     {scale = 0.25, window = 5 : i64, softcap = 0.0}
     : (tensor<1x4x?x32xf32>, tensor<2x?x2x?x1x!llmc.q8_0_keys>,
        tensor<2x?x2x?x1x!llmc.q8_0_values>, tensor<1xi64>, index, index, index)
     -> tensor<1x4x?x32xf32>
  return %o : tensor<1x4x?x32xf32>
}
