// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(quantize-weights)' | filecheck %s
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(quantize-weights{format=q8_0})' | filecheck %s --check-prefix=WIDE
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(quantize-weights{format=as-is})' | filecheck %s --check-prefix=STORED
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(quantize-weights{format=int4_g128})' | filecheck %s --check-prefix=GROUPS
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(quantize-weights{format=q6_0})' 2>&1 | filecheck %s --check-prefix=UNKNOWN

// UNKNOWN: error: option 'format' of pass 'quantize-weights' must be one of q4_0, q4_1, q5_0, q5_1, q6_g16, q8_0, int4_g64, int4_g128, as-is, not 'q6_0'

// CHECK-LABEL: func.func @layer
// CHECK:         %[[W:.+]] = "llmc.parameter"() {sources = ["a", "b"]} : () -> tensor<8x64xf32>
// CHECK:         %[[Q:.+]] = "llmc.quantize"(%[[W]]) : (tensor<8x64xf32>) -> tensor<8x2x!llmc.q4_0>
// CHECK-NEXT:    "llmc.quantized_linear"(%arg0, %[[Q]], %arg1) {operandSegmentSizes = array<i32: 1, 1, 0, 1>}
// WIDE:          "llmc.quantize"(%{{.+}}) : (tensor<8x64xf32>) -> tensor<8x2x!llmc.q8_0>
// STORED-LABEL: func.func @layer
// STORED:         "llmc.linear"
func.func @layer(%x: tensor<1x?x64xf32>, %b: tensor<8xf32>) -> tensor<1x?x8xf32> {
  %w = "llmc.parameter"() {sources = ["a", "b"]} : () -> tensor<8x64xf32>
  %y = "llmc.linear"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, transposed = 0 : i64}
     : (tensor<1x?x64xf32>, tensor<8x64xf32>, tensor<8xf32>) -> tensor<1x?x8xf32>
  return %y : tensor<1x?x8xf32>
}

// Rows that are no whole blocks, columns, narrow weights, and what is no weight stay.
// CHECK-LABEL: func.func @others
// CHECK-NOT:     llmc.quantize
// CHECK:         return
func.func @others(%x: tensor<3x60xf32>, %t: tensor<3x64xf32>, %given: tensor<8x64xf32>)
    -> (tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>) {
  %part = "llmc.parameter"() {sources = ["part"]} : () -> tensor<8x60xf32>
  %columns = "llmc.parameter"() {sources = ["columns"]} : () -> tensor<64x8xf32>
  %narrow = "llmc.parameter"() {sources = ["narrow"]} : () -> tensor<8x64xf16>
  %0 = "llmc.linear"(%x, %part) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<3x60xf32>, tensor<8x60xf32>) -> tensor<3x8xf32>
  %1 = "llmc.linear"(%t, %columns) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 1 : i64}
     : (tensor<3x64xf32>, tensor<64x8xf32>) -> tensor<3x8xf32>
  %2 = "llmc.linear"(%t, %narrow) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<3x64xf32>, tensor<8x64xf16>) -> tensor<3x8xf32>
  %3 = "llmc.linear"(%t, %given) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<3x64xf32>, tensor<8x64xf32>) -> tensor<3x8xf32>
  return %0, %1, %2, %3 : tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>
}

// Rows that blocks of 128 do not fill are made of the largest that do.
// GROUPS-LABEL: func.func @groups
// GROUPS:         tensor<8x2x!llmc.int4_g128>
// GROUPS:         tensor<8x9x!llmc.int4_g64>
// GROUPS:         tensor<8x3x!llmc.q4_1>
func.func @groups(%x: tensor<3x256xf32>, %y: tensor<3x576xf32>, %z: tensor<3x96xf32>)
    -> (tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>) {
  %a = "llmc.parameter"() {sources = ["a"]} : () -> tensor<8x256xf32>
  %b = "llmc.parameter"() {sources = ["b"]} : () -> tensor<8x576xf32>
  %c = "llmc.parameter"() {sources = ["c"]} : () -> tensor<8x96xf32>
  %0 = "llmc.linear"(%x, %a) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<3x256xf32>, tensor<8x256xf32>) -> tensor<3x8xf32>
  %1 = "llmc.linear"(%y, %b) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<3x576xf32>, tensor<8x576xf32>) -> tensor<3x8xf32>
  %2 = "llmc.linear"(%z, %c) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<3x96xf32>, tensor<8x96xf32>) -> tensor<3x8xf32>
  return %0, %1, %2 : tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>
}

// A tied embedding looks up in the blocks of the output head. As it is: the layers' widest format.
// CHECK-LABEL: func.func @head
// CHECK:         %[[Q:.+]] = "llmc.quantize"(%{{.+}}) : (tensor<8x64xf32>) -> tensor<8x2x!llmc.q4_0>
// CHECK-DAG:     "llmc.embedding"(%arg1, %[[Q]])
// CHECK-DAG:     "llmc.quantized_linear"(%arg0, %[[Q]])
// STORED-LABEL: func.func @head
// STORED:         llmc.stored = ["q4_1", "q8_0"]
// STORED:         "llmc.quantize"(%{{.+}}) : (tensor<8x64xf32>) -> tensor<8x2x!llmc.q8_0>
func.func @head(%x: tensor<3x64xf32>, %i: tensor<3xi64>) -> (tensor<3x8xf32>, tensor<3x64xf32>) {
  %w = "llmc.parameter"() {sources = ["head0", "head1"], llmc.stored = ["q4_1", "q8_0"]} : () -> tensor<8x64xf32>
  %e = "llmc.embedding"(%i, %w) : (tensor<3xi64>, tensor<8x64xf32>) -> tensor<3x64xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<3x64xf32>, tensor<8x64xf32>) -> tensor<3x8xf32>
  return %y, %e : tensor<3x8xf32>, tensor<3x64xf32>
}

// Experts read the blocks themselves; stored transposed, their rows are no inputs.
// CHECK-LABEL: func.func @experts
// CHECK:         %[[Q:.+]] = "llmc.quantize"(%{{.+}}) : (tensor<4x8x64xf32>) -> tensor<4x8x2x!llmc.q4_0>
// CHECK:         "llmc.expert_linear"(%arg0, %arg1, %[[Q]]) {top_k = 2 : i64, transposed = 0 : i64}
// CHECK:         "llmc.expert_linear"({{.+}}tensor<4x64x8xf32>
// STORED-LABEL: func.func @experts
// STORED:         "llmc.quantize"(%{{.+}}) : (tensor<4x8x64xf32>) -> tensor<4x8x2x!llmc.q8_0>
func.func @experts(%x: tensor<3x64xf32>, %e: tensor<6xi64>) -> (tensor<6x8xf32>, tensor<6x8xf32>) {
  %w = "llmc.parameter"() {sources = ["experts"], llmc.stored = ["q8_0"]} : () -> tensor<4x8x64xf32>
  %y = "llmc.expert_linear"(%x, %e, %w) {top_k = 2 : i64, transposed = 0 : i64}
     : (tensor<3x64xf32>, tensor<6xi64>, tensor<4x8x64xf32>) -> tensor<6x8xf32>
  %t = "llmc.parameter"() {sources = ["transposed"]} : () -> tensor<4x64x8xf32>
  %z = "llmc.expert_linear"(%x, %e, %t) {top_k = 2 : i64, transposed = 1 : i64}
     : (tensor<3x64xf32>, tensor<6xi64>, tensor<4x64x8xf32>) -> tensor<6x8xf32>
  return %y, %z : tensor<6x8xf32>, tensor<6x8xf32>
}

// What chooses experts stays exact.
// CHECK-LABEL: func.func @router
// CHECK:         "llmc.linear"
// STORED-LABEL: func.func @router
func.func @router(%x: tensor<3x64xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>) {
  %w = "llmc.parameter"() {sources = ["router"]} : () -> tensor<8x64xf32>
  %logits = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<3x64xf32>, tensor<8x64xf32>) -> tensor<3x8xf32>
  %weights, %experts = "llmc.route"(%logits) {normalised = 1 : i64} : (tensor<3x8xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>)
  return %weights, %experts : tensor<3x2xf32>, tensor<3x2xi64>
}

// CHECK-LABEL: func.func @router_with_bias
// CHECK:         "llmc.linear"
// STORED-LABEL: func.func @router_with_bias
func.func @router_with_bias(%x: tensor<3x64xf32>, %b: tensor<8xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>) {
  %w = "llmc.parameter"() {sources = ["scored_router"]} : () -> tensor<8x64xf32>
  %logits = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<3x64xf32>, tensor<8x64xf32>) -> tensor<3x8xf32>
  %weights, %experts = "llmc.scored_route"(%logits, %b) {best = 1 : i64, groups = 1 : i64, kept_groups = 1 : i64, normalised = 1 : i64, operandSegmentSizes = array<i32: 1, 1>, scale = 1.0 : f64, sigmoid = 1 : i64}
     : (tensor<3x8xf32>, tensor<8xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>)
  return %weights, %experts : tensor<3x2xf32>, tensor<3x2xi64>
}

// Be it by operations of no dialect of ours.
// CHECK-LABEL: func.func @router_of_its_own
// CHECK:         "llmc.linear"
// STORED-LABEL: func.func @router_of_its_own
func.func @router_of_its_own(%x: tensor<3x64xf32>, %experts: tensor<8x64x64xf32>) -> tensor<3x64xf32> {
  %w = "llmc.parameter"() {sources = ["own_router"]} : () -> tensor<8x64xf32>
  %logits = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<3x64xf32>, tensor<8x64xf32>) -> tensor<3x8xf32>
  %least = arith.constant dense<0xFF800000> : tensor<3xf32>
  %first = arith.constant dense<0> : tensor<3xi64>
  %largest:2 = linalg.generic {indexing_maps = [affine_map<(t, e) -> (t, e)>, affine_map<(t, e) -> (t)>, affine_map<(t, e) -> (t)>], iterator_types = ["parallel", "reduction"]}
    ins(%logits : tensor<3x8xf32>) outs(%least, %first : tensor<3xf32>, tensor<3xi64>) {
  ^bb0(%e: f32, %best: f32, %at: i64):
    %i = linalg.index 1 : index
    %n = arith.index_cast %i : index to i64
    %more = arith.cmpf ogt, %e, %best : f32
    %b = arith.select %more, %e, %best : f32
    %a = arith.select %more, %n, %at : i64
    linalg.yield %b, %a : f32, i64
  } -> (tensor<3xf32>, tensor<3xi64>)
  %y = "llmc.expert_linear"(%x, %largest#1, %experts) {top_k = 1 : i64, transposed = 0 : i64}
     : (tensor<3x64xf32>, tensor<3xi64>, tensor<8x64x64xf32>) -> tensor<3x64xf32>
  return %y : tensor<3x64xf32>
}

// So does what gives one number, by which much is weighed.
// CHECK-LABEL: func.func @gate
// CHECK:         "llmc.linear"
// STORED-LABEL: func.func @gate
func.func @gate(%x: tensor<3x64xf32>) -> tensor<3x1xf32> {
  %w = "llmc.parameter"() {sources = ["gate"]} : () -> tensor<1x64xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<3x64xf32>, tensor<1x64xf32>) -> tensor<3x1xf32>
  return %y : tensor<3x1xf32>
}

// A table that is looked up in alone keeps its form, unless it is stored as blocks.
// CHECK-LABEL: func.func @table
// CHECK:         "llmc.embedding"(%arg0, %{{.+}}) : (tensor<3xi64>, tensor<8x64xf32>)
// CHECK:         "llmc.embedding"(%arg0, %{{.+}}) : (tensor<3xi64>, tensor<8x2x!llmc.q4_0>)
// STORED-LABEL: func.func @table
// STORED:         "llmc.embedding"(%arg0, %{{.+}}) : (tensor<3xi64>, tensor<8x64xf32>)
// STORED:         "llmc.embedding"(%arg0, %{{.+}}) : (tensor<3xi64>, tensor<8x2x!llmc.q8_0>)
func.func @table(%i: tensor<3xi64>) -> (tensor<3x64xf32>, tensor<3x64xf32>) {
  %plain = "llmc.parameter"() {sources = ["plain"]} : () -> tensor<8x64xf32>
  %blocks = "llmc.parameter"() {sources = ["blocks"], llmc.stored = ["q8_0"]} : () -> tensor<8x64xf32>
  %a = "llmc.embedding"(%i, %plain) : (tensor<3xi64>, tensor<8x64xf32>) -> tensor<3x64xf32>
  %b = "llmc.embedding"(%i, %blocks) : (tensor<3xi64>, tensor<8x64xf32>) -> tensor<3x64xf32>
  return %a, %b : tensor<3x64xf32>, tensor<3x64xf32>
}

// A weight that something else reads too would be stored twice.
// CHECK-LABEL: func.func @tied
// CHECK:         "llmc.linear"
// STORED-LABEL: func.func @tied
// STORED:         "llmc.linear"
func.func @tied(%x: tensor<3x64xf32>, %i: index) -> (tensor<3x8xf32>, f32) {
  %w = "llmc.parameter"() {sources = ["tied"]} : () -> tensor<8x64xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<3x64xf32>, tensor<8x64xf32>) -> tensor<3x8xf32>
  %e = tensor.extract %w[%i, %i] : tensor<8x64xf32>
  return %y, %e : tensor<3x8xf32>, f32
}

// -----

// An invalid layer is an error.
func.func @invalid(%x: tensor<3x32xf32>) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<8x64xf32>
  // expected-error@+1 {{'llmc.linear' op operand 'x' must have its last dimension = 64, but has 32}}
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<3x32xf32>, tensor<8x64xf32>) -> tensor<3x8xf32>
  return
}
