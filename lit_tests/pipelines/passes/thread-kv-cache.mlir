// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(thread-kv-cache)' | filecheck %s
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(thread-kv-cache{element=f16})' | filecheck %s --check-prefix=NARROW
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(thread-kv-cache{element=q8_0})' | filecheck %s --check-prefix=BLOCKS
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(thread-kv-cache{element=i8})' 2>&1 | filecheck %s --check-prefix=ELEMENT

// ELEMENT: error: option 'element' of pass 'thread-kv-cache' must be one of f32, f16, q8_0, not 'i8'

// Keys are rounded where they are kept, and attention widens what it reads.
// NARROW-DAG:   ml_program.global private mutable @layer0.0.keys : tensor<2x?x2x?x8xf16> {llmc.kv_cache}
// NARROW-LABEL: func.func private @prefill.layer0(
// NARROW:         "llmc.cache_append"(%{{.+}}, %arg1, {{.+}} -> tensor<2x?x2x?x8xf16>
// NARROW:         "llmc.attention"(%arg0, {{.+}} : (tensor<1x4x?x8xf32>, tensor<1x2x?x8xf16>, tensor<1x2x?x6xf16>

// Heads are kept as f16 where whole blocks would be no smaller.
// BLOCKS-DAG:   ml_program.global private mutable @layer0.0.keys : tensor<2x?x2x?x8xf16> {llmc.kv_cache}

// One cache for keys and one for values of each kind of layer; two layers here.
// CHECK-DAG: ml_program.global private mutable @layer0.0.keys : tensor<2x?x2x?x8xf32> {llmc.kv_cache}
// CHECK-DAG: ml_program.global private mutable @layer0.0.values : tensor<2x?x2x?x6xf32> {llmc.kv_cache}

// A layer learns where each sequence starts, which sequence is first, and how many columns are held.
// CHECK-LABEL: func.func private @prefill.layer0(
// CHECK-SAME:    %[[Q:arg0]]: tensor<1x4x?x8xf32>, %[[K:arg1]]: tensor<1x2x?x8xf32>, %[[V:arg2]]: tensor<1x2x?x6xf32>, %[[LAYER:arg3]]: index,
// CHECK-SAME:    %[[START:arg4]]: tensor<1xi64>, %[[SEQUENCE:arg5]]: index, %[[PAST:arg6]]: index)
func.func private @prefill.layer0(%q: tensor<1x4x?x8xf32>, %k: tensor<1x2x?x8xf32>,
                                  %v: tensor<1x2x?x6xf32>, %layer: index) -> tensor<1x4x?x6xf32>
    attributes {llmc.layer_argument = 3 : index} {
  // The new keys go to columns `past` on; attention reads all columns up to their end.
  // CHECK-NEXT: %[[OLD:.+]] = ml_program.global_load @layer0.0.keys
  // CHECK-NEXT: %[[NEW:.+]] = "llmc.cache_append"(%[[OLD]], %[[K]], %[[LAYER]], %[[SEQUENCE]], %[[PAST]])
  // CHECK:      %[[TOKENS:.+]] = tensor.dim %[[K]]
  // CHECK-NEXT: %[[END:.+]] = arith.addi %[[PAST]], %[[TOKENS]]
  // CHECK:      %[[KEYS:.+]] = "llmc.cache_read"(%[[NEW]], %[[LAYER]], %[[SEQUENCE]], %{{.+}}, %[[END]])
  // CHECK:      %[[VALUES:.+]] = "llmc.cache_read"({{.+}}) : {{.+}} -> tensor<1x2x?x6xf32>
  // CHECK-NEXT: "llmc.attention"(%[[Q]], %[[KEYS]], %[[VALUES]], %[[PAST]], %[[START]])
  // CHECK-SAME: scale = 5.000000e-01 : f64, softcap = 2.000000e+00 : f64, window = 3 : i64
  // CHECK-NEXT: ml_program.global_store @layer0.0.keys = %[[NEW]]
  %o = "llmc.attention"(%q, %k, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>,
      scale = 0.5, window = 3 : i64, softcap = 2.0}
     : (tensor<1x4x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x6xf32>) -> tensor<1x4x?x6xf32>
  return %o : tensor<1x4x?x6xf32>
}

// Positions follow from the columns, but are never negative.
// CHECK-LABEL: func.func @prefill(
// CHECK-SAME:    %[[T:arg0]]: tensor<1x?xi64>, %[[START:arg1]]: tensor<1xi64>, %arg2: i64, %arg3: i64)
// CHECK-DAG:     %[[SEQUENCE:.+]] = arith.index_cast %arg2 : i64 to index
// CHECK-DAG:     %[[PAST:.+]] = arith.index_cast %arg3 : i64 to index
// CHECK:         %[[POSITIONS:.+]] = linalg.generic {{.+}} ins(%[[T]], %[[START]] :
// CHECK:           arith.addi %[[PAST]], %{{.+}} : index
// CHECK:           arith.subi
// CHECK:           arith.maxsi
// CHECK:         %[[O:.+]] = call @prefill.layer0({{.+}}, %[[START]], %[[SEQUENCE]], %[[PAST]])
// CHECK:         call @prefill.layer0({{.+}}, %[[START]], %[[SEQUENCE]], %[[PAST]])
// CHECK:         return %[[O]], %[[POSITIONS]]
func.func @prefill(%tokens: tensor<1x?xi64>, %positions: tensor<1x?xi64>)
    -> (tensor<1x4x?x6xf32>, tensor<1x?xi64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %tokens, %c1 : tensor<1x?xi64>
  %q = tensor.empty(%n) : tensor<1x4x?x8xf32>
  %k = tensor.empty(%n) : tensor<1x2x?x8xf32>
  %v = tensor.empty(%n) : tensor<1x2x?x6xf32>
  %0 = call @prefill.layer0(%q, %k, %v, %c0)
     : (tensor<1x4x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x6xf32>, index) -> tensor<1x4x?x6xf32>
  %1 = call @prefill.layer0(%q, %k, %v, %c1)
     : (tensor<1x4x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x6xf32>, index) -> tensor<1x4x?x6xf32>
  return %0, %positions : tensor<1x4x?x6xf32>, tensor<1x?xi64>
}

// CHECK-LABEL: func.func @reset(%arg0: i64, %arg1: i64)
// CHECK:         %[[KEYS:.+]] = "llmc.cache_allocate"(%[[SEQUENCES:.+]], %[[CAPACITY:.+]]) : (index, index) -> tensor<2x?x2x?x8xf32>
// CHECK-NEXT:    ml_program.global_store @layer0.0.keys = %[[KEYS]]
// CHECK-NEXT:    %[[VALUES:.+]] = "llmc.cache_allocate"(%[[SEQUENCES]], %[[CAPACITY]]) : (index, index) -> tensor<2x?x2x?x6xf32>
// CHECK-NEXT:    ml_program.global_store @layer0.0.values = %[[VALUES]]

// -----

// Variants share their caches, one with a batch of open size here.
// CHECK-COUNT-2: ml_program.global private mutable
// CHECK-NOT:     ml_program.global private
// CHECK-LABEL:   func.func private @decode.layer0
// CHECK:           "llmc.cache_read"({{.+}}) : (tensor<1x?x2x?x8xf32>, {{.+}}) -> tensor<1x2x?x8xf32>
func.func private @decode.layer0(%q: tensor<1x2x1x8xf32>, %layer: index) -> tensor<1x2x1x8xf32>
    attributes {llmc.layer_argument = 1 : index} {
  %o = "llmc.attention"(%q, %q, %q) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>,
      scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x2x1x8xf32>, tensor<1x2x1x8xf32>, tensor<1x2x1x8xf32>) -> tensor<1x2x1x8xf32>
  return %o : tensor<1x2x1x8xf32>
}
// CHECK-LABEL: func.func private @decode_batch.layer0(
// CHECK-SAME:    %arg0: tensor<?x2x1x8xf32>, %arg1: index, %arg2: tensor<?xi64>
// CHECK:         %[[BATCH:.+]] = tensor.dim %arg0
// CHECK:         "llmc.cache_read"(%{{.+}}, %arg1, %arg3, %[[BATCH]], %{{.+}}) : (tensor<1x?x2x?x8xf32>, {{.+}}) -> tensor<?x2x?x8xf32>
func.func private @decode_batch.layer0(%q: tensor<?x2x1x8xf32>, %layer: index) -> tensor<?x2x1x8xf32>
    attributes {llmc.layer_argument = 1 : index} {
  %o = "llmc.attention"(%q, %q, %q) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>,
      scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<?x2x1x8xf32>, tensor<?x2x1x8xf32>, tensor<?x2x1x8xf32>) -> tensor<?x2x1x8xf32>
  return %o : tensor<?x2x1x8xf32>
}
func.func @decode(%tokens: tensor<1x1xi64>, %positions: tensor<1x1xi64>) -> tensor<1x2x1x8xf32> {
  %c0 = arith.constant 0 : index
  %q = tensor.empty() : tensor<1x2x1x8xf32>
  %o = call @decode.layer0(%q, %c0) : (tensor<1x2x1x8xf32>, index) -> tensor<1x2x1x8xf32>
  return %o : tensor<1x2x1x8xf32>
}
func.func @decode_batch(%tokens: tensor<?x1xi64>, %positions: tensor<?x1xi64>) -> tensor<?x2x1x8xf32> {
  %c0 = arith.constant 0 : index
  %batch = tensor.dim %tokens, %c0 : tensor<?x1xi64>
  %q = tensor.empty(%batch) : tensor<?x2x1x8xf32>
  %o = call @decode_batch.layer0(%q, %c0) : (tensor<?x2x1x8xf32>, index) -> tensor<?x2x1x8xf32>
  return %o : tensor<?x2x1x8xf32>
}

// -----

// Heads of 48 channels, which are no whole blocks, take two nevertheless.
// CHECK:        ml_program.global private mutable @odd0.0.keys : tensor<1x?x2x?x48xf32>
// BLOCKS:       ml_program.global private mutable @odd0.0.keys : tensor<1x?x2x?x2x!llmc.q8_0_keys>
// BLOCKS-LABEL: func.func private @decode.odd0
// BLOCKS:         "llmc.cache_read"({{.+}} : (tensor<1x?x2x?x2x!llmc.q8_0_keys>, {{.+}}) -> tensor<1x2x?x48xf32>
func.func private @decode.odd0(%q: tensor<1x2x1x48xf32>, %layer: index) -> tensor<1x2x1x48xf32>
    attributes {llmc.layer_argument = 1 : index} {
  %o = "llmc.attention"(%q, %q, %q) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>,
      scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x2x1x48xf32>, tensor<1x2x1x48xf32>, tensor<1x2x1x48xf32>) -> tensor<1x2x1x48xf32>
  return %o : tensor<1x2x1x48xf32>
}
func.func @decode(%tokens: tensor<1x1xi64>, %positions: tensor<1x1xi64>) -> tensor<1x2x1x48xf32> {
  %c0 = arith.constant 0 : index
  %q = tensor.empty() : tensor<1x2x1x48xf32>
  %o = call @decode.odd0(%q, %c0) : (tensor<1x2x1x48xf32>, index) -> tensor<1x2x1x48xf32>
  return %o : tensor<1x2x1x48xf32>
}

// -----

// expected-error@+1 {{layer function has no 'llmc.layer_argument': run number-layers first}}
func.func private @decode.layer0(%q: tensor<1x4x1x8xf32>) -> tensor<1x4x1x8xf32> {
  return %q : tensor<1x4x1x8xf32>
}

// -----

// expected-error@+1 {{layer function must be named VARIANT.KIND, as in prefill.layer0}}
func.func private @helper(%q: tensor<1x4x1x8xf32>, %layer: index) -> tensor<1x4x1x8xf32>
    attributes {llmc.layer_argument = 1 : index} {
  return %q : tensor<1x4x1x8xf32>
}

// -----

func.func @decode(%tokens: tensor<1x1xi64>, %positions: tensor<1x1xi64>) -> tensor<1x4x1x8xf32> {
  %q = tensor.empty() : tensor<1x4x1x8xf32>
  // expected-error@+1 {{attention outside of a layer has no cache}}
  %o = "llmc.attention"(%q, %q, %q) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>,
      scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x4x1x8xf32>, tensor<1x4x1x8xf32>, tensor<1x4x1x8xf32>) -> tensor<1x4x1x8xf32>
  return %o : tensor<1x4x1x8xf32>
}

// -----

// expected-error@+1 {{public function must take tokens and positions}}
func.func @decode(%tokens: tensor<1x1xi64>) -> tensor<1x1xi64> {
  return %tokens : tensor<1x1xi64>
}

// -----

// Of cells of 512 columns the values are read.
// BLOCKS-DAG:   ml_program.global private mutable @wide0.0.keys : tensor<1x?x2x?x2x!llmc.q8_0_keys> {llmc.kv_cache}
// BLOCKS-DAG:   ml_program.global private mutable @wide0.0.values : tensor<1x?x2x?x1x!llmc.q8_0_values> {llmc.kv_cache}
// BLOCKS-LABEL: func.func private @decode.wide0(
// BLOCKS:         "llmc.cache_append"(%{{.+}}, %arg1, {{.+}} -> tensor<1x?x2x?x2x!llmc.q8_0_keys>
// BLOCKS:         "llmc.attention"(%arg0, {{.+}} : (tensor<1x4x1x64xf32>, tensor<1x2x?x64xf32>, tensor<1x2x?x32xf32>
// BLOCKS-LABEL: func.func @reset(
// BLOCKS:         %[[PANELS:.+]] = arith.ceildivui %{{.+}}, %c512
// BLOCKS:         "llmc.cache_allocate"(%{{.+}}, %[[PANELS]])
func.func private @decode.wide0(%q: tensor<1x4x1x64xf32>, %k: tensor<1x2x1x64xf32>,
                                 %v: tensor<1x2x1x32xf32>, %layer: index) -> tensor<1x4x1x32xf32>
    attributes {llmc.layer_argument = 3 : index} {
  %o = "llmc.attention"(%q, %k, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>,
      scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x4x1x64xf32>, tensor<1x2x1x64xf32>, tensor<1x2x1x32xf32>) -> tensor<1x4x1x32xf32>
  return %o : tensor<1x4x1x32xf32>
}

func.func @decode(%tokens: tensor<1x1xi64>, %positions: tensor<1x1xi64>) -> tensor<1x4x1x32xf32> {
  %c0 = arith.constant 0 : index
  %q = tensor.empty() : tensor<1x4x1x64xf32>
  %k = tensor.empty() : tensor<1x2x1x64xf32>
  %v = tensor.empty() : tensor<1x2x1x32xf32>
  %o = call @decode.wide0(%q, %k, %v, %c0)
     : (tensor<1x4x1x64xf32>, tensor<1x2x1x64xf32>, tensor<1x2x1x32xf32>, index) -> tensor<1x4x1x32xf32>
  return %o : tensor<1x4x1x32xf32>
}
