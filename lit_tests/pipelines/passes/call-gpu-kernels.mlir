// RUN: llmc-opt %s --split-input-file --pass-pipeline='builtin.module(call-gpu-kernels,cse,canonicalize)' | filecheck %s
// RUN: llmc-opt %s --split-input-file --call-gpu-kernels=target=cuda:sm_80 | filecheck %s --check-prefix=CUDA

// One kernel turns, appends and attends, the other adds up the parts. Threads wait for each other
// once they have loaded what they share, and three times in each tile of columns. The integers of a
// buffer are those of the target.
// CHECK:       func.func @gpu_decode_attention_
// CHECK-SAME:    translation_info = #iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline workgroup_size = [64, 1, 1], {llmc.schedule = "gpu_decode_attention"}>
// CHECK:         memref<1xi32, strided<[1], offset: ?>>
// CHECK:         scf.if
// CHECK:           memref.alloc() : memref<3x64xf32, #gpu.address_space<workgroup>>
// CHECK:           gpu.barrier
// CHECK:           scf.for
// CHECK-COUNT-2:     gpu.barrier
// CHECK:             math.exp2
// CHECK:             gpu.barrier
// CHECK-NOT:         gpu.barrier
// CHECK:       func.func @gpu_add_parts_
// CHECK-SAME:    {llmc.schedule = "gpu_add_parts"}

// Where the token goes lies in memory, and grids depend on the size of the cache alone, so that the
// commands for one token are those for the next.
// CHECK-LABEL: func.func @decode
// CHECK:         %[[SEQUENCE:.+]] = arith.index_cast %arg7 : index to i32
// CHECK:         %[[PAST:.+]] = arith.index_cast %arg8 : index to i32
// CHECK:         %[[SLOT:.+]] = tensor.from_elements %[[SEQUENCE]], %[[PAST]] : tensor<2xi32>
// CHECK:         %[[PARTS:.+]]:3 = "flow.dispatch"
// CHECK-NOT:       %arg7
// CHECK-NOT:       %arg8
// CHECK-SAME:      tied_operands = [-1 : index, {{[0-9]+}} : index, {{[0-9]+}} : index]
// CHECK-SAME:      -> (tensor<1x9x16x66xf32>, tensor<2x?x3x?x64xf16>, tensor<2x?x3x?x64xf16>)
// CHECK:         %[[OUT:.+]] = "flow.dispatch"(%[[PARTS]]#0, %arg5, %[[SLOT]])
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
      head_stride = 0 : i64, query_offset = 0 : i64, key_offset = 0 : i64, value_offset = 0 : i64, key_channels = 64 : i64, value_channels = 64 : i64,
      interleaved = 0 : i64, norm_epsilon = 0.0 : f64, norm_offset = 0.0 : f64,
      scale = 0.125 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<1x576xf32>, tensor<1x192xf32>, tensor<1x192xf32>, tensor<2x?x3x?x64xf16>,
        tensor<2x?x3x?x64xf16>, tensor<1xi64>, index, index, index, tensor<1x1x64xf32>,
        tensor<1x1x64xf32>)
     -> (tensor<1x576xf32>, tensor<2x?x3x?x64xf16>, tensor<2x?x3x?x64xf16>)
  return %o, %nk, %nv : tensor<1x576xf32>, tensor<2x?x3x?x64xf16>, tensor<2x?x3x?x64xf16>
}

// -----

// To a prompt, one kernel turns and appends keys and values, with a workgroup for each head of a
// token; the other turns queries and attends, with one for 16 of the 96 rows that share a key
// head. Both read the row where it lies. Threads wait for each other once queries are loaded, and
// three times in each tile of columns.
// CHECK:       "stream.return"(%c32, %c3, %c1)
// CHECK:       func.func @gpu_append_
// CHECK-SAME:    {llmc.schedule = "gpu_append"}
// CHECK-NOT:     gpu.barrier
// CHECK:       "stream.return"(%c6, %c3, %c1)
// CHECK:       func.func @gpu_attention_
// CHECK-SAME:    translation_info = #iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline workgroup_size = [64, 1, 1], {llmc.schedule = "gpu_attention"}>
// CHECK:         memref.alloc() : memref<16x64xf32, #gpu.address_space<workgroup>>
// CHECK:         gpu.barrier
// CHECK:         scf.for
// CHECK-COUNT-2:   gpu.barrier
// CHECK:           math.exp2
// CHECK:           gpu.barrier
// CHECK-NOT:       gpu.barrier

// CHECK-LABEL: func.func @prefill
// CHECK-SAME:      (%[[QKV:[a-z0-9]+]]: tensor<1x32x960xf32>
// CHECK-NOT:     linalg.transpose
// CHECK:         %[[NEW:.+]]:2 = "flow.dispatch"({{.+}}, %[[QKV]],
// CHECK-SAME:      tied_operands = [{{[0-9]+}} : index, {{[0-9]+}} : index]
// CHECK-SAME:      -> (tensor<2x?x3x?x64xf16>, tensor<2x?x3x?x64xf16>)
// CHECK:         %[[OUT:.+]] = "flow.dispatch"({{.+}}, %[[QKV]], %[[NEW]]#0, %[[NEW]]#1,
// CHECK-SAME:      -> tensor<1x32x9x64xf32>
// CHECK-NOT:     llmc.
// CHECK:         return {{.+}}, %[[NEW]]#0, %[[NEW]]#1
func.func @prefill(%qkv: tensor<1x32x960xf32>, %keys: tensor<2x?x3x?x64xf16>,
                   %values: tensor<2x?x3x?x64xf16>, %start: tensor<1xi64>, %layer: index,
                   %sequence: index, %past: index, %cos: tensor<1x32x64xf32>,
                   %sin: tensor<1x32x64xf32>)
    -> (tensor<1x9x32x64xf32>, tensor<2x?x3x?x64xf16>, tensor<2x?x3x?x64xf16>) {
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %q0 = tensor.extract_slice %qkv[0, 0, 0] [1, 32, 576] [1, 1, 1] : tensor<1x32x960xf32> to tensor<1x32x576xf32>
  %k0 = tensor.extract_slice %qkv[0, 0, 576] [1, 32, 192] [1, 1, 1] : tensor<1x32x960xf32> to tensor<1x32x192xf32>
  %v0 = tensor.extract_slice %qkv[0, 0, 768] [1, 32, 192] [1, 1, 1] : tensor<1x32x960xf32> to tensor<1x32x192xf32>
  %q1 = tensor.expand_shape %q0 [[0], [1], [2, 3]] output_shape [1, 32, 9, 64] : tensor<1x32x576xf32> into tensor<1x32x9x64xf32>
  %k1 = tensor.expand_shape %k0 [[0], [1], [2, 3]] output_shape [1, 32, 3, 64] : tensor<1x32x192xf32> into tensor<1x32x3x64xf32>
  %v1 = tensor.expand_shape %v0 [[0], [1], [2, 3]] output_shape [1, 32, 3, 64] : tensor<1x32x192xf32> into tensor<1x32x3x64xf32>
  %eq = tensor.empty() : tensor<1x9x32x64xf32>
  %ek = tensor.empty() : tensor<1x3x32x64xf32>
  %q2 = linalg.transpose ins(%q1 : tensor<1x32x9x64xf32>) outs(%eq : tensor<1x9x32x64xf32>) permutation = [0, 2, 1, 3]
  %k2 = linalg.transpose ins(%k1 : tensor<1x32x3x64xf32>) outs(%ek : tensor<1x3x32x64xf32>) permutation = [0, 2, 1, 3]
  %v = linalg.transpose ins(%v1 : tensor<1x32x3x64xf32>) outs(%ek : tensor<1x3x32x64xf32>) permutation = [0, 2, 1, 3]
  %q = "llmc.rotary"(%q2, %cos, %sin) {interleaved = 0 : i64} : (tensor<1x9x32x64xf32>, tensor<1x32x64xf32>, tensor<1x32x64xf32>) -> tensor<1x9x32x64xf32>
  %k = "llmc.rotary"(%k2, %cos, %sin) {interleaved = 0 : i64} : (tensor<1x3x32x64xf32>, tensor<1x32x64xf32>, tensor<1x32x64xf32>) -> tensor<1x3x32x64xf32>
  %nk = "llmc.cache_append"(%keys, %k, %layer, %sequence, %past) : (tensor<2x?x3x?x64xf16>, tensor<1x3x32x64xf32>, index, index, index) -> tensor<2x?x3x?x64xf16>
  %nv = "llmc.cache_append"(%values, %v, %layer, %sequence, %past) : (tensor<2x?x3x?x64xf16>, tensor<1x3x32x64xf32>, index, index, index) -> tensor<2x?x3x?x64xf16>
  %columns = arith.addi %past, %c32 : index
  %kr = "llmc.cache_read"(%nk, %layer, %sequence, %c1, %columns) : (tensor<2x?x3x?x64xf16>, index, index, index, index) -> tensor<1x3x?x64xf16>
  %vr = "llmc.cache_read"(%nv, %layer, %sequence, %c1, %columns) : (tensor<2x?x3x?x64xf16>, index, index, index, index) -> tensor<1x3x?x64xf16>
  %o = "llmc.attention"(%q, %kr, %vr, %past, %start)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.125 : f64, window = 0 : i64,
      softcap = 0.0 : f64}
     : (tensor<1x9x32x64xf32>, tensor<1x3x?x64xf16>, tensor<1x3x?x64xf16>, index, tensor<1xi64>)
     -> tensor<1x9x32x64xf32>
  return %o, %nk, %nv : tensor<1x9x32x64xf32>, tensor<2x?x3x?x64xf16>, tensor<2x?x3x?x64xf16>
}

// -----

// An open number of tokens has no kernel, nor has attention to part of what is held.
// CHECK-LABEL: func.func @open
// CHECK-COUNT-2: llmc.cache_append
// CHECK:         llmc.attention
// CHECK-LABEL: func.func @part
// CHECK-COUNT-2: llmc.cache_append
// CHECK:         llmc.attention
func.func @open(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>, %keys: tensor<2x?x2x?x16xf32>,
                %values: tensor<2x?x2x?x16xf32>, %start: tensor<1xi64>, %at: index, %past: index)
    -> tensor<1x2x?x16xf32> {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %tokens = tensor.dim %q, %c2 : tensor<1x2x?x16xf32>
  %columns = arith.addi %past, %tokens : index
  %nk = "llmc.cache_append"(%keys, %k, %at, %at, %past) : (tensor<2x?x2x?x16xf32>, tensor<1x2x?x16xf32>, index, index, index) -> tensor<2x?x2x?x16xf32>
  %nv = "llmc.cache_append"(%values, %k, %at, %at, %past) : (tensor<2x?x2x?x16xf32>, tensor<1x2x?x16xf32>, index, index, index) -> tensor<2x?x2x?x16xf32>
  %kr = "llmc.cache_read"(%nk, %at, %at, %c1, %columns) : (tensor<2x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %vr = "llmc.cache_read"(%nv, %at, %at, %c1, %columns) : (tensor<2x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %o = "llmc.attention"(%q, %kr, %vr, %past, %start)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.25 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, index, tensor<1xi64>) -> tensor<1x2x?x16xf32>
  return %o : tensor<1x2x?x16xf32>
}

func.func @part(%q: tensor<1x2x8x16xf32>, %k: tensor<1x2x8x16xf32>, %keys: tensor<2x?x2x?x16xf32>,
                %values: tensor<2x?x2x?x16xf32>, %start: tensor<1xi64>, %at: index, %past: index)
    -> tensor<1x2x8x16xf32> {
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  %columns = arith.addi %past, %c7 : index
  %nk = "llmc.cache_append"(%keys, %k, %at, %at, %past) : (tensor<2x?x2x?x16xf32>, tensor<1x2x8x16xf32>, index, index, index) -> tensor<2x?x2x?x16xf32>
  %nv = "llmc.cache_append"(%values, %k, %at, %at, %past) : (tensor<2x?x2x?x16xf32>, tensor<1x2x8x16xf32>, index, index, index) -> tensor<2x?x2x?x16xf32>
  %kr = "llmc.cache_read"(%nk, %at, %at, %c1, %columns) : (tensor<2x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %vr = "llmc.cache_read"(%nv, %at, %at, %c1, %columns) : (tensor<2x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %o = "llmc.attention"(%q, %kr, %vr, %past, %start)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.25 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<1x2x8x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, index, tensor<1xi64>) -> tensor<1x2x8x16xf32>
  return %o : tensor<1x2x8x16xf32>
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
      head_stride = 0 : i64, query_offset = 0 : i64, key_offset = 0 : i64, value_offset = 0 : i64, key_channels = 32 : i64, value_channels = 32 : i64,
      interleaved = 0 : i64, norm_epsilon = 0.0 : f64, norm_offset = 0.0 : f64,
      scale = 0.125 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<1x32xf32>, tensor<1x32xf32>, tensor<1x32xf32>, tensor<2x?x1x?x1x!llmc.q8_0_keys>,
        tensor<2x?x1x?x1x!llmc.q8_0_values>, tensor<1xi64>, index, index, index)
     -> (tensor<1x32xf32>, tensor<2x?x1x?x1x!llmc.q8_0_keys>, tensor<2x?x1x?x1x!llmc.q8_0_values>)
  return %o : tensor<1x32xf32>
}
