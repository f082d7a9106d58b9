// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(specialize-tokens{tokens=4})' | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline='builtin.module(specialize-tokens{tokens=0 batch=3 copy=three})' 2>&1 | filecheck %s --check-prefix=BATCH
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(specialize-tokens{tokens=-1})' 2>&1 | filecheck %s --check-prefix=SIZE
// SIZE: error: option 'tokens' of pass 'specialize-tokens' must be from 0 to 2147483647, not -1

// Sizes go into the layer, through its operations and out again. The original stays.
// CHECK-LABEL: func.func private @prefill.layer0(%arg0: tensor<?x?x6xf32>
// CHECK-LABEL: func.func private @prefill_4.layer0(
// CHECK-SAME:      %arg0: tensor<?x4x6xf32>, %arg1: index) -> tensor<?x4x6xf32> attributes {llmc.layer_argument = 1 : index}
// CHECK:         "llmc.rms_norm"(%arg0, %{{.+}}) {{.+}} -> tensor<?x4x6xf32>
// CHECK:         tensor.expand_shape %{{.+}} output_shape [%{{.+}}, 4, 2, 3] : tensor<?x4x6xf32> into tensor<?x4x2x3xf32>
// CHECK:         linalg.transpose {{.+}} outs(%{{.+}} : tensor<?x2x4x3xf32>)
// CHECK:         "llmc.attention"({{.+}}) -> tensor<?x2x4x3xf32>
// CHECK:         %[[OUT:.+]] = linalg.generic {{.+}} outs(%{{.+}} : tensor<?x4x6xf32>)
// CHECK:         return %[[OUT]]
// CHECK-LABEL: func.func @prefill_4(%arg0: tensor<?x4xi64>) -> tensor<?x4x6xf32>
// CHECK:         %[[X:.+]] = call @prefill_4.layer0(%{{.+}}, %c0) : (tensor<?x4x6xf32>, index) -> tensor<?x4x6xf32>
// CHECK-NEXT:    %[[Y:.+]] = call @prefill_4.layer0(%[[X]], %c1)
// CHECK-NEXT:    return %[[Y]]
// CHECK-LABEL: func.func @prefill(%arg0: tensor<?x?xi64>)
// CHECK:         call @prefill.layer0

// BATCH-LABEL: func.func private @three.layer0(%arg0: tensor<3x?x6xf32>
// BATCH:         "llmc.attention"({{.+}}) -> tensor<3x2x?x3xf32>
// BATCH-LABEL: func.func @three(%arg0: tensor<3x?xi64>) -> tensor<3x?x6xf32>
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func private @prefill.layer0(%x: tensor<?x?x6xf32>, %layer: index) -> tensor<?x?x6xf32> attributes {llmc.layer_argument = 1 : index} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %w = "llmc.parameter"() {sources = ["a", "b"]} : () -> tensor<6xf32>
  %batch = tensor.dim %x, %c0 : tensor<?x?x6xf32>
  %tokens = tensor.dim %x, %c1 : tensor<?x?x6xf32>
  %n = "llmc.rms_norm"(%x, %w) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5, offset = 0.0} : (tensor<?x?x6xf32>, tensor<6xf32>) -> tensor<?x?x6xf32>
  %heads = tensor.expand_shape %n [[0], [1], [2, 3]] output_shape [%batch, %tokens, 2, 3] : tensor<?x?x6xf32> into tensor<?x?x2x3xf32>
  %room = tensor.empty(%batch, %tokens) : tensor<?x2x?x3xf32>
  %q = linalg.transpose ins(%heads : tensor<?x?x2x3xf32>) outs(%room : tensor<?x2x?x3xf32>) permutation = [0, 2, 1, 3]
  %o = "llmc.attention"(%q, %q, %q) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<?x2x?x3xf32>, tensor<?x2x?x3xf32>, tensor<?x2x?x3xf32>) -> tensor<?x2x?x3xf32>
  %turned = tensor.empty(%batch, %tokens) : tensor<?x?x2x3xf32>
  %back = linalg.transpose ins(%o : tensor<?x2x?x3xf32>) outs(%turned : tensor<?x?x2x3xf32>) permutation = [0, 2, 1, 3]
  %flat = tensor.collapse_shape %back [[0], [1], [2, 3]] : tensor<?x?x2x3xf32> into tensor<?x?x6xf32>
  %out = tensor.empty(%batch, %tokens) : tensor<?x?x6xf32>
  %sum = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %flat : tensor<?x?x6xf32>, tensor<?x?x6xf32>) outs(%out : tensor<?x?x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<?x?x6xf32>
  return %sum : tensor<?x?x6xf32>
}
func.func @prefill(%tokens: tensor<?x?xi64>) -> tensor<?x?x6xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %table = "llmc.parameter"() {sources = ["embedding"]} : () -> tensor<10x6xf32>
  %x = "llmc.embedding"(%tokens, %table) : (tensor<?x?xi64>, tensor<10x6xf32>) -> tensor<?x?x6xf32>
  %0 = call @prefill.layer0(%x, %c0) : (tensor<?x?x6xf32>, index) -> tensor<?x?x6xf32>
  %1 = call @prefill.layer0(%0, %c1) : (tensor<?x?x6xf32>, index) -> tensor<?x?x6xf32>
  return %1 : tensor<?x?x6xf32>
}

// -----

// A reshape whose shape is computed becomes one that MLIR can follow.
// CHECK-LABEL: func.func @prefill_4(%arg0: tensor<1x4x6xf32>, %arg1: f32) -> tensor<1x4x2x3xf32>
// CHECK-NEXT:    %[[Y:.+]] = tensor.expand_shape %arg0 {{.+}} : tensor<1x4x6xf32> into tensor<1x4x2x3xf32>
// CHECK-NEXT:    return %[[Y]]
func.func @prefill(%x: tensor<1x?x6xf32>, %scale: f32) -> tensor<1x?x2x3xf32> {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %n = tensor.dim %x, %c1 : tensor<1x?x6xf32>
  %shape = tensor.from_elements %c1, %n, %c2, %c3 : tensor<4xindex>
  %y = tensor.reshape %x(%shape) : (tensor<1x?x6xf32>, tensor<4xindex>) -> tensor<1x?x2x3xf32>
  return %y : tensor<1x?x2x3xf32>
}

// -----

// What cannot be refined keeps its type, with a cast before it.
// CHECK-LABEL: func.func @prefill_4(%arg0: tensor<1x4xf32>) -> tensor<1x?xf32>
// CHECK-NEXT:    %[[CAST:.+]] = tensor.cast %arg0 : tensor<1x4xf32> to tensor<1x?xf32>
// CHECK-NEXT:    %[[Y:.+]] = call @elsewhere(%[[CAST]])
// CHECK-NEXT:    return %[[Y]]
func.func private @elsewhere(tensor<1x?xf32>) -> tensor<1x?xf32>
func.func @prefill(%x: tensor<1x?xf32>) -> tensor<1x?xf32> {
  %y = call @elsewhere(%x) : (tensor<1x?xf32>) -> tensor<1x?xf32>
  return %y : tensor<1x?xf32>
}

// -----

// expected-error@+1 {{there is no public function 'prefill'}}
module {
  func.func @decode(%x: tensor<1x?xf32>) {
    return
  }
}

// -----

// A kernel is no public function.
// expected-error@+1 {{there is no public function 'prefill'}}
module {
  func.func private @prefill(%x: tensor<1x?xf32>) attributes {llmc.kernel = "elementwise"} {
    return
  }
}

// -----

// expected-error@+1 {{no argument has a dynamic number of tokens}}
func.func @prefill(%x: tensor<?x5xf32>, %y: tensor<?xf32>) {
  return
}

// -----

func.func private @prefill_4() {
  return
}
// expected-error@+1 {{the name of its copy, 'prefill_4', is taken}}
func.func @prefill(%x: tensor<1x?xf32>) {
  return
}

// -----

// The second call passes what another function made, of whatever size.
func.func private @elsewhere(tensor<1x?xf32>) -> tensor<1x?xf32>
func.func private @prefill.layer0(%x: tensor<1x?xf32>) -> tensor<1x?xf32> {
  return %x : tensor<1x?xf32>
}
func.func @prefill(%x: tensor<1x?xf32>) -> tensor<1x?xf32> {
  %0 = call @prefill.layer0(%x) : (tensor<1x?xf32>) -> tensor<1x?xf32>
  %1 = call @elsewhere(%0) : (tensor<1x?xf32>) -> tensor<1x?xf32>
  // expected-error@+1 {{cannot prove that tensor<1x?xf32> is tensor<1x4xf32>, as 'prefill_4.layer0' needs it}}
  %2 = call @prefill.layer0(%1) : (tensor<1x?xf32>) -> tensor<1x?xf32>
  return %2 : tensor<1x?xf32>
}

// -----

// The second call passes another size.
func.func private @prefill.layer0(%x: tensor<1x?xf32>) -> tensor<1x?xf32> {
  return %x : tensor<1x?xf32>
}
func.func @prefill(%x: tensor<1x?xf32>, %y: tensor<1x3xf32>) -> tensor<1x?xf32> {
  %0 = call @prefill.layer0(%x) : (tensor<1x?xf32>) -> tensor<1x?xf32>
  %other = tensor.cast %y : tensor<1x3xf32> to tensor<1x?xf32>
  // expected-error@+1 {{cannot prove that tensor<1x?xf32> is tensor<1x4xf32>, as 'prefill_4.layer0' needs it}}
  %1 = call @prefill.layer0(%other) : (tensor<1x?xf32>) -> tensor<1x?xf32>
  return %1 : tensor<1x?xf32>
}

// -----

// What the layer is passed without regard to tokens needs no proof.
// CHECK-LABEL: func.func private @prefill_4.layer0(%arg0: tensor<1x4xf32>, %arg1: tensor<?xf32>)
// CHECK-LABEL: func.func @prefill_4
func.func private @prefill.layer0(%x: tensor<1x?xf32>, %y: tensor<?xf32>) -> tensor<1x?xf32> {
  return %x : tensor<1x?xf32>
}
func.func @prefill(%x: tensor<1x?xf32>, %y: tensor<*xf32>) -> tensor<1x?xf32> {
  %other = tensor.cast %y : tensor<*xf32> to tensor<?xf32>
  %0 = call @prefill.layer0(%x, %other) : (tensor<1x?xf32>, tensor<?xf32>) -> tensor<1x?xf32>
  return %0 : tensor<1x?xf32>
}

// -----

// Sizes go through the choice of experts and the sum of what these make, and through the choice of
// a token, but for the number of those to choose.
// CHECK-LABEL: func.func @prefill_4(%arg0: tensor<1x4x6xf32>, %arg1: index)
// CHECK-SAME:      -> (tensor<4x6xf32>, tensor<4xi64>, tensor<4xi64>, tensor<4x?xf32>)
// CHECK:         "llmc.route"({{.+}}) -> (tensor<4x2xf32>, tensor<4x2xi64>)
// CHECK:         "llmc.expert_linear"({{.+}}) -> tensor<8x6xf32>
// CHECK:         "llmc.combine_experts"({{.+}}) -> tensor<4x6xf32>
// CHECK:         "llmc.argmax"({{.+}}) : (tensor<4x6xf32>) -> tensor<4xi64>
// CHECK:         "llmc.screened_argmax"({{.+}}) -> tensor<4xi64>
// CHECK:         "llmc.top_k"({{.+}}) -> (tensor<4x?xf32>, tensor<4x?xi64>)
func.func @prefill(%x: tensor<1x?x6xf32>, %count: index)
    -> (tensor<?x6xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xf32>) {
  %experts = "llmc.parameter"() {sources = ["experts"]} : () -> tensor<3x6x6xf32>
  %gate = "llmc.parameter"() {sources = ["gate"]} : () -> tensor<3x6xf32>
  %metric = "llmc.parameter"() {sources = ["metric"]} : () -> tensor<6xf32>
  %rows = tensor.collapse_shape %x [[0, 1], [2]] : tensor<1x?x6xf32> into tensor<?x6xf32>
  %logits = "llmc.linear"(%rows, %gate) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64} : (tensor<?x6xf32>, tensor<3x6xf32>) -> tensor<?x3xf32>
  %weights, %chosen = "llmc.route"(%logits) {normalised = 1 : i64} : (tensor<?x3xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %each = tensor.collapse_shape %chosen [[0, 1]] : tensor<?x2xi64> into tensor<?xi64>
  %made = "llmc.expert_linear"(%rows, %each, %experts) {top_k = 2 : i64, transposed = 0 : i64} : (tensor<?x6xf32>, tensor<?xi64>, tensor<3x6x6xf32>) -> tensor<?x6xf32>
  %sum = "llmc.combine_experts"(%made, %weights) : (tensor<?x6xf32>, tensor<?x2xf32>) -> tensor<?x6xf32>
  %best = "llmc.argmax"(%sum) : (tensor<?x6xf32>) -> tensor<?xi64>
  %screened = "llmc.screened_argmax"(%sum, %rows, %rows, %metric, %metric) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>} : (tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<?xi64>
  %values, %places = "llmc.top_k"(%sum, %count) : (tensor<?x6xf32>, index) -> (tensor<?x?xf32>, tensor<?x?xi64>)
  return %sum, %best, %screened, %values : tensor<?x6xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xf32>
}
