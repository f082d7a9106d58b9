// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(bind-parameters)' | filecheck %s
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(bind-parameters{storage=f16})' | filecheck %s --check-prefix=F16
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(bind-parameters{storage=f8})' 2>&1 | filecheck %s --check-prefix=F8

// F8: error: option 'storage' of pass 'bind-parameters' must be one of f32, f16, bf16, not 'f8'

// The weights of all layers of a kind are stacked, and a layer takes its slice. An expression over
// weights is one global, which says how it is computed.
// CHECK-DAG:   #[[NORM:.+]] = #ml_program.extern : tensor<2x6xf32>
// CHECK-DAG:   #[[PACKED:.+]] = #ml_program.extern : tensor<2x1x6x8xf32>
// CHECK-DAG:   ml_program.global private @layers.0.norm(#[[NORM]]) : tensor<2x6xf32> {llmc.recipe = ["layers.0.norm", "layers.1.norm"]}
// CHECK-DAG:   ml_program.global private @layers.0.w(#[[PACKED]]) : tensor<2x1x6x8xf32> {llmc.recipe = {inner_dims_pos = array<i64: 0>, inner_tiles = array<i64: 8>, op = "linalg.pack", operands = {{\[}}["layers.0.w", "layers.1.w"]], outer_dims_perm = array<i64: 0, 1>}}
// CHECK-LABEL: func.func private @decode.layer0
// CHECK:         %[[NORMS:.+]] = ml_program.global_load @layers.0.norm
// CHECK-NEXT:    %[[N:.+]] = tensor.extract_slice %[[NORMS]][%arg1, 0] [1, 6] [1, 1] : tensor<2x6xf32> to tensor<6xf32>
// CHECK-NOT:     linalg.pack
// CHECK:         "llmc.rms_norm"(%arg0, %[[N]])
//
// Vectors keep float32; a linear layer widens its matrix itself.
// F16-DAG:     ml_program.global private @layers.0.norm({{.+}}) : tensor<2x6xf32>
// F16-DAG:     ml_program.global private @layers.0.w({{.+}}) : tensor<2x1x6x8xf16>
// F16-LABEL:   func.func private @decode.layer0
// F16:           tensor<1x6x8xf16>{{$}}
// F16-NOT:       arith.extf
// F16:           "llmc.packed_linear"({{.+}}) {{.+}} (tensor<1x1x6xf32>, tensor<1x6x8xf16>) ->
func.func private @decode.layer0(%x: tensor<1x1x6xf32>, %layer: index) -> tensor<1x1x6xf32>
    attributes {llmc.layer_argument = 1 : index} {
  %n = "llmc.parameter"() {sources = ["layers.0.norm", "layers.1.norm"]} : () -> tensor<6xf32>
  %w = "llmc.parameter"() {sources = ["layers.0.w", "layers.1.w"]} : () -> tensor<6x6xf32>
  %room = tensor.empty() : tensor<1x6x8xf32>
  %zero = arith.constant 0.0 : f32
  %p = linalg.pack %w padding_value(%zero : f32) inner_dims_pos = [0] inner_tiles = [8] into %room
     : tensor<6x6xf32> -> tensor<1x6x8xf32>
  %normed = "llmc.rms_norm"(%x, %n) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 0.0, offset = 0.0}
          : (tensor<1x1x6xf32>, tensor<6xf32>) -> tensor<1x1x6xf32>
  %y = "llmc.packed_linear"(%normed, %p) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 8 : i64}
     : (tensor<1x1x6xf32>, tensor<1x6x8xf32>) -> tensor<1x1x6xf32>
  return %y : tensor<1x1x6xf32>
}

// A trunk's are not stacked; variants share one global.
// CHECK-LABEL: func.func @decode
// CHECK-NOT:     tensor.extract_slice
// CHECK:         %[[W:.+]] = ml_program.global_load @embed : tensor<10x6xf32>
// CHECK-NOT:     llmc.parameter
// CHECK:         tensor.extract %[[W]][%arg0, %arg0]
// CHECK:         arith.addf %[[W]], %[[W]]
//
// A lookup widens one element, anything else the whole.
// F16-LABEL:   func.func @decode
// F16:           %[[W:.+]] = ml_program.global_load @embed : tensor<10x6xf16>
// F16:           %[[WIDE:.+]] = linalg.generic {{.+}} ins(%[[W]] : tensor<10x6xf16>)
// F16:             arith.extf
// F16:           %[[E:.+]] = tensor.extract %[[W]][%arg0, %arg0] : tensor<10x6xf16>
// F16-NEXT:      arith.extf %[[E]] : f16 to f32
// F16:           arith.addf %[[WIDE]], %[[WIDE]] : tensor<10x6xf32>
// Integers have no other storage.
// F16:           ml_program.global_load @ids : tensor<2x2xi64>
func.func @decode(%i: index) -> (f32, tensor<10x6xf32>, tensor<2x2xi64>) {
  %w = "llmc.parameter"() {sources = ["embed"]} : () -> tensor<10x6xf32>
  %e = tensor.extract %w[%i, %i] : tensor<10x6xf32>
  %twice = arith.addf %w, %w : tensor<10x6xf32>
  %ids = "llmc.parameter"() {sources = ["ids"]} : () -> tensor<2x2xi64>
  return %e, %twice, %ids : f32, tensor<10x6xf32>, tensor<2x2xi64>
}

// CHECK-LABEL: func.func @prefill
// CHECK:         ml_program.global_load @embed : tensor<10x6xf32>
func.func @prefill() -> tensor<10x6xf32> {
  %w = "llmc.parameter"() {sources = ["embed"]} : () -> tensor<10x6xf32>
  return %w : tensor<10x6xf32>
}

// An embedding widens what it looks up itself.
// F16-LABEL:   func.func @embed_tokens
// F16:           %[[W:.+]] = ml_program.global_load @embed
// F16-NEXT:      "llmc.embedding"(%arg0, %[[W]]) : (tensor<?xi64>, tensor<10x6xf16>) -> tensor<?x6xf32>
func.func @embed_tokens(%ids: tensor<?xi64>) -> tensor<?x6xf32> {
  %w = "llmc.parameter"() {sources = ["embed"]} : () -> tensor<10x6xf32>
  %e = "llmc.embedding"(%ids, %w) : (tensor<?xi64>, tensor<10x6xf32>) -> tensor<?x6xf32>
  return %e : tensor<?x6xf32>
}

// A layer of one output has a vector.
// F16-LABEL:   func.func @one_output
// F16:           ml_program.global_load @gate : tensor<1x6xf32>
func.func @one_output() -> tensor<1x6xf32> {
  %w = "llmc.parameter"() {sources = ["gate"]} : () -> tensor<1x6xf32>
  return %w : tensor<1x6xf32>
}

// -----

// What differs has a name of its own: two weights in one, the same one in three forms. Equal
// expressions share a global, whatever the order of their operations. What nothing reads has none.
// CHECK-DAG:   @a.q_k.weight({{.+}}) : tensor<5x6xf32> {llmc.recipe = {dim = 0 : i64, op = "tensor.concat", operands = {{\[}}["a.q.weight"], ["a.k.weight"]]}}
// CHECK-DAG:   @a.q.weight({{.+}}) : tensor<6x4xf32> {llmc.recipe = {op = "linalg.transpose", operands = {{\[}}["a.q.weight"]], permutation = array<i64: 1, 0>}}
// CHECK-DAG:   @a.q.weight.scale_columns({{.+}}) : tensor<4x6xf32> {llmc.recipe = {offset = 1.000000e+00 : f64, op = "llmc.scale_columns", operands = {{\[}}["a.q.weight"], ["norm"]]}}
// CHECK-DAG:   @a.q.weight.plain({{.+}}) : tensor<4x6xf32> {llmc.recipe = ["a.q.weight"]}
// CHECK-NOT:   ml_program.global private
// CHECK-LABEL: func.func @prefill
func.func @prefill() -> (tensor<5x6xf32>, tensor<6x4xf32>, tensor<4x6xf32>, tensor<4x6xf32>) {
  %dead = "llmc.parameter"() {sources = ["dead"]} : () -> tensor<6xf32>
  %q = "llmc.parameter"() {sources = ["a.q.weight"]} : () -> tensor<4x6xf32>
  %k = "llmc.parameter"() {sources = ["a.k.weight"]} : () -> tensor<1x6xf32>
  %g = "llmc.parameter"() {sources = ["norm"]} : () -> tensor<6xf32>
  %scaled = "llmc.scale_columns"(%q, %g) {offset = 1.0} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %room = tensor.empty() : tensor<6x4xf32>
  %turned = linalg.transpose ins(%q : tensor<4x6xf32>) outs(%room : tensor<6x4xf32>) permutation = [1, 0]
  %both = tensor.concat dim(0) %q, %k : (tensor<4x6xf32>, tensor<1x6xf32>) -> tensor<5x6xf32>
  return %both, %turned, %scaled, %q : tensor<5x6xf32>, tensor<6x4xf32>, tensor<4x6xf32>, tensor<4x6xf32>
}

// CHECK-LABEL: func.func @decode
// CHECK:         ml_program.global_load @a.q_k.weight
func.func @decode() -> tensor<5x6xf32> {
  %k = "llmc.parameter"() {sources = ["a.k.weight"]} : () -> tensor<1x6xf32>
  %q = "llmc.parameter"() {sources = ["a.q.weight"]} : () -> tensor<4x6xf32>
  %both = tensor.concat dim(0) %q, %k : (tensor<4x6xf32>, tensor<1x6xf32>) -> tensor<5x6xf32>
  return %both : tensor<5x6xf32>
}

// -----

// A vector is bound as one, and so kept in float32; a matrix is no vector.
// CHECK-DAG:   @bias({{.+}}) : tensor<6xf32> {llmc.recipe = {op = "tensor.collapse_shape", operands = {{\[}}["bias"]]}}
// CHECK-DAG:   @matrix({{.+}}) : tensor<2x6xf32> {llmc.recipe = ["matrix"]}
// F16-LABEL:   func.func @vector
// F16-DAG:       ml_program.global_load @bias : tensor<6xf32>
// F16-DAG:       ml_program.global_load @matrix : tensor<2x6xf16>
func.func @vector() -> (tensor<6xf32>, tensor<12xf32>) {
  %b = "llmc.parameter"() {sources = ["bias"]} : () -> tensor<1x6xf32>
  %m = "llmc.parameter"() {sources = ["matrix"]} : () -> tensor<2x6xf32>
  %v = tensor.collapse_shape %b [[0, 1]] : tensor<1x6xf32> into tensor<6xf32>
  %c = tensor.collapse_shape %m [[0, 1]] : tensor<2x6xf32> into tensor<12xf32>
  return %v, %c : tensor<6xf32>, tensor<12xf32>
}

// -----

// What is computed from anything but weights stays in the program.
// CHECK-LABEL: func.func @activations
// CHECK:         ml_program.global_load @w : tensor<4x6xf32>
// CHECK:         tensor.concat
// CHECK:         linalg.pack {{.+}} padding_value
// CHECK:         arith.addf
func.func @activations(%x: tensor<1x6xf32>, %pad: f32) -> (tensor<5x6xf32>, tensor<1x6x8xf32>, tensor<4x6xf32>) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<4x6xf32>
  %c = tensor.concat dim(0) %w, %x : (tensor<4x6xf32>, tensor<1x6xf32>) -> tensor<5x6xf32>
  %room = tensor.empty() : tensor<1x6x8xf32>
  %p = linalg.pack %w padding_value(%pad : f32) inner_dims_pos = [0] inner_tiles = [8] into %room
     : tensor<4x6xf32> -> tensor<1x6x8xf32>
  %s = arith.addf %w, %w : tensor<4x6xf32>
  return %c, %p, %s : tensor<5x6xf32>, tensor<1x6x8xf32>, tensor<4x6xf32>
}

// -----

// expected-error@+1 {{layer function has no 'llmc.layer_argument': run number-layers first}}
func.func private @decode.layer0(%x: tensor<6xf32>) -> tensor<6xf32> {
  %n = "llmc.parameter"() {sources = ["layers.0.norm"]} : () -> tensor<6xf32>
  return %n : tensor<6xf32>
}

// -----

func.func @decode() -> tensor<6xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<6xf32>
  return %w : tensor<6xf32>
}
func.func @prefill() -> tensor<5xf32> {
  // expected-error@+1 {{'w' is needed as tensor<5xf32>, and elsewhere as tensor<6xf32>}}
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<5xf32>
  return %w : tensor<5xf32>
}

// -----

func.func @decode() -> tensor<6xf32> {
  // expected-error@+1 {{2 weights are named, but 1 needed}}
  %w = "llmc.parameter"() {sources = ["v", "w"]} : () -> tensor<6xf32>
  return %w : tensor<6xf32>
}

// -----

func.func private @decode.layer0(%x: tensor<4x6xf32>, %layer: index) -> tensor<4x6xf32> attributes {llmc.layer_argument = 1 : index} {
  // expected-error@+1 {{1 weights are named, but 2 needed}}
  %n = "llmc.parameter"() {sources = ["layers.0.w"]} : () -> tensor<6x6xf32>
  %y = "llmc.linear"(%x, %n) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64} : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}
func.func @decode(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = call @decode.layer0(%x, %c0) : (tensor<4x6xf32>, index) -> tensor<4x6xf32>
  %b = call @decode.layer0(%a, %c1) : (tensor<4x6xf32>, index) -> tensor<4x6xf32>
  return %b : tensor<4x6xf32>
}
