// Every workgroup quantises the row and multiplies it by four panels, two at a time, block by block.
// Memory is asked for the same block of the next two, once for each line of the cache.
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:sapphirerapids' --schedule='quantized_matvec{panels=4,together=2,instruction=vpdpbusd,lanes=16}' | filecheck %s
//
// Panels that workgroups cannot share evenly would be computed as none.
// RUN: not llmc-opt %s --outline-quantized-linears='target=cpu:sapphirerapids' --schedule='quantized_matvec{panels=3,instruction=vpdpbusd,lanes=16}' 2>&1 | filecheck %s --check-prefix=UNEVEN
// UNEVEN: error: tiles differ in size
//
// Nor is there a grid of a single workgroup, or a register of any length.
// RUN: not llmc-opt %s --outline-quantized-linears='target=cpu:sapphirerapids' --schedule-kernels='target=cpu:sapphirerapids schedule="quantized_matvec{panels=8}"' 2>&1 | filecheck %s --check-prefix=WHOLE
// WHOLE: error: schedule 'quantized_matvec{panels=8 {{.*}}' leaves all to one workgroup
// RUN: not llmc-opt %s --outline-quantized-linears='target=cpu:sapphirerapids' --schedule='quantized_matvec{panels=4,instruction=vpmaddubsw,lanes=16}' 2>&1 | filecheck %s --check-prefix=LANES
// LANES: error: 'vpmaddubsw' takes no 16 lanes of 16 columns
//
// CHECK-LABEL: func.func private @quantized_matvec_0
// CHECK:         scf.for {{.*}} iter_args({{.*}}) -> (vector<32xf32>)
// CHECK:         vector.reduction <maxsi>
// CHECK:         math.round
// CHECK:         scf.forall {{.*}} step (4)
// CHECK:           scf.for {{.*}} step %c2
// CHECK:             scf.for {{.*}} iter_args({{.*}}) -> (vector<2x16xf32>)
// CHECK:               arith.addi {{.*}}, %c2
// CHECK:               memref.prefetch {{.*}}, %c64], read, locality<2>
// CHECK-NEXT:          vector.transfer_read {{.*}}, %c64], {{.*}} vector<64xi8>
// CHECK-COUNT-3:       memref.prefetch
// CHECK:               vector.transfer_read {{.*}} vector<64xi8>
// CHECK-COUNT-8:       vpdpbusd.512"{{.*}} (vector<16xi32>, vector<64xi8>, vector<64xi8>)
// CHECK-COUNT-4:       vector.transfer_read {{.*}} vector<64xi8>
// CHECK-COUNT-8:       vpdpbusd.512"
// CHECK-COUNT-2:       memref.prefetch {{.*}} memref<8x2x160xf16>
// CHECK-NOT:           memref.prefetch
// CHECK:               arith.extf {{.*}} vector<2x16xf16> to vector<2x16xf32>
// CHECK:               scf.yield {{.*}} : vector<2x16xf32>
// CHECK-NOT:     linalg.generic

// With 0 `ahead`, it is not.
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:sapphirerapids' --schedule='quantized_matvec{panels=4,together=2,ahead=0,instruction=vpdpbusd,lanes=16}' | filecheck %s --check-prefix=NONE
// NONE-NOT: memref.prefetch

// It may be asked for the blocks that come some blocks later, also those of the next panel. They
// are wanted in the second cache, or in the first.
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:sapphirerapids' --schedule='quantized_matvec{panels=4,together=1,ahead=0,blocks=3,instruction=vpdpbusd,lanes=16}' | filecheck %s --check-prefix=BLOCKS
// BLOCKS:             scf.for %[[BLOCK:.+]] = {{.*}} iter_args({{.*}}) -> (vector<16xf32>)
// BLOCKS:               %[[LATER:.+]] = arith.addi %[[BLOCK]], %c3
// BLOCKS:               memref.prefetch %{{.+}}[%{{.+}}, %[[LATER]], %c64], read, locality<2>
// BLOCKS-NEXT:          vector.transfer_read {{.*}}, %[[BLOCK]], %c64], {{.*}} vector<64xi8>
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:sapphirerapids' --schedule='quantized_matvec{panels=4,together=1,ahead=0,blocks=3,cache=3,instruction=vpdpbusd,lanes=16}' | filecheck %s --check-prefix=NEAR
// NEAR:                memref.prefetch {{.*}} read, locality<3>

// Before all else a workgroup may ask for the first blocks that it reads.
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:sapphirerapids' --schedule='quantized_matvec{panels=4,together=1,ahead=0,first=3,instruction=vpdpbusd,lanes=16}' | filecheck %s --check-prefix=FIRST
// FIRST:         scf.forall (%[[PANEL:.+]]) =
// FIRST-NOT:       vector
// FIRST:           scf.for %[[BLOCK:.+]] = %c0 to %c3 step %c1 {
// FIRST-COUNT-4:     memref.prefetch %{{.+}}[%[[PANEL]], %[[BLOCK]], {{.*}} locality<2>, {{.*}} memref<8x2x320xi8>
// FIRST:             memref.prefetch %{{.+}}[%[[PANEL]], %[[BLOCK]], %c0{{.*}} memref<8x2x160xf16>
// FIRST-NOT:         memref.prefetch
// FIRST:           scf.for {{.*}} iter_args

// Of a Zen's memory a core reads one panel at a time, and asks for what comes 5 KB later, Zen 5
// in its first cache; of others' two.
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:zen5' --schedule-kernels='target=cpu:zen5' | filecheck %s --check-prefix=ZEN
// ZEN: scf.for {{.*}} to %c16 step %c1 {
// ZEN:   memref.prefetch
// ZEN: scf.for %[[BLOCK:.+]] = {{.*}} iter_args({{.*}}) -> (vector<16xf32>)
// ZEN:   %[[LATER:.+]] = arith.addi %[[BLOCK]], %c16
// ZEN:   memref.prefetch %{{.+}}[%{{.+}}, %[[LATER]], %c64], read, locality<3>
// ZEN: scf.for %[[BLOCK:.+]] = {{.*}} iter_args({{.*}}) -> (vector<16xf32>)
// ZEN:   %[[LATER:.+]] = arith.addi %[[BLOCK]], %c4
// ZEN:   memref.prefetch %{{.+}}[%{{.+}}, %[[LATER]], %c64], read, locality<3>
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:zen4' --schedule-kernels='target=cpu:zen4' | filecheck %s --check-prefix=SECOND
// SECOND: scf.for %[[BLOCK:.+]] = {{.*}} iter_args({{.*}}) -> (vector<16xf32>)
// SECOND:   %[[LATER:.+]] = arith.addi %[[BLOCK]], %c16
// SECOND:   memref.prefetch %{{.+}}[%{{.+}}, %[[LATER]], %c64], read, locality<2>
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:sapphirerapids' --schedule-kernels='target=cpu:sapphirerapids' | filecheck %s --check-prefix=TWO
// TWO: scf.for {{.*}} iter_args({{.*}}) -> (vector<2x16xf32>)

// Of a block of 128 values, the products are scaled once.
// CHECK-LABEL: func.func private @quantized_matvec_1
// CHECK:             scf.for {{.*}} iter_args({{.*}}) -> (vector<2x16xf32>)
// CHECK-COUNT-16:      vector.transfer_read {{.*}} vector<64xi8>
// CHECK-COUNT-32:      vpdpbusd.512"{{.*}} (vector<16xi32>, vector<64xi8>, vector<64xi8>)
// CHECK-NOT:           arith.sitofp
// CHECK-COUNT-32:      vpdpbusd.512"
// CHECK-NOT:           vpdpbusd
// CHECK:               arith.sitofp {{.*}} vector<2x16xi32> to vector<2x16xf32>
// CHECK:               scf.yield {{.*}} : vector<2x16xf32>

// The parameters are chosen by the shape and the target.
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:alderlake' --schedule-kernels='target=cpu:alderlake' | filecheck %s --check-prefix=CHOSEN
// CHOSEN: vpdpbusd.256"{{.*}} (vector<8xi32>, vector<32xi8>, vector<32xi8>)

// Each CPU multiplies bytes by its own instruction.
// RUN: rm -rf %t && mkdir %t
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:sapphirerapids' --schedule-kernels='schedule="quantized_matvec{panels=4,together=2,instruction=vpdpbusd,lanes=16}"' --dispatch-kernels -o %t/avx512.mlir
// RUN: %{iree-compile-x86} %t/avx512.mlir --iree-llvmcpu-target-cpu=sapphirerapids --iree-hal-dump-executable-intermediates-to=%t/avx512 -o %t/avx512.vmfb
// RUN: cat %t/avx512/*.s | filecheck %s --check-prefix=AVX512
// AVX512-COUNT-4: prefetcht1
// AVX512-COUNT-8: vpdpbusd {{.*}}%zmm

// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:alderlake' --schedule-kernels='target=cpu:alderlake' --dispatch-kernels -o %t/vnni.mlir
// RUN: %{iree-compile-x86} %t/vnni.mlir --iree-llvmcpu-target-cpu=alderlake --iree-hal-dump-executable-intermediates-to=%t/vnni -o %t/vnni.vmfb
// RUN: cat %t/vnni/*.s | filecheck %s --check-prefix=VNNI
// VNNI: {vex} vpdpbusd {{.*}}%ymm

// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:haswell' --schedule-kernels='target=cpu:haswell' --dispatch-kernels -o %t/avx2.mlir
// RUN: %{iree-compile-x86} %t/avx2.mlir --iree-llvmcpu-target-cpu=haswell --iree-hal-dump-executable-intermediates-to=%t/avx2 -o %t/avx2.vmfb
// RUN: cat %t/avx2/*.s | filecheck %s --check-prefix=AVX2
// AVX2: vpmaddubsw {{.*}}%ymm
// AVX2: vpmaddwd {{.*}}%ymm

// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:armv8.2' --schedule-kernels='target=cpu:armv8.2' --dispatch-kernels -o %t/arm.mlir
// RUN: %{iree-compile-arm} %t/arm.mlir --iree-llvmcpu-target-cpu-features=+v8.2a,+dotprod,+fullfp16 --iree-hal-dump-executable-intermediates-to=%t/arm -o %t/arm.vmfb
// RUN: cat %t/arm/*.s | filecheck %s --check-prefix=ARM
// ARM: sdot v{{[0-9]+}}.4s, v{{[0-9]+}}.16b

func.func @layer(%x: tensor<1x64xf32>, %norm: tensor<64xf32>, %w: tensor<8x2x320xi8>) -> tensor<1x128xf32> {
  %normed = "llmc.rms_norm"(%x, %norm) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 1>}
    : (tensor<1x64xf32>, tensor<64xf32>) -> tensor<1x64xf32>
  %y = "llmc.packed_quantized_linear"(%normed, %w) {format = "q4_1", operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<1x64xf32>, tensor<8x2x320xi8>) -> tensor<1x128xf32>
  return %y : tensor<1x128xf32>
}

func.func @groups(%x: tensor<1x256xf32>, %w: tensor<8x2x1088xi8>) -> tensor<1x128xf32> {
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "int4_g128", operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<1x256xf32>, tensor<8x2x1088xi8>) -> tensor<1x128xf32>
  return %y : tensor<1x128xf32>
}
