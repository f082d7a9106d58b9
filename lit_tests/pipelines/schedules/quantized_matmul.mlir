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

// AMX multiplies sixteen rows at once, of two blocks that are unpacked before; what is left goes by
// eight rows, four, two and one without it.
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:sapphirerapids' --schedule-kernels='schedule="quantized_matmul{panels=2,rows=8,together=2,instruction=tdpbsud,lanes=16,blocks=2}"' -o %t.tiles.mlir
// RUN: filecheck %s --check-prefix=TILES --input-file=%t.tiles.mlir
// TILES-LABEL: func.func private @quantized_matmul_0
// TILES:         scf.forall {{.*}} step (2)
// TILES:           llvm.inline_asm has_side_effects "syscall"
// TILES:           "llvm.x86.ldtilecfg"
// TILES:           scf.for {{.*}} step %c16
// TILES:             scf.for {{.*}} to %c2 step %c1
// TILES:               scf.for {{.*}} to %c2 step %c1 {
// TILES:                 memref.prefetch {{.*}} : memref<8x2x320xi8>
// TILES:                 vector.store {{.*}} : memref<1x2x2x4x64xi8>, vector<64xi8>
// TILES-COUNT-7:         vector.store {{.*}} : memref<1x2x2x4x64xi8>, vector<64xi8>
// TILES-COUNT-2:       "llvm.x86.tdpbsud"
// TILES:               scf.for {{.*}} iter_args({{.*}}) -> (vector<16x16xf32>)
// TILES-NOT:         "llvm.x86.tdp
// TILES:           scf.for {{.*}} step %c16
// TILES:             scf.for {{.*}} iter_args({{.*}}) -> (vector<8x2x16xf32>)
// TILES-COUNT-128:     vpdpbusd.512"
// TILES-NOT:         "llvm.x86.tdp
// TILES:           "llvm.x86.tilerelease"
// RUN: rm -rf %t.amx && mkdir %t.amx
// RUN: llmc-opt %t.tiles.mlir --allow-unregistered-dialect --dispatch-kernels -o %t.amx/kernel.mlir
// RUN: %{iree-compile-x86} %t.amx/kernel.mlir --iree-llvmcpu-target-cpu=sapphirerapids --iree-hal-dump-executable-intermediates-to=%t.amx -o %t.amx/kernel.vmfb
// RUN: cat %t.amx/*.s | filecheck %s --check-prefix=AMX
// AMX:     tdpbsud %tmm2, %tmm1, %tmm0
// AMX:     vcvtdq2ps {{.*}}(%r{{.*}}), %zmm

// Arm's i8mm multiplies two rows at once, and what is left as without it.
// RUN: rm -rf %t && mkdir %t
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:armv8.6' --schedule-kernels='target=cpu:armv8.6' -o %t/scheduled.mlir
// RUN: filecheck %s --check-prefix=PAIRS --input-file=%t/scheduled.mlir
// PAIRS-LABEL: func.func private @quantized_matmul_0
// PAIRS:         scf.for {{.*}} iter_args({{.*}}) -> (vector<8x16xf32>)
// PAIRS-NOT:     sdot
// PAIRS-COUNT-128: smmla.v4i32.v16i8"{{.*}} (vector<4xi32>, vector<16xi8>, vector<16xi8>) -> vector<4xi32>
// PAIRS:         scf.for {{.*}} iter_args({{.*}}) -> (vector<2x16xf32>)
// PAIRS-COUNT-32: smmla.v4i32.v16i8"
// PAIRS:         scf.for {{.*}} iter_args({{.*}}) -> (vector<16xf32>)
// PAIRS-NOT:     smmla
// PAIRS-COUNT-32: sdot.v4i32.v16i8"
// RUN: llmc-opt %t/scheduled.mlir --allow-unregistered-dialect --dispatch-kernels -o %t/arm.mlir
// RUN: %{iree-compile-arm} %t/arm.mlir --iree-llvmcpu-target-cpu-features=+v8.6a,+dotprod,+fullfp16,+i8mm,+bf16 --iree-hal-dump-executable-intermediates-to=%t/arm -o %t/arm.vmfb
// RUN: cat %t/arm/*.s | filecheck %s --check-prefix=ARM
// ARM-DAG: smmla v{{[0-9]+}}.4s, v{{[0-9]+}}.16b, v{{[0-9]+}}.16b
// ARM-DAG: sdot v{{[0-9]+}}.4s, v{{[0-9]+}}.16b, v{{[0-9]+}}.{{4b|16b}}

// Before all else a workgroup asks memory for the first 512 values of a row.
// RUN: llmc-opt %s --outline-quantized-linears='target=cpu:zen4' --schedule-kernels='target=cpu:zen4' | filecheck %s --check-prefix=FIRST
// FIRST-LABEL: func.func private @quantized_matmul_0
// FIRST:         scf.forall (%[[PANEL:.+]]) =
// FIRST-NOT:       vector
// FIRST:           scf.for %[[BLOCK:.+]] = %c0 to %c16 step %c1 {
// FIRST-COUNT-4:     memref.prefetch %{{.+}}[%[[PANEL]], %[[BLOCK]], {{.*}} memref<8x2x320xi8>
// FIRST:             memref.prefetch %{{.+}}[%[[PANEL]], %[[BLOCK]], %c0{{.*}} memref<8x2x160xf16>
// FIRST-NOT:         memref.prefetch
// FIRST:           scf.for

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
