// RUN: llmc-opt %s --split-input-file --pass-pipeline='builtin.module(call-gpu-kernels,cse,canonicalize)' | filecheck %s
// RUN: llmc-opt %s --split-input-file --call-gpu-kernels=target=cuda:sm_80 | filecheck %s --check-prefix=CUDA

// One kernel turns, appends and attends, the other adds up the parts. Threads wait for each other
// once they have loaded what they share, and twice in each tile of columns. The integers of a
// buffer are those of the target.
// CHECK:       func.func @gpu_decode_attention_
// CHECK-SAME:    translation_info = #iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline workgroup_size = [64, 1, 1], {llmc.schedule = "gpu_decode_attention"}>
// CHECK:         memref<1xi32, strided<[1], offset: ?>>
// CHECK:         scf.if
// CHECK:           memref.alloc() : memref<3x64xf32, #gpu.address_space<workgroup>>
// CHECK:           gpu.barrier
// CHECK:           scf.for
// CHECK:             gpu.barrier
// CHECK:             math.exp2
// CHECK:             gpu.barrier
// CHECK-NOT:         gpu.barrier
// CHECK:       func.func @gpu_add_parts_
// CHECK-SAME:    {llmc.schedule = "gpu_add_parts"}

// CHECK-LABEL: func.func @decode
// CHECK:         %[[PARTS:.+]]:3 = "flow.dispatch"
// CHECK-SAME:      tied_operands = [-1 : index, {{[0-9]+}} : index, {{[0-9]+}} : index]
// CHECK-SAME:      -> (tensor<1x9x16x66xf32>, tensor<2x?x3x?x64xf16>, tensor<2x?x3x?x64xf16>)
// CHECK:         %[[OUT:.+]] = "flow.dispatch"({{.+}}, %[[PARTS]]#0, %arg5)
// CHECK:         return %[[OUT]], %[[PARTS]]#1, %[[PARTS]]#2

// CUDA:        memref<1xi64, strided<[1], offset: ?>>
func.func @decode(%q: tensor<1x576xf32>, %k: tensor<1x192xf32>, %v: tensor<1x192xf32>,
                  %keys: tensor<2x?x3x?x64xf16>, %values: tensor<2x?x3x?x64xf16>,
                  %start: tensor<1xi64>, %layer: index, %sequence: index, %past: index,
                  %cos: tensor<1x1x64xf32>, %sin: tensor<1x1x64xf32>)
    -> (tensor<1x576xf32>, tensor<2x?x3x?x64xf16>, tensor<2x?x3x?x64xf16>) {
  %o, %nk, %nv = "llmc.decode_attention"(%q, %k, %v, %keys, %values, %start, %layer, %sequence,
                                         %past, %cos, %sin)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0>,
      head_stride = 0 : i64, query_offset = 0 : i64, key_offset = 0 : i64, value_offset = 0 : i64,
      norm_epsilon = 0.0 : f64, norm_offset = 0.0 : f64,
      scale = 0.125 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<1x576xf32>, tensor<1x192xf32>, tensor<1x192xf32>, tensor<2x?x3x?x64xf16>,
        tensor<2x?x3x?x64xf16>, tensor<1xi64>, index, index, index, tensor<1x1x64xf32>,
        tensor<1x1x64xf32>)
     -> (tensor<1x576xf32>, tensor<2x?x3x?x64xf16>, tensor<2x?x3x?x64xf16>)
  return %o, %nk, %nv : tensor<1x576xf32>, tensor<2x?x3x?x64xf16>, tensor<2x?x3x?x64xf16>
}

// -----

// Cells have no kernel.
// CHECK-LABEL: func.func @cells
// CHECK-NEXT:    "llmc.decode_attention"
func.func @cells(%q: tensor<1x32xf32>, %keys: tensor<2x?x1x?x1x!llmc.q8_0_keys>,
                 %values: tensor<2x?x1x?x1x!llmc.q8_0_values>, %start: tensor<1xi64>, %at: index)
    -> tensor<1x32xf32> {
  %o, %nk, %nv = "llmc.decode_attention"(%q, %q, %q, %keys, %values, %start, %at, %at, %at)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>,
      head_stride = 0 : i64, query_offset = 0 : i64, key_offset = 0 : i64, value_offset = 0 : i64,
      norm_epsilon = 0.0 : f64, norm_offset = 0.0 : f64,
      scale = 0.125 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<1x32xf32>, tensor<1x32xf32>, tensor<1x32xf32>, tensor<2x?x1x?x1x!llmc.q8_0_keys>,
        tensor<2x?x1x?x1x!llmc.q8_0_values>, tensor<1xi64>, index, index, index)
     -> (tensor<1x32xf32>, tensor<2x?x1x?x1x!llmc.q8_0_keys>, tensor<2x?x1x?x1x!llmc.q8_0_values>)
  return %o : tensor<1x32xf32>
}
