// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(fuse-decode-attention,cse,canonicalize)' | filecheck %s

// Query, key and value are parts of one row, which is neither cut up nor copied; the tables turn
// query and key; the cache is appended to and read in the same operation.
// CHECK-LABEL: func.func @fused
// CHECK-SAME:      (%[[QKV:.+]]: tensor<?x1x129xf32>, %[[COS:.+]]: tensor<?x1x16xf32>, %[[SIN:.+]]: tensor<?x1x16xf32>, %[[START:.+]]: tensor<?xi64>, %[[LAYER:.+]]: index, %[[SEQUENCE:.+]]: index, %[[PAST:.+]]: index)
// CHECK-DAG:     %[[ROW:.+]] = tensor.collapse_shape %[[QKV]] {{\[\[}}0], [1, 2]] : tensor<?x1x129xf32> into tensor<?x129xf32>
// CHECK-DAG:     %[[KEYS:.+]] = ml_program.global_load @keys
// CHECK-DAG:     %[[VALUES:.+]] = ml_program.global_load @values
// CHECK:         %[[O:.+]]:3 = "llmc.decode_attention"(%[[ROW]], %[[ROW]], %[[ROW]], %[[KEYS]], %[[VALUES]], %[[START]], %[[LAYER]], %[[SEQUENCE]], %[[PAST]], %[[COS]], %[[SIN]])
// CHECK-SAME:      head_stride = 0
// CHECK-SAME:      interleaved = 0
// CHECK-SAME:      key_offset = 65
// CHECK-SAME:      query_offset = 1
// CHECK-SAME:      softcap = 3.0
// CHECK-SAME:      value_offset = 97
// CHECK-SAME:      window = 8
// CHECK:         tensor.expand_shape %[[O]]#0 {{.+}} into tensor<?x4x1x16xf32>
// CHECK:         ml_program.global_store @keys = %[[O]]#1
// CHECK:         ml_program.global_store @values = %[[O]]#2
// CHECK-NOT:     llmc.
// CHECK:         return
ml_program.global private mutable @keys : tensor<3x?x2x?x16xf32>
ml_program.global private mutable @values : tensor<3x?x2x?x16xf32>

func.func @fused(%qkv: tensor<?x1x129xf32>, %cos: tensor<?x1x16xf32>, %sin: tensor<?x1x16xf32>,
                 %start: tensor<?xi64>, %layer: index, %sequence: index, %past: index)
    -> tensor<?x4x1x16xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %qkv, %c0 : tensor<?x1x129xf32>
  %q0 = tensor.extract_slice %qkv[0, 0, 1] [%b, 1, 64] [1, 1, 1] : tensor<?x1x129xf32> to tensor<?x1x64xf32>
  %k0 = tensor.extract_slice %qkv[0, 0, 65] [%b, 1, 32] [1, 1, 1] : tensor<?x1x129xf32> to tensor<?x1x32xf32>
  %v0 = tensor.extract_slice %qkv[0, 0, 97] [%b, 1, 32] [1, 1, 1] : tensor<?x1x129xf32> to tensor<?x1x32xf32>
  %q1 = tensor.expand_shape %q0 [[0], [1], [2, 3]] output_shape [%b, 1, 4, 16] : tensor<?x1x64xf32> into tensor<?x1x4x16xf32>
  %k1 = tensor.expand_shape %k0 [[0], [1], [2, 3]] output_shape [%b, 1, 2, 16] : tensor<?x1x32xf32> into tensor<?x1x2x16xf32>
  %v1 = tensor.expand_shape %v0 [[0], [1], [2, 3]] output_shape [%b, 1, 2, 16] : tensor<?x1x32xf32> into tensor<?x1x2x16xf32>
  %eq = tensor.empty(%b) : tensor<?x4x1x16xf32>
  %ek = tensor.empty(%b) : tensor<?x2x1x16xf32>
  %q2 = linalg.transpose ins(%q1 : tensor<?x1x4x16xf32>) outs(%eq : tensor<?x4x1x16xf32>) permutation = [0, 2, 1, 3]
  %k2 = linalg.transpose ins(%k1 : tensor<?x1x2x16xf32>) outs(%ek : tensor<?x2x1x16xf32>) permutation = [0, 2, 1, 3]
  %v2 = linalg.transpose ins(%v1 : tensor<?x1x2x16xf32>) outs(%ek : tensor<?x2x1x16xf32>) permutation = [0, 2, 1, 3]
  %q = "llmc.rotary"(%q2, %cos, %sin) {interleaved = 0 : i64} : (tensor<?x4x1x16xf32>, tensor<?x1x16xf32>, tensor<?x1x16xf32>) -> tensor<?x4x1x16xf32>
  %k = "llmc.rotary"(%k2, %cos, %sin) {interleaved = 0 : i64} : (tensor<?x2x1x16xf32>, tensor<?x1x16xf32>, tensor<?x1x16xf32>) -> tensor<?x2x1x16xf32>
  %keys = ml_program.global_load @keys : tensor<3x?x2x?x16xf32>
  %values = ml_program.global_load @values : tensor<3x?x2x?x16xf32>
  %columns = arith.addi %past, %c1 : index
  %keys1 = "llmc.cache_append"(%keys, %k, %layer, %sequence, %past) : (tensor<3x?x2x?x16xf32>, tensor<?x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %values1 = "llmc.cache_append"(%values, %v2, %layer, %sequence, %past) : (tensor<3x?x2x?x16xf32>, tensor<?x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %kr = "llmc.cache_read"(%keys1, %layer, %sequence, %b, %columns) : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<?x2x?x16xf32>
  %vr = "llmc.cache_read"(%values1, %layer, %sequence, %b, %columns) : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<?x2x?x16xf32>
  %o = "llmc.attention"(%q, %kr, %vr, %past, %start)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.25 : f64, window = 8 : i64, softcap = 3.0 : f64}
     : (tensor<?x4x1x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>, index, tensor<?xi64>) -> tensor<?x4x1x16xf32>
  ml_program.global_store @keys = %keys1 : tensor<3x?x2x?x16xf32>
  ml_program.global_store @values = %values1 : tensor<3x?x2x?x16xf32>
  return %o : tensor<?x4x1x16xf32>
}

// -----

// The norms of query and key go along where both are by the weights of the cache's layer, before
// heads change places with tokens or after.
// CHECK-LABEL: func.func @normed
// CHECK-SAME:      (%[[Q:.+]]: tensor<1x1x64xf32>, %[[K:.+]]: tensor<1x2x1x16xf32>, %[[V:.+]]: tensor<1x2x1x16xf32>, %[[QN:.+]]: tensor<3x16xf32>, %[[KN:.+]]: tensor<3x16xf32>,
// CHECK:         %[[ROW:.+]] = tensor.collapse_shape %[[Q]]
// CHECK:         %[[KROW:.+]] = tensor.collapse_shape %[[K]]
// CHECK:         "llmc.decode_attention"(%[[ROW]], %[[KROW]], {{.+}}, %[[QN]], %[[KN]])
// CHECK-SAME:      norm_epsilon = {{9.99.+}} : f64, norm_offset = 1.000000e+00 : f64
// CHECK-NOT:     llmc.rms_norm
// CHECK:         return
//
// Weights of another layer are another matter.
// CHECK-LABEL: func.func @of_another_layer
// CHECK-COUNT-2: llmc.rms_norm
// CHECK:         "llmc.decode_attention"
// CHECK-SAME:      array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>
ml_program.global private mutable @keys : tensor<3x?x2x?x16xf32>
ml_program.global private mutable @values : tensor<3x?x2x?x16xf32>

func.func @normed(%q0: tensor<1x1x64xf32>, %k0: tensor<1x2x1x16xf32>, %v: tensor<1x2x1x16xf32>, %qn: tensor<3x16xf32>, %kn: tensor<3x16xf32>,
                  %start: tensor<1xi64>, %layer: index, %other: index, %sequence: index, %past: index)
    -> tensor<1x4x1x16xf32> {
  %c1 = arith.constant 1 : index
  %qw = tensor.extract_slice %qn[%layer, 0] [1, 16] [1, 1] : tensor<3x16xf32> to tensor<16xf32>
  %kw = tensor.extract_slice %kn[%layer, 0] [1, 16] [1, 1] : tensor<3x16xf32> to tensor<16xf32>
  %q1 = tensor.expand_shape %q0 [[0], [1], [2, 3]] output_shape [1, 1, 4, 16] : tensor<1x1x64xf32> into tensor<1x1x4x16xf32>
  %q2 = "llmc.rms_norm"(%q1, %qw) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-6, offset = 1.0} : (tensor<1x1x4x16xf32>, tensor<16xf32>) -> tensor<1x1x4x16xf32>
  %e = tensor.empty() : tensor<1x4x1x16xf32>
  %q = linalg.transpose ins(%q2 : tensor<1x1x4x16xf32>) outs(%e : tensor<1x4x1x16xf32>) permutation = [0, 2, 1, 3]
  %k = "llmc.rms_norm"(%k0, %kw) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-6, offset = 1.0} : (tensor<1x2x1x16xf32>, tensor<16xf32>) -> tensor<1x2x1x16xf32>
  %keys = ml_program.global_load @keys : tensor<3x?x2x?x16xf32>
  %values = ml_program.global_load @values : tensor<3x?x2x?x16xf32>
  %columns = arith.addi %past, %c1 : index
  %keys1 = "llmc.cache_append"(%keys, %k, %layer, %sequence, %past) : (tensor<3x?x2x?x16xf32>, tensor<1x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %values1 = "llmc.cache_append"(%values, %v, %layer, %sequence, %past) : (tensor<3x?x2x?x16xf32>, tensor<1x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %kr = "llmc.cache_read"(%keys1, %layer, %sequence, %c1, %columns) : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %vr = "llmc.cache_read"(%values1, %layer, %sequence, %c1, %columns) : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %o = "llmc.attention"(%q, %kr, %vr, %past, %start)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.25 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<1x4x1x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, index, tensor<1xi64>) -> tensor<1x4x1x16xf32>
  ml_program.global_store @keys = %keys1 : tensor<3x?x2x?x16xf32>
  ml_program.global_store @values = %values1 : tensor<3x?x2x?x16xf32>
  return %o : tensor<1x4x1x16xf32>
}

func.func @of_another_layer(%q0: tensor<1x1x64xf32>, %k0: tensor<1x2x1x16xf32>, %v: tensor<1x2x1x16xf32>, %qn: tensor<3x16xf32>, %kn: tensor<3x16xf32>,
                  %start: tensor<1xi64>, %layer: index, %other: index, %sequence: index, %past: index)
    -> tensor<1x4x1x16xf32> {
  %c1 = arith.constant 1 : index
  %qw = tensor.extract_slice %qn[%other, 0] [1, 16] [1, 1] : tensor<3x16xf32> to tensor<16xf32>
  %kw = tensor.extract_slice %kn[%layer, 0] [1, 16] [1, 1] : tensor<3x16xf32> to tensor<16xf32>
  %q1 = tensor.expand_shape %q0 [[0], [1], [2, 3]] output_shape [1, 1, 4, 16] : tensor<1x1x64xf32> into tensor<1x1x4x16xf32>
  %q2 = "llmc.rms_norm"(%q1, %qw) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-6, offset = 1.0} : (tensor<1x1x4x16xf32>, tensor<16xf32>) -> tensor<1x1x4x16xf32>
  %e = tensor.empty() : tensor<1x4x1x16xf32>
  %q = linalg.transpose ins(%q2 : tensor<1x1x4x16xf32>) outs(%e : tensor<1x4x1x16xf32>) permutation = [0, 2, 1, 3]
  %k = "llmc.rms_norm"(%k0, %kw) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-6, offset = 1.0} : (tensor<1x2x1x16xf32>, tensor<16xf32>) -> tensor<1x2x1x16xf32>
  %keys = ml_program.global_load @keys : tensor<3x?x2x?x16xf32>
  %values = ml_program.global_load @values : tensor<3x?x2x?x16xf32>
  %columns = arith.addi %past, %c1 : index
  %keys1 = "llmc.cache_append"(%keys, %k, %layer, %sequence, %past) : (tensor<3x?x2x?x16xf32>, tensor<1x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %values1 = "llmc.cache_append"(%values, %v, %layer, %sequence, %past) : (tensor<3x?x2x?x16xf32>, tensor<1x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %kr = "llmc.cache_read"(%keys1, %layer, %sequence, %c1, %columns) : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %vr = "llmc.cache_read"(%values1, %layer, %sequence, %c1, %columns) : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %o = "llmc.attention"(%q, %kr, %vr, %past, %start)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.25 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<1x4x1x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, index, tensor<1xi64>) -> tensor<1x4x1x16xf32>
  ml_program.global_store @keys = %keys1 : tensor<3x?x2x?x16xf32>
  ml_program.global_store @values = %values1 : tensor<3x?x2x?x16xf32>
  return %o : tensor<1x4x1x16xf32>
}

// -----

// What is not a row's parts is a row of its own. A key that alone is turned stays so outside.
// CHECK-LABEL: func.func @separate
// CHECK:         %[[TURNED:.+]] = "llmc.rotary"(%arg1
// CHECK-DAG:     %[[Q:.+]] = tensor.collapse_shape %arg0 {{.+}} into tensor<1x64xf32>
// CHECK-DAG:     %[[K:.+]] = tensor.collapse_shape %[[TURNED]] {{.+}} into tensor<1x32xf32>
// CHECK-DAG:     %[[V:.+]] = tensor.collapse_shape %arg2 {{.+}} into tensor<1x16xf32>
// CHECK:         "llmc.decode_attention"(%[[Q]], %[[K]], %[[V]], %arg3, %arg4, %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}) {head_stride = 0 : i64, interleaved = 0 : i64, key_channels = 16 : i64, key_offset = 0 : i64, {{.+}} operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>, query_offset = 0 : i64, {{.+}} value_channels = 8 : i64
// CHECK-SAME:      -> (tensor<1x32xf32>, tensor<3x?x2x?x16xf16>, tensor<3x?x2x?x8xf16>)
func.func @separate(%q: tensor<1x4x1x16xf32>, %k: tensor<1x2x1x16xf32>, %v: tensor<1x2x1x8xf32>,
                    %keys: tensor<3x?x2x?x16xf16>, %values: tensor<3x?x2x?x8xf16>, %cos: tensor<1x1x16xf32>,
                    %start: tensor<1xi64>, %layer: index, %sequence: index, %past: index)
    -> (tensor<1x4x1x8xf32>, tensor<3x?x2x?x16xf16>, tensor<3x?x2x?x8xf16>) {
  %c1 = arith.constant 1 : index
  %turned = "llmc.rotary"(%k, %cos, %cos) {interleaved = 0 : i64} : (tensor<1x2x1x16xf32>, tensor<1x1x16xf32>, tensor<1x1x16xf32>) -> tensor<1x2x1x16xf32>
  %columns = arith.addi %past, %c1 : index
  %keys1 = "llmc.cache_append"(%keys, %turned, %layer, %sequence, %past) : (tensor<3x?x2x?x16xf16>, tensor<1x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf16>
  %values1 = "llmc.cache_append"(%values, %v, %layer, %sequence, %past) : (tensor<3x?x2x?x8xf16>, tensor<1x2x1x8xf32>, index, index, index) -> tensor<3x?x2x?x8xf16>
  %kr = "llmc.cache_read"(%keys1, %layer, %sequence, %c1, %columns) : (tensor<3x?x2x?x16xf16>, index, index, index, index) -> tensor<1x2x?x16xf16>
  %vr = "llmc.cache_read"(%values1, %layer, %sequence, %c1, %columns) : (tensor<3x?x2x?x8xf16>, index, index, index, index) -> tensor<1x2x?x8xf16>
  %o = "llmc.attention"(%q, %kr, %vr, %past, %start)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.25 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<1x4x1x16xf32>, tensor<1x2x?x16xf16>, tensor<1x2x?x8xf16>, index, tensor<1xi64>) -> tensor<1x4x1x8xf32>
  return %o, %keys1, %values1 : tensor<1x4x1x8xf32>, tensor<3x?x2x?x16xf16>, tensor<3x?x2x?x8xf16>
}

// -----

// A row that is cut from several of one sequence, or of a tensor of more dimensions, is its own.
// CHECK-LABEL: func.func @of_several
// CHECK:         %[[CUT:.+]] = tensor.extract_slice %arg0
// CHECK:         %[[ROW:.+]] = tensor.collapse_shape %[[CUT]]
// CHECK:         "llmc.decode_attention"(%[[ROW]], {{.+}} query_offset = 0
func.func @of_several(%rows: tensor<1x2x96xf32>, %k: tensor<1x2x1x16xf32>, %keys: tensor<3x?x2x?x16xf32>,
    %values: tensor<3x?x2x?x16xf32>, %start: tensor<1xi64>, %layer: index, %sequence: index, %past: index)
    -> (tensor<1x4x1x16xf32>, tensor<3x?x2x?x16xf32>, tensor<3x?x2x?x16xf32>) {
  %c1 = arith.constant 1 : index
  %row = tensor.extract_slice %rows[0, 0, 8] [1, 1, 64] [1, 1, 1] : tensor<1x2x96xf32> to tensor<1x1x64xf32>
  %heads = tensor.expand_shape %row [[0], [1], [2, 3]] output_shape [1, 1, 4, 16] : tensor<1x1x64xf32> into tensor<1x1x4x16xf32>
  %room = tensor.empty() : tensor<1x4x1x16xf32>
  %q = linalg.transpose ins(%heads : tensor<1x1x4x16xf32>) outs(%room : tensor<1x4x1x16xf32>) permutation = [0, 2, 1, 3]
  %columns = arith.addi %past, %c1 : index
  %keys1 = "llmc.cache_append"(%keys, %k, %layer, %sequence, %past) : (tensor<3x?x2x?x16xf32>, tensor<1x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %values1 = "llmc.cache_append"(%values, %k, %layer, %sequence, %past) : (tensor<3x?x2x?x16xf32>, tensor<1x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %kr = "llmc.cache_read"(%keys1, %layer, %sequence, %c1, %columns) : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %vr = "llmc.cache_read"(%values1, %layer, %sequence, %c1, %columns) : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %o = "llmc.attention"(%q, %kr, %vr, %past, %start)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.25 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<1x4x1x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, index, tensor<1xi64>) -> tensor<1x4x1x16xf32>
  return %o, %keys1, %values1 : tensor<1x4x1x16xf32>, tensor<3x?x2x?x16xf32>, tensor<3x?x2x?x16xf32>
}

// CHECK-LABEL: func.func @of_more
// CHECK:         %[[CUT:.+]] = tensor.extract_slice %arg0
// CHECK:         %[[ROW:.+]] = tensor.collapse_shape %[[CUT]]
// CHECK:         "llmc.decode_attention"(%[[ROW]], {{.+}} query_offset = 0
func.func @of_more(%rows: tensor<1x2x1x96xf32>, %k: tensor<1x2x1x16xf32>, %keys: tensor<3x?x2x?x16xf32>,
    %values: tensor<3x?x2x?x16xf32>, %start: tensor<1xi64>, %layer: index, %sequence: index, %past: index)
    -> (tensor<1x4x1x16xf32>, tensor<3x?x2x?x16xf32>, tensor<3x?x2x?x16xf32>) {
  %c1 = arith.constant 1 : index
  %row = tensor.extract_slice %rows[0, 1, 0, 8] [1, 1, 1, 64] [1, 1, 1, 1] : tensor<1x2x1x96xf32> to tensor<1x1x64xf32>
  %heads = tensor.expand_shape %row [[0], [1], [2, 3]] output_shape [1, 1, 4, 16] : tensor<1x1x64xf32> into tensor<1x1x4x16xf32>
  %room = tensor.empty() : tensor<1x4x1x16xf32>
  %q = linalg.transpose ins(%heads : tensor<1x1x4x16xf32>) outs(%room : tensor<1x4x1x16xf32>) permutation = [0, 2, 1, 3]
  %columns = arith.addi %past, %c1 : index
  %keys1 = "llmc.cache_append"(%keys, %k, %layer, %sequence, %past) : (tensor<3x?x2x?x16xf32>, tensor<1x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %values1 = "llmc.cache_append"(%values, %k, %layer, %sequence, %past) : (tensor<3x?x2x?x16xf32>, tensor<1x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %kr = "llmc.cache_read"(%keys1, %layer, %sequence, %c1, %columns) : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %vr = "llmc.cache_read"(%values1, %layer, %sequence, %c1, %columns) : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %o = "llmc.attention"(%q, %kr, %vr, %past, %start)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.25 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<1x4x1x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, index, tensor<1xi64>) -> tensor<1x4x1x16xf32>
  return %o, %keys1, %values1 : tensor<1x4x1x16xf32>, tensor<3x?x2x?x16xf32>, tensor<3x?x2x?x16xf32>
}

// -----

// Query, key and value of a head lie together in the row: from one head to the next it is 12 channels.
// So do the two channels that are turned together.
// CHECK-LABEL: func.func @interleaved
// CHECK:         %[[ROW:.+]] = tensor.collapse_shape %arg0
// CHECK:         "llmc.decode_attention"(%[[ROW]], %[[ROW]], %[[ROW]], {{.+}}) {head_stride = 12 : i64, interleaved = 1 : i64, key_channels = 4 : i64, key_offset = 4 : i64, {{.+}} query_offset = 0 : i64, {{.+}} value_offset = 8 : i64
func.func @interleaved(%row: tensor<1x1x24xf32>, %keys: tensor<3x?x2x?x4xf32>, %values: tensor<3x?x2x?x4xf32>, %cos: tensor<1x1x2xf32>,
                       %start: tensor<1xi64>, %layer: index, %sequence: index, %past: index)
    -> (tensor<1x2x1x4xf32>, tensor<3x?x2x?x4xf32>, tensor<3x?x2x?x4xf32>) {
  %c1 = arith.constant 1 : index
  %cut = tensor.expand_shape %row [[0], [1], [2, 3]] output_shape [1, 1, 2, 12] : tensor<1x1x24xf32> into tensor<1x1x2x12xf32>
  %room = tensor.empty() : tensor<1x2x1x12xf32>
  %heads = linalg.transpose ins(%cut : tensor<1x1x2x12xf32>) outs(%room : tensor<1x2x1x12xf32>) permutation = [0, 2, 1, 3]
  %q = tensor.extract_slice %heads[0, 0, 0, 0] [1, 2, 1, 4] [1, 1, 1, 1] : tensor<1x2x1x12xf32> to tensor<1x2x1x4xf32>
  %k = tensor.extract_slice %heads[0, 0, 0, 4] [1, 2, 1, 4] [1, 1, 1, 1] : tensor<1x2x1x12xf32> to tensor<1x2x1x4xf32>
  %v = tensor.extract_slice %heads[0, 0, 0, 8] [1, 2, 1, 4] [1, 1, 1, 1] : tensor<1x2x1x12xf32> to tensor<1x2x1x4xf32>
  %qt = "llmc.rotary"(%q, %cos, %cos) {interleaved = 1 : i64} : (tensor<1x2x1x4xf32>, tensor<1x1x2xf32>, tensor<1x1x2xf32>) -> tensor<1x2x1x4xf32>
  %kt = "llmc.rotary"(%k, %cos, %cos) {interleaved = 1 : i64} : (tensor<1x2x1x4xf32>, tensor<1x1x2xf32>, tensor<1x1x2xf32>) -> tensor<1x2x1x4xf32>
  %columns = arith.addi %past, %c1 : index
  %keys1 = "llmc.cache_append"(%keys, %kt, %layer, %sequence, %past) : (tensor<3x?x2x?x4xf32>, tensor<1x2x1x4xf32>, index, index, index) -> tensor<3x?x2x?x4xf32>
  %values1 = "llmc.cache_append"(%values, %v, %layer, %sequence, %past) : (tensor<3x?x2x?x4xf32>, tensor<1x2x1x4xf32>, index, index, index) -> tensor<3x?x2x?x4xf32>
  %kr = "llmc.cache_read"(%keys1, %layer, %sequence, %c1, %columns) : (tensor<3x?x2x?x4xf32>, index, index, index, index) -> tensor<1x2x?x4xf32>
  %vr = "llmc.cache_read"(%values1, %layer, %sequence, %c1, %columns) : (tensor<3x?x2x?x4xf32>, index, index, index, index) -> tensor<1x2x?x4xf32>
  %o = "llmc.attention"(%qt, %kr, %vr, %past, %start)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.5 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<1x2x1x4xf32>, tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>, index, tensor<1xi64>) -> tensor<1x2x1x4xf32>
  return %o, %keys1, %values1 : tensor<1x2x1x4xf32>, tensor<3x?x2x?x4xf32>, tensor<3x?x2x?x4xf32>
}

// -----

// Another column than the one after those held, or more than one token, is left alone.
// CHECK-LABEL: func.func @elsewhere
// CHECK-COUNT-2: llmc.cache_append
// CHECK-COUNT-2: llmc.cache_read
// CHECK:         llmc.attention
func.func @elsewhere(%q: tensor<1x4x1x16xf32>, %k: tensor<1x2x1x16xf32>, %keys: tensor<3x?x2x?x16xf32>, %values: tensor<3x?x2x?x16xf32>,
                     %start: tensor<1xi64>, %layer: index, %sequence: index, %past: index, %other: index) -> tensor<1x4x1x16xf32> {
  %c1 = arith.constant 1 : index
  %columns = arith.addi %past, %c1 : index
  %keys1 = "llmc.cache_append"(%keys, %k, %layer, %sequence, %other) : (tensor<3x?x2x?x16xf32>, tensor<1x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %values1 = "llmc.cache_append"(%values, %k, %layer, %sequence, %past) : (tensor<3x?x2x?x16xf32>, tensor<1x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %kr = "llmc.cache_read"(%keys1, %layer, %sequence, %c1, %columns) : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %vr = "llmc.cache_read"(%values1, %layer, %sequence, %c1, %columns) : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %o = "llmc.attention"(%q, %kr, %vr, %past, %start)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.25 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<1x4x1x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, index, tensor<1xi64>) -> tensor<1x4x1x16xf32>
  return %o : tensor<1x4x1x16xf32>
}

// CHECK-LABEL: func.func @tokens
// CHECK:         llmc.attention
func.func @tokens(%q: tensor<1x4x2x16xf32>, %k: tensor<1x2x2x16xf32>, %keys: tensor<3x?x2x?x16xf32>, %values: tensor<3x?x2x?x16xf32>,
                  %start: tensor<1xi64>, %layer: index, %sequence: index, %past: index) -> tensor<1x4x2x16xf32> {
  %c1 = arith.constant 1 : index
  %columns = arith.addi %past, %c1 : index
  %keys1 = "llmc.cache_append"(%keys, %k, %layer, %sequence, %past) : (tensor<3x?x2x?x16xf32>, tensor<1x2x2x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %values1 = "llmc.cache_append"(%values, %k, %layer, %sequence, %past) : (tensor<3x?x2x?x16xf32>, tensor<1x2x2x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %kr = "llmc.cache_read"(%keys1, %layer, %sequence, %c1, %columns) : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %vr = "llmc.cache_read"(%values1, %layer, %sequence, %c1, %columns) : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %o = "llmc.attention"(%q, %kr, %vr, %past, %start)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.25 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<1x4x2x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, index, tensor<1xi64>) -> tensor<1x4x2x16xf32>
  return %o : tensor<1x4x2x16xf32>
}

// -----

// An append that cannot be is told before the pass runs.
func.func @invalid(%cache: tensor<2x?x2x?x8xf32>, %rows: tensor<1x3x1x8xf32>, %n: index) -> tensor<2x?x2x?x8xf32> {
  // expected-error@+1 {{'llmc.cache_append' op operand 'rows' must have its heads = 2, but has 3}}
  %new = "llmc.cache_append"(%cache, %rows, %n, %n, %n)
     : (tensor<2x?x2x?x8xf32>, tensor<1x3x1x8xf32>, index, index, index) -> tensor<2x?x2x?x8xf32>
  return %new : tensor<2x?x2x?x8xf32>
}

// -----

// Of a part of the columns, what is appended goes behind those that are there.
// CHECK-LABEL: func.func @part
// CHECK:         %[[O:.+]]:3 = "llmc.decode_attention_part"({{.+}}, %arg4, %arg5, %arg6, %arg7, %arg3, %arg3)
// CHECK-SAME:      first = 1 : i64
// CHECK-SAME:      softcap = 3.0
// CHECK-SAME:      step = 3 : i64
// CHECK-SAME:      window = 8
// CHECK-SAME:      -> (tensor<?x68xf32>, tensor<3x?x2x?x16xf32>, tensor<3x?x2x?x16xf32>)
// CHECK:         ml_program.global_store @keys = %[[O]]#1
// CHECK:         ml_program.global_store @values = %[[O]]#2
// CHECK-NOT:     llmc.
// CHECK:         return
//
// Of the last part there are as many as whole rounds.
// CHECK-LABEL: func.func @last_part
// CHECK:         "llmc.decode_attention_part"
//
// Another column is left alone.
// CHECK-LABEL: func.func @another_column
// CHECK-COUNT-2: llmc.cache_append
// CHECK:         "llmc.attention_part"
ml_program.global private mutable @keys : tensor<3x?x2x?x16xf32>
ml_program.global private mutable @values : tensor<3x?x2x?x16xf32>

func.func @part(%q: tensor<?x4x1x16xf32>, %k: tensor<?x2x1x16xf32>, %v: tensor<?x2x1x16xf32>, %cos: tensor<?x1x16xf32>, %start: tensor<?xi64>,
                %layer: index, %sequence: index, %past: index) -> tensor<?x4x1x17xf32> {
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %behind = arith.addi %past, %c1 : index
  %column = arith.divui %behind, %c3 : index
  %keys = ml_program.global_load @keys : tensor<3x?x2x?x16xf32>
  %values = ml_program.global_load @values : tensor<3x?x2x?x16xf32>
  %qt = "llmc.rotary"(%q, %cos, %cos) {interleaved = 0 : i64} : (tensor<?x4x1x16xf32>, tensor<?x1x16xf32>, tensor<?x1x16xf32>) -> tensor<?x4x1x16xf32>
  %kt = "llmc.rotary"(%k, %cos, %cos) {interleaved = 0 : i64} : (tensor<?x2x1x16xf32>, tensor<?x1x16xf32>, tensor<?x1x16xf32>) -> tensor<?x2x1x16xf32>
  %keys1 = "llmc.cache_append"(%keys, %kt, %layer, %sequence, %column) : (tensor<3x?x2x?x16xf32>, tensor<?x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %values1 = "llmc.cache_append"(%values, %v, %layer, %sequence, %column) : (tensor<3x?x2x?x16xf32>, tensor<?x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %o = "llmc.attention_part"(%qt, %keys1, %values1, %start, %layer, %sequence, %past)
     {first = 1 : i64, step = 3 : i64, scale = 0.25 : f64, window = 8 : i64, softcap = 3.0 : f64}
     : (tensor<?x4x1x16xf32>, tensor<3x?x2x?x16xf32>, tensor<3x?x2x?x16xf32>, tensor<?xi64>, index, index, index) -> tensor<?x4x1x17xf32>
  ml_program.global_store @keys = %keys1 : tensor<3x?x2x?x16xf32>
  ml_program.global_store @values = %values1 : tensor<3x?x2x?x16xf32>
  return %o : tensor<?x4x1x17xf32>
}

func.func @last_part(%q: tensor<?x4x1x16xf32>, %k: tensor<?x2x1x16xf32>, %v: tensor<?x2x1x16xf32>, %cos: tensor<?x1x16xf32>, %start: tensor<?xi64>,
                %layer: index, %sequence: index, %past: index) -> tensor<?x4x1x17xf32> {
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %behind = arith.addi %past, %c1 : index
  %column = arith.divui %past, %c3 : index
  %keys = ml_program.global_load @keys : tensor<3x?x2x?x16xf32>
  %values = ml_program.global_load @values : tensor<3x?x2x?x16xf32>
  %qt = "llmc.rotary"(%q, %cos, %cos) {interleaved = 0 : i64} : (tensor<?x4x1x16xf32>, tensor<?x1x16xf32>, tensor<?x1x16xf32>) -> tensor<?x4x1x16xf32>
  %kt = "llmc.rotary"(%k, %cos, %cos) {interleaved = 0 : i64} : (tensor<?x2x1x16xf32>, tensor<?x1x16xf32>, tensor<?x1x16xf32>) -> tensor<?x2x1x16xf32>
  %keys1 = "llmc.cache_append"(%keys, %kt, %layer, %sequence, %column) : (tensor<3x?x2x?x16xf32>, tensor<?x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %values1 = "llmc.cache_append"(%values, %v, %layer, %sequence, %column) : (tensor<3x?x2x?x16xf32>, tensor<?x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %o = "llmc.attention_part"(%qt, %keys1, %values1, %start, %layer, %sequence, %past)
     {first = 2 : i64, step = 3 : i64, scale = 0.25 : f64, window = 8 : i64, softcap = 3.0 : f64}
     : (tensor<?x4x1x16xf32>, tensor<3x?x2x?x16xf32>, tensor<3x?x2x?x16xf32>, tensor<?xi64>, index, index, index) -> tensor<?x4x1x17xf32>
  ml_program.global_store @keys = %keys1 : tensor<3x?x2x?x16xf32>
  ml_program.global_store @values = %values1 : tensor<3x?x2x?x16xf32>
  return %o : tensor<?x4x1x17xf32>
}

func.func @another_column(%q: tensor<?x4x1x16xf32>, %k: tensor<?x2x1x16xf32>, %v: tensor<?x2x1x16xf32>, %cos: tensor<?x1x16xf32>, %start: tensor<?xi64>,
                %layer: index, %sequence: index, %past: index) -> tensor<?x4x1x17xf32> {
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %behind = arith.addi %past, %c1 : index
  %column = arith.divui %past, %c3 : index
  %keys = ml_program.global_load @keys : tensor<3x?x2x?x16xf32>
  %values = ml_program.global_load @values : tensor<3x?x2x?x16xf32>
  %qt = "llmc.rotary"(%q, %cos, %cos) {interleaved = 0 : i64} : (tensor<?x4x1x16xf32>, tensor<?x1x16xf32>, tensor<?x1x16xf32>) -> tensor<?x4x1x16xf32>
  %kt = "llmc.rotary"(%k, %cos, %cos) {interleaved = 0 : i64} : (tensor<?x2x1x16xf32>, tensor<?x1x16xf32>, tensor<?x1x16xf32>) -> tensor<?x2x1x16xf32>
  %keys1 = "llmc.cache_append"(%keys, %kt, %layer, %sequence, %column) : (tensor<3x?x2x?x16xf32>, tensor<?x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %values1 = "llmc.cache_append"(%values, %v, %layer, %sequence, %column) : (tensor<3x?x2x?x16xf32>, tensor<?x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %o = "llmc.attention_part"(%qt, %keys1, %values1, %start, %layer, %sequence, %past)
     {first = 1 : i64, step = 3 : i64, scale = 0.25 : f64, window = 8 : i64, softcap = 3.0 : f64}
     : (tensor<?x4x1x16xf32>, tensor<3x?x2x?x16xf32>, tensor<3x?x2x?x16xf32>, tensor<?xi64>, index, index, index) -> tensor<?x4x1x17xf32>
  ml_program.global_store @keys = %keys1 : tensor<3x?x2x?x16xf32>
  ml_program.global_store @values = %values1 : tensor<3x?x2x?x16xf32>
  return %o : tensor<?x4x1x17xf32>
}

// -----

// Keys and values of two layers are no one token's.
// CHECK-LABEL: func.func @two_layers
// CHECK:         "llmc.attention"
ml_program.global private mutable @keys : tensor<3x?x2x?x16xf32>
ml_program.global private mutable @values : tensor<3x?x2x?x16xf32>
func.func @two_layers(%q: tensor<1x4x1x16xf32>, %k: tensor<1x2x1x16xf32>, %v: tensor<1x2x1x16xf32>,
                 %start: tensor<1xi64>, %layer: index, %other: index, %sequence: index, %sother: index, %past: index) -> tensor<1x4x1x16xf32> {
  %c1 = arith.constant 1 : index
  %keys = ml_program.global_load @keys : tensor<3x?x2x?x16xf32>
  %values = ml_program.global_load @values : tensor<3x?x2x?x16xf32>
  %columns = arith.addi %past, %c1 : index
  %keys1 = "llmc.cache_append"(%keys, %k, %layer, %sequence, %past) : (tensor<3x?x2x?x16xf32>, tensor<1x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %values1 = "llmc.cache_append"(%values, %v, %other, %sother, %past) : (tensor<3x?x2x?x16xf32>, tensor<1x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %kr = "llmc.cache_read"(%keys1, %layer, %sequence, %c1, %columns) : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %vr = "llmc.cache_read"(%values1, %other, %sother, %c1, %columns) : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<1x2x?x16xf32>
  %o = "llmc.attention"(%q, %kr, %vr, %past, %start)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.25 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<1x4x1x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, index, tensor<1xi64>) -> tensor<1x4x1x16xf32>
  ml_program.global_store @keys = %keys1 : tensor<3x?x2x?x16xf32>
  ml_program.global_store @values = %values1 : tensor<3x?x2x?x16xf32>
  return %o : tensor<1x4x1x16xf32>
}

// -----

// Nor is what two sequences see of which one got it.
// CHECK-LABEL: func.func @two_batches
// CHECK:         "llmc.attention"
ml_program.global private mutable @keys : tensor<3x?x2x?x16xf32>
ml_program.global private mutable @values : tensor<3x?x2x?x16xf32>
func.func @two_batches(%q: tensor<2x4x1x16xf32>, %k: tensor<1x2x1x16xf32>, %v: tensor<1x2x1x16xf32>,
                 %start: tensor<2xi64>, %layer: index, %sequence: index, %past: index) -> tensor<2x4x1x16xf32> {
  %c1 = arith.constant 1 : index
  %keys = ml_program.global_load @keys : tensor<3x?x2x?x16xf32>
  %values = ml_program.global_load @values : tensor<3x?x2x?x16xf32>
  %columns = arith.addi %past, %c1 : index
  %keys1 = "llmc.cache_append"(%keys, %k, %layer, %sequence, %past) : (tensor<3x?x2x?x16xf32>, tensor<1x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %values1 = "llmc.cache_append"(%values, %v, %layer, %sequence, %past) : (tensor<3x?x2x?x16xf32>, tensor<1x2x1x16xf32>, index, index, index) -> tensor<3x?x2x?x16xf32>
  %kr = "llmc.cache_read"(%keys1, %layer, %sequence, %c1, %columns) : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<2x2x?x16xf32>
  %vr = "llmc.cache_read"(%values1, %layer, %sequence, %c1, %columns) : (tensor<3x?x2x?x16xf32>, index, index, index, index) -> tensor<2x2x?x16xf32>
  %o = "llmc.attention"(%q, %kr, %vr, %past, %start)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.25 : f64, window = 0 : i64, softcap = 0.0 : f64}
     : (tensor<2x4x1x16xf32>, tensor<2x2x?x16xf32>, tensor<2x2x?x16xf32>, index, tensor<2xi64>) -> tensor<2x4x1x16xf32>
  ml_program.global_store @keys = %keys1 : tensor<3x?x2x?x16xf32>
  ml_program.global_store @values = %values1 : tensor<3x?x2x?x16xf32>
  return %o : tensor<2x4x1x16xf32>
}
