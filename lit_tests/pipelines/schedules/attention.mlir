// How attention is cut up is written on it, for the registers of the target and what the cache holds.
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --schedule-kernels='target=cpu:zen5' | filecheck %s
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --schedule-kernels='target=cpu:haswell' | filecheck %s --check-prefix=AVX2

// So it is in the script of the schedule, and of one that is named.
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --schedule-kernels='target=cpu:zen5' --dump-schedule | filecheck %s --check-prefix=SCRIPT
// SCRIPT:      {{^}}// attention{vectors=2 groups=4}{{$}}
// SCRIPT-NEXT: {{^}}//   llmc.cached_attention{{$}}
// SCRIPT:      %[[CUT:.+]] = transform.param.constant {groups = 4 : i64, vectors = 2 : i64}
// SCRIPT:      %[[ATTENTION:.+]] = transform.structured.match ops{["llmc.cached_attention", "llmc.attention_part"]}
// SCRIPT:      transform.annotate %[[ATTENTION]] "llmc.attention" = %[[CUT]]

// What is said already stays, and the kernel is cut so: as many rows a workgroup, and columns a block.
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --schedule='attention{vectors=1 groups=2}' --schedule-kernels --call-kernels='lanes=8' | filecheck %s --check-prefix=NAMED
// NAMED:       stream.executable.export
// NAMED:         arith.constant 8 : index
// NAMED:       func.func @attention_8_16_
// NAMED:         memref.alloca() : memref<64x8xf32>

// CHECK-LABEL: func.func @floats
// CHECK:         llmc.attention = {groups = 4 : i64, vectors = 2 : i64}
// AVX2-LABEL:  func.func @floats
// AVX2:          llmc.attention = {groups = 4 : i64, vectors = 1 : i64}
func.func @floats(%q: tensor<1x9x?x64xf32>, %k: tensor<30x?x3x?x64xf32>, %v: tensor<30x?x3x?x64xf32>,
                  %start: tensor<1xi64>, %i: index) -> tensor<1x9x?x64xf32> {
  %o = "llmc.cached_attention"(%q, %k, %v, %start, %i, %i, %i)
      {scale = 0.125 : f64, window = 0 : i64, softcap = 0.0 : f64}
      : (tensor<1x9x?x64xf32>, tensor<30x?x3x?x64xf32>, tensor<30x?x3x?x64xf32>, tensor<1xi64>,
         index, index, index) -> tensor<1x9x?x64xf32>
  return %o : tensor<1x9x?x64xf32>
}

// -----

// CHECK-LABEL: func.func @cells
// CHECK:         llmc.byte_attention = {rows = 24 : i64, together = 8 : i64}
// AVX2-LABEL:  func.func @cells
// AVX2:          llmc.byte_attention = {rows = 24 : i64, together = 3 : i64}
func.func @cells(%q: tensor<1x9x?x64xf32>, %k: tensor<30x?x3x?x2x!llmc.q8_0_keys>,
                 %v: tensor<30x?x3x?x2x!llmc.q8_0_values>, %start: tensor<1xi64>, %i: index)
    -> tensor<1x9x?x64xf32> {
  %o = "llmc.cached_attention"(%q, %k, %v, %start, %i, %i, %i)
      {scale = 0.125 : f64, window = 0 : i64, softcap = 0.0 : f64}
      : (tensor<1x9x?x64xf32>, tensor<30x?x3x?x2x!llmc.q8_0_keys>,
         tensor<30x?x3x?x2x!llmc.q8_0_values>, tensor<1xi64>, index, index, index)
      -> tensor<1x9x?x64xf32>
  return %o : tensor<1x9x?x64xf32>
}

// -----

// One token: by blocks of 128 columns. How many cores there are of a CPU by name is not known.
// CHECK-LABEL: func.func @decode
// CHECK:         llmc.decode_attention = {cores = 256 : i64, part = 8 : i64, together = 3 : i64, whole = 4 : i64}
func.func @decode(%row: tensor<1x960xf32>, %k: tensor<30x?x3x?x64xf32>,
                  %v: tensor<30x?x3x?x64xf32>, %start: tensor<1xi64>, %i: index)
    -> tensor<1x576xf32> {
  %o:3 = "llmc.decode_attention"(%row, %row, %row, %k, %v, %start, %i, %i, %i)
      {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>,
       head_stride = 0 : i64, query_offset = 0 : i64, key_offset = 576 : i64,
       value_offset = 768 : i64, key_channels = 64 : i64, value_channels = 64 : i64, norm_epsilon = 0.0 : f64, norm_offset = 0.0 : f64,
       interleaved = 0 : i64, scale = 0.125 : f64, window = 0 : i64, softcap = 0.0 : f64}
      : (tensor<1x960xf32>, tensor<1x960xf32>, tensor<1x960xf32>, tensor<30x?x3x?x64xf32>,
         tensor<30x?x3x?x64xf32>, tensor<1xi64>, index, index, index)
      -> (tensor<1x576xf32>, tensor<30x?x3x?x64xf32>, tensor<30x?x3x?x64xf32>)
  return %o#0 : tensor<1x576xf32>
}

// -----

// Of wide heads the stack bears fewer rows than would be multiplied at once: then so many are.
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --schedule-kernels='target=cpu:zen5' --call-kernels='lanes=16 instruction=vpdpbusd' | filecheck %s --check-prefix=WIDE
// WIDE: func.func @byte_attention_5_5_
func.func @wide(%q: tensor<1x2x?x256xf32>, %k: tensor<3x?x1x?x8x!llmc.q8_0_keys>,
                %v: tensor<3x?x1x?x8x!llmc.q8_0_values>, %start: tensor<1xi64>, %i: index)
    -> tensor<1x2x?x256xf32> {
  %o = "llmc.cached_attention"(%q, %k, %v, %start, %i, %i, %i)
      {scale = 0.125 : f64, window = 0 : i64, softcap = 0.0 : f64}
      : (tensor<1x2x?x256xf32>, tensor<3x?x1x?x8x!llmc.q8_0_keys>,
         tensor<3x?x1x?x8x!llmc.q8_0_values>, tensor<1xi64>, index, index, index)
      -> tensor<1x2x?x256xf32>
  return %o : tensor<1x2x?x256xf32>
}
