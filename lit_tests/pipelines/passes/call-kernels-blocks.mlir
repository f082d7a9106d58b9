// RUN: llmc-opt %s --pass-pipeline='builtin.module(call-kernels{lanes=16 instruction=vpdpbusd},store-blocks-as-bytes,cse,canonicalize)' | filecheck %s
// RUN: llmc-opt %s --pass-pipeline='builtin.module(call-kernels{lanes=16 instruction=tdpbsud},store-blocks-as-bytes,cse,canonicalize)' | filecheck %s
// RUN: llmc-opt %s --pass-pipeline='builtin.module(call-kernels{lanes=16 instruction=vpmaddubsw},store-blocks-as-bytes,cse,canonicalize)' | filecheck %s --check-prefix=AVX2
// RUN: not llmc-opt %s --call-kernels=lanes=12 2>&1 | filecheck %s --check-prefix=ODD
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(call-kernels{instruction=fma})' 2>&1 | filecheck %s --check-prefix=UNKNOWN

// ODD: error: pass 'call-kernels': lanes must be a power of two, not 12

// UNKNOWN: error: option 'instruction' of pass 'call-kernels' must be one of {{.+}}, vpdpbusd, {{.+}}, plain, not 'fma'

// A cache of cells is one of bytes. New rows are rounded, keys after they are transformed. Upper
// halves of keys, made unsigned, are multiplied by rounded queries, and digits of weights by upper
// halves of values. Where a head has a weight that is high enough, the panel is put off: memory is
// asked for its lower halves, and the head's weights become 0. At last all bits of the keys of such
// panels are multiplied, and two digits of weights by all bits of their values. The parts of every
// other key head come from the last on.
// CHECK:       func.func @decode_attention_
// CHECK:         %[[IS_ODD:.+]] = arith.cmpi ne, %{{.+}}, %c0
// CHECK-NEXT:    %[[LAST:.+]] = arith.subi %{{.+}}, %c1
// CHECK-NEXT:    %[[FROM_LAST:.+]] = arith.subi %[[LAST]], %[[PART:.+]] : index
// CHECK-NEXT:    arith.select %[[IS_ODD]], %[[FROM_LAST]], %[[PART]] : index
// CHECK:         vector.shuffle %{{.+}}, %{{.+}} [1, 0, 3, 2, {{.+}} : vector<16xf32>
// CHECK:         math.round %{{.+}} : vector<16xf32>
// CHECK:         arith.fptosi %{{.+}} : vector<16xf32> to vector<16xi8>
// CHECK:         memref.prefetch
// CHECK:         %[[HALVES:.+]] = arith.xori %{{.+}} : vector<64xi8>
// CHECK:         %[[LOW:.+]] = arith.andi %[[HALVES]], %{{.+}} : vector<64xi8>
// CHECK:         %[[HIGH:.+]] = arith.shrui %[[HALVES]], %{{.+}} : vector<64xi8>
// CHECK:         llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"(%{{.+}}, %[[LOW]], %{{.+}})
// CHECK:         llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"(%{{.+}}, %[[HIGH]], %{{.+}})
// CHECK:         arith.sitofp %{{.+}} : vector<16xi32> to vector<16xf32>
// CHECK:         %[[ONE:.+]] = vector.reduction <or>, %{{.+}} : vector<16xi1> into i1
// CHECK:         %[[OTHER:.+]] = vector.reduction <or>, %{{.+}} : vector<16xi1> into i1
// CHECK:         %[[ANY:.+]] = arith.ori %[[ONE]], %[[OTHER]] : i1
// CHECK:         scf.if %[[ANY]] {
// CHECK:           memref.store %{{.+}}, %[[PUT_OFF:.+]][%{{.+}}] : memref<64xi32>
// CHECK-COUNT-8:   memref.prefetch
// CHECK:           memref.store %{{.+}} : memref<2x64xi32>
// CHECK:           %[[LEFT:.+]] = arith.select %[[WANTS:.+]], %[[NONE:.+]], %[[WEIGHTS:.+]] :
// CHECK-NEXT:      vector.store %[[LEFT]],
// CHECK-NEXT:      arith.select %[[WANTS]], %[[WEIGHTS]], %[[NONE]] :
// CHECK:         %[[VALUES:.+]] = arith.andi %{{.+}} : vector<64xi8>
// CHECK:         llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"(%{{.+}}, %[[VALUES]], %{{.+}})
// CHECK:         memref.load %[[PUT_OFF]][%{{.+}}] : memref<64xi32>
// CHECK:         %[[ALL:.+]] = arith.ori %{{.+}} : vector<64xi8>
// CHECK:         %[[KEYS:.+]] = arith.xori %[[ALL]], %{{.+}} : vector<64xi8>
// CHECK:         llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"(%{{.+}}, %[[KEYS]], %{{.+}})
// CHECK:         arith.shrui %{{.+}} : vector<16xi32>
// CHECK:         %[[ALL_BITS:.+]] = arith.ori %{{.+}} : vector<64xi8>
// CHECK:         llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"(%{{.+}}, %{{.+}}, %[[ALL_BITS]])
// CHECK-LABEL: func.func @decode(
// CHECK-SAME:      %arg1: tensor<2x?x2x?x1x17408xi8>
// CHECK:         %[[O:.+]]:5 = "flow.dispatch"({{.+}}, %arg0, %arg3, %arg1, %arg2,
// CHECK:         return %[[O]]#0, %[[O]]#2, %[[O]]#3
//
// Products with eight halves are added up in 16 bits before they are widened.
// AVX2-NOT:      llvm.x86.avx2.psign.b
// AVX2-COUNT-8:  llvm.call_intrinsic "llvm.x86.avx2.pmadd.ub.sw"
// AVX2:          llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
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

// Several tokens attend as one does, three rows of two heads together, and each row to the columns
// up to its own, at most 5.
// CHECK:       func.func @byte_attention_
// CHECK:         arith.trunci %{{.+}} : vector<32xi32> to vector<32xi8>
// CHECK:         llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"(
// CHECK:         %[[UP_TO:.+]] = arith.cmpi sgt, %{{.+}}, %[[LANES:.+]] : vector<16xi32>
// CHECK:         %[[BEFORE:.+]] = arith.cmpi sgt, %{{.+}}, %[[LANES]] : vector<16xi32>
// CHECK:         %[[WINDOW:.+]] = arith.xori %[[UP_TO]], %[[BEFORE]] : vector<16xi1>
// CHECK:         %[[SEEN:.+]] = arith.andi %[[WINDOW]], %{{.+}} : vector<16xi1>
// CHECK:         arith.select %[[SEEN]],
// CHECK-LABEL: func.func @prefill(
// CHECK:         "flow.dispatch"({{.+}}entry_points = [@byte_attention_
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
