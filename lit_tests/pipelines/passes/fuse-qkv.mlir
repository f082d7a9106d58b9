// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(fuse-qkv)' | filecheck %s

// One linear layer in the place of the first, over the weights one after another; what read the
// three reads slices. What lies between a linear layer and attention does not matter.
// CHECK-LABEL: func.func @layer
// CHECK-DAG:     %[[Q:.+]] = "llmc.parameter"() {sources = ["q"]}
// CHECK-DAG:     %[[K:.+]] = "llmc.parameter"() {sources = ["k"]}
// CHECK-DAG:     %[[V:.+]] = "llmc.parameter"() {sources = ["v"]}
// CHECK:         %[[W:.+]] = tensor.concat dim(0) %[[Q]], %[[K]], %[[V]] : (tensor<8x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<16x6xf32>
// CHECK-NEXT:    %[[Y:.+]] = "llmc.linear"(%arg0, %[[W]])
// CHECK-SAME:      -> tensor<1x?x16xf32>
// CHECK:         tensor.extract_slice %[[Y]][0, 0, 0] [1, %[[T:.+]], 8] [1, 1, 1] : tensor<1x?x16xf32> to tensor<1x?x8xf32>
// CHECK-NEXT:    tensor.extract_slice %[[Y]][0, 0, 8] [1, %[[T]], 4]
// CHECK-NEXT:    tensor.extract_slice %[[Y]][0, 0, 12] [1, %[[T]], 4]
// CHECK-NOT:     llmc.linear
// CHECK:         "llmc.attention"
func.func @layer(%x: tensor<1x?x6xf32>, %cos: tensor<1x?x4xf32>, %tokens: index) -> tensor<1x2x?x4xf32> {
  %wq = "llmc.parameter"() {sources = ["q"]} : () -> tensor<8x6xf32>
  %q = "llmc.linear"(%x, %wq) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x?x6xf32>, tensor<8x6xf32>) -> tensor<1x?x8xf32>
  %q4 = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [1, %tokens, 2, 4] : tensor<1x?x8xf32> into tensor<1x?x2x4xf32>
  %room = tensor.empty(%tokens) : tensor<1x2x?x4xf32>
  %qt = linalg.transpose ins(%q4 : tensor<1x?x2x4xf32>) outs(%room : tensor<1x2x?x4xf32>) permutation = [0, 2, 1, 3]
  %qr = "llmc.rotary"(%qt, %cos, %cos) {interleaved = 0 : i64} : (tensor<1x2x?x4xf32>, tensor<1x?x4xf32>, tensor<1x?x4xf32>) -> tensor<1x2x?x4xf32>
  %wk = "llmc.parameter"() {sources = ["k"]} : () -> tensor<4x6xf32>
  %k = "llmc.linear"(%x, %wk) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x?x6xf32>, tensor<4x6xf32>) -> tensor<1x?x4xf32>
  %k4 = tensor.expand_shape %k [[0], [1, 2], [3]] output_shape [1, 1, %tokens, 4] : tensor<1x?x4xf32> into tensor<1x1x?x4xf32>
  %wv = "llmc.parameter"() {sources = ["v"]} : () -> tensor<4x6xf32>
  %v = "llmc.linear"(%x, %wv) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x?x6xf32>, tensor<4x6xf32>) -> tensor<1x?x4xf32>
  %v4 = tensor.expand_shape %v [[0], [1, 2], [3]] output_shape [1, 1, %tokens, 4] : tensor<1x?x4xf32> into tensor<1x1x?x4xf32>
  %o = "llmc.attention"(%qr, %k4, %v4) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>,
      scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x2x?x4xf32>, tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32>) -> tensor<1x2x?x4xf32>
  return %o : tensor<1x2x?x4xf32>
}

// -----

// Biases go along, transposed weights side by side. Query and key of one linear layer count once.
// CHECK-LABEL: func.func @biased
// CHECK-DAG:     %[[W:.+]] = tensor.concat dim(1) {{.+}} -> tensor<6x8xf32>
// CHECK-DAG:     %[[B:.+]] = tensor.concat dim(0) {{.+}} -> tensor<8xf32>
// CHECK:         "llmc.linear"(%arg0, %[[W]], %[[B]])
// CHECK-SAME:      transposed = 1 : i64
// CHECK-NOT:     llmc.linear
func.func @biased(%x: tensor<1x6xf32>) -> tensor<1x1x1x4xf32> {
  %wk = "llmc.parameter"() {sources = ["k"]} : () -> tensor<6x4xf32>
  %bk = "llmc.parameter"() {sources = ["bk"]} : () -> tensor<4xf32>
  %wv = "llmc.parameter"() {sources = ["v"]} : () -> tensor<6x4xf32>
  %bv = "llmc.parameter"() {sources = ["bv"]} : () -> tensor<4xf32>
  %k = "llmc.linear"(%x, %wk, %bk) {operandSegmentSizes = array<i32: 1, 1, 1>, transposed = 1 : i64}
     : (tensor<1x6xf32>, tensor<6x4xf32>, tensor<4xf32>) -> tensor<1x4xf32>
  %v = "llmc.linear"(%x, %wv, %bv) {operandSegmentSizes = array<i32: 1, 1, 1>, transposed = 1 : i64}
     : (tensor<1x6xf32>, tensor<6x4xf32>, tensor<4xf32>) -> tensor<1x4xf32>
  %k4 = tensor.expand_shape %k [[0, 1, 2], [3]] output_shape [1, 1, 1, 4] : tensor<1x4xf32> into tensor<1x1x1x4xf32>
  %v4 = tensor.expand_shape %v [[0, 1, 2], [3]] output_shape [1, 1, 1, 4] : tensor<1x4xf32> into tensor<1x1x1x4xf32>
  %o = "llmc.attention"(%k4, %k4, %v4) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>,
      scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x1x1x4xf32>, tensor<1x1x1x4xf32>, tensor<1x1x1x4xf32>) -> tensor<1x1x1x4xf32>
  return %o : tensor<1x1x1x4xf32>
}

// -----

// Other activations, a bias on one alone, a weight that is no parameter or that is looked up, and
// another way of storing: all are left alone.
// CHECK-LABEL: func.func @left_alone
// CHECK-NOT:     tensor.concat
// CHECK:         return
func.func @left_alone(%x: tensor<4x6xf32>, %z: tensor<4x6xf32>, %w: tensor<4x6xf32>, %i: index) -> f32 {
  %q = "llmc.parameter"() {sources = ["q"]} : () -> tensor<4x6xf32>
  %k = "llmc.parameter"() {sources = ["k"]} : () -> tensor<4x6xf32>
  %m = "llmc.parameter"() {sources = ["m"]} : () -> tensor<4x6xf32>
  %l = "llmc.parameter"() {sources = ["l"]} : () -> tensor<4x6xf32>
  %t = "llmc.parameter"() {sources = ["t"]} : () -> tensor<6x4xf32>
  %b = "llmc.parameter"() {sources = ["b"]} : () -> tensor<4xf32>
  %xq = "llmc.linear"(%x, %q) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x4xf32>
  %zk = "llmc.linear"(%z, %k) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x4xf32>
  %xkb = "llmc.linear"(%x, %m, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, transposed = 0 : i64}
      : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %xw = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x4xf32>
  %xl = "llmc.linear"(%x, %l) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x4xf32>
  %xt = "llmc.linear"(%x, %t) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 1 : i64}
      : (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<4x4xf32>
  %e = tensor.extract %l[%i, %i] : tensor<4x6xf32>
  %q4 = tensor.expand_shape %xq [[0, 1, 2], [3]] output_shape [1, 1, 4, 4] : tensor<4x4xf32> into tensor<1x1x4x4xf32>
  %zk4 = tensor.expand_shape %zk [[0, 1, 2], [3]] output_shape [1, 1, 4, 4] : tensor<4x4xf32> into tensor<1x1x4x4xf32>
  %xkb4 = tensor.expand_shape %xkb [[0, 1, 2], [3]] output_shape [1, 1, 4, 4] : tensor<4x4xf32> into tensor<1x1x4x4xf32>
  %xw4 = tensor.expand_shape %xw [[0, 1, 2], [3]] output_shape [1, 1, 4, 4] : tensor<4x4xf32> into tensor<1x1x4x4xf32>
  %xl4 = tensor.expand_shape %xl [[0, 1, 2], [3]] output_shape [1, 1, 4, 4] : tensor<4x4xf32> into tensor<1x1x4x4xf32>
  %xt4 = tensor.expand_shape %xt [[0, 1, 2], [3]] output_shape [1, 1, 4, 4] : tensor<4x4xf32> into tensor<1x1x4x4xf32>
  %1 = "llmc.attention"(%q4, %zk4, %zk4) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  %2 = "llmc.attention"(%q4, %xkb4, %xkb4) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  %3 = "llmc.attention"(%q4, %xw4, %xw4) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  %4 = "llmc.attention"(%q4, %xl4, %xl4) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  %5 = "llmc.attention"(%q4, %xt4, %xt4) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  return %e : f32
}

// -----

// Weights that another function reads one by one stay as they are: they would be stored twice.
// CHECK-LABEL: func.func @prefill
// CHECK-NOT:     tensor.concat
// CHECK:         return
func.func @prefill(%x: tensor<4x6xf32>) -> tensor<1x1x4x4xf32> {
  %q = "llmc.parameter"() {sources = ["q"]} : () -> tensor<4x6xf32>
  %k = "llmc.parameter"() {sources = ["k"]} : () -> tensor<4x6xf32>
  %xq = "llmc.linear"(%x, %q) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x4xf32>
  %xk = "llmc.linear"(%x, %k) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x4xf32>
  %q4 = tensor.expand_shape %xq [[0, 1, 2], [3]] output_shape [1, 1, 4, 4] : tensor<4x4xf32> into tensor<1x1x4x4xf32>
  %k4 = tensor.expand_shape %xk [[0, 1, 2], [3]] output_shape [1, 1, 4, 4] : tensor<4x4xf32> into tensor<1x1x4x4xf32>
  %o = "llmc.attention"(%q4, %k4, %k4) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  return %o : tensor<1x1x4x4xf32>
}
func.func @decode(%x: tensor<4x6xf32>) -> tensor<4x4xf32> {
  %q = "llmc.parameter"() {sources = ["q"]} : () -> tensor<4x6xf32>
  %y = "llmc.linear"(%x, %q) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

func.func @invalid(%q: tensor<1x3x?x4xf32>, %k: tensor<1x2x?x4xf32>) -> tensor<1x3x?x4xf32> {
  // expected-error@+1 {{operand 'query' must have its heads = a multiple of 2, but has 3}}
  %o = "llmc.attention"(%q, %k, %k) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x3x?x4xf32>, tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>) -> tensor<1x3x?x4xf32>
  return %o : tensor<1x3x?x4xf32>
}

// -----

// Attention to a part of a cache comes after what is appended to it.
// CHECK-LABEL: func.func @part
// CHECK:         tensor.concat dim(0) {{.+}} -> tensor<16x6xf32>
// CHECK:         llmc.linear
// CHECK-NOT:     llmc.linear
// CHECK:         "llmc.attention_part"
func.func @part(%x: tensor<1x1x6xf32>, %cache: tensor<3x?x1x?x4xf16>, %start: tensor<1xi64>, %i: index) -> tensor<1x2x1x5xf32> {
  %wq = "llmc.parameter"() {sources = ["q"]} : () -> tensor<8x6xf32>
  %q = "llmc.linear"(%x, %wq) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x1x6xf32>, tensor<8x6xf32>) -> tensor<1x1x8xf32>
  %q4 = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [1, 1, 2, 4] : tensor<1x1x8xf32> into tensor<1x1x2x4xf32>
  %room = tensor.empty() : tensor<1x2x1x4xf32>
  %qt = linalg.transpose ins(%q4 : tensor<1x1x2x4xf32>) outs(%room : tensor<1x2x1x4xf32>) permutation = [0, 2, 1, 3]
  %wk = "llmc.parameter"() {sources = ["k"]} : () -> tensor<4x6xf32>
  %k = "llmc.linear"(%x, %wk) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x1x6xf32>, tensor<4x6xf32>) -> tensor<1x1x4xf32>
  %k4 = tensor.expand_shape %k [[0], [1, 2], [3]] output_shape [1, 1, 1, 4] : tensor<1x1x4xf32> into tensor<1x1x1x4xf32>
  %wv = "llmc.parameter"() {sources = ["v"]} : () -> tensor<4x6xf32>
  %v = "llmc.linear"(%x, %wv) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x1x6xf32>, tensor<4x6xf32>) -> tensor<1x1x4xf32>
  %v4 = tensor.expand_shape %v [[0], [1, 2], [3]] output_shape [1, 1, 1, 4] : tensor<1x1x4xf32> into tensor<1x1x1x4xf32>
  %keys = "llmc.cache_append"(%cache, %k4, %i, %i, %i) : (tensor<3x?x1x?x4xf16>, tensor<1x1x1x4xf32>, index, index, index) -> tensor<3x?x1x?x4xf16>
  %values = "llmc.cache_append"(%cache, %v4, %i, %i, %i) : (tensor<3x?x1x?x4xf16>, tensor<1x1x1x4xf32>, index, index, index) -> tensor<3x?x1x?x4xf16>
  %o = "llmc.attention_part"(%qt, %keys, %values, %start, %i, %i, %i)
      {first = 0 : i64, step = 2 : i64, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x2x1x4xf32>, tensor<3x?x1x?x4xf16>, tensor<3x?x1x?x4xf16>, tensor<1xi64>, index, index, index) -> tensor<1x2x1x5xf32>
  return %o : tensor<1x2x1x5xf32>
}
