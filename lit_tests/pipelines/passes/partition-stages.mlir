// RUN: llmc-opt %s --pass-pipeline='builtin.module(partition-stages{rank=0},canonicalize)' | filecheck %s --check-prefix=FIRST
// RUN: llmc-opt %s --pass-pipeline='builtin.module(partition-stages{rank=1},canonicalize)' | filecheck %s --check-prefix=MIDDLE
// RUN: llmc-opt %s --pass-pipeline='builtin.module(partition-stages{rank=2},canonicalize)' | filecheck %s --check-prefix=LAST

shard.grid @grid(shape = 3) {llmc.axes = ["pp"]}

// A layer's function keeps the weights of this stage's calls.
// FIRST:  func.func private @prefill.layer0
// FIRST:  sources = ["w0", "w1"]
// MIDDLE: func.func private @prefill.layer0
// MIDDLE: llmc.stored = ["q4_0"], sources = ["w2"]
// LAST-NOT: func.func private @prefill.layer0
func.func private @prefill.layer0(%x: tensor<1x?x32xf32>, %scale: tensor<32xf32>) -> tensor<1x?x32xf32> {
  %w = "llmc.parameter"() {llmc.stored = ["q4_1", "q4_1", "q4_0"], sources = ["w0", "w1", "w2"]}
      : () -> tensor<32x32xf32>
  %0 = "llmc.linear"(%x, %w, %scale) {operandSegmentSizes = array<i32: 1, 1, 1>, transposed = 0 : i64}
      : (tensor<1x?x32xf32>, tensor<32x32xf32>, tensor<32xf32>) -> tensor<1x?x32xf32>
  return %0 : tensor<1x?x32xf32>
}
// LAST:   func.func private @prefill.layer1
// LAST:   sources = ["v0"]
func.func private @prefill.layer1(%x: tensor<1x?x32xf32>, %scale: tensor<32xf32>) -> tensor<1x?x32xf32> {
  %w = "llmc.parameter"() {sources = ["v0"]} : () -> tensor<32x32xf32>
  %0 = "llmc.linear"(%x, %w, %scale) {operandSegmentSizes = array<i32: 1, 1, 1>, transposed = 0 : i64}
      : (tensor<1x?x32xf32>, tensor<32x32xf32>, tensor<32xf32>) -> tensor<1x?x32xf32>
  return %0 : tensor<1x?x32xf32>
}

// The first stage looks up tokens and hands on; the last computes the result, which all get.
// FIRST-LABEL:  func.func @prefill(
// MIDDLE-LABEL: func.func @prefill(
// LAST-LABEL:   func.func @prefill(
func.func @prefill(%ids: tensor<1x?xi64>) -> tensor<1x?x8xf32> {
  // FIRST:      "llmc.embedding"
  // FIRST-COUNT-2: call @prefill.layer0
  // FIRST:      shard.send %{{.+}} on @grid grid_axes = [0] destination = [1]
  // FIRST:      %[[ROOM:.+]] = tensor.empty(%{{.+}}) : tensor<1x?x8xf32>
  // FIRST-NEXT: %[[ALL:.+]] = shard.broadcast %[[ROOM]] on @grid grid_axes = [0] root = [2]
  // FIRST-NEXT: return %[[ALL]]

  // What follows from no layer is where it is needed.
  // MIDDLE-NOT: "llmc.embedding"
  // MIDDLE:     %[[SCALE:.+]] = "llmc.parameter"() {sources = ["scale"]}
  // MIDDLE:     %[[IN:.+]] = shard.recv %{{.+}} on @grid grid_axes = [0] source = [0]
  // MIDDLE-NEXT: %[[OUT:.+]] = call @prefill.layer0(%[[IN]], %[[SCALE]])
  // MIDDLE:     shard.send %[[OUT]] on @grid grid_axes = [0] destination = [2]
  // MIDDLE:     shard.broadcast

  // LAST:       %[[IN:.+]] = shard.recv %{{.+}} on @grid grid_axes = [0] source = [1]
  // LAST-NEXT:  %[[OUT:.+]] = call @prefill.layer1(%[[IN]]
  // LAST-NOT:   shard.send
  // LAST:       %[[Y:.+]] = "llmc.linear"(%[[OUT]]
  // LAST-NEXT:  %[[ALL:.+]] = shard.broadcast %[[Y]]
  // LAST-NEXT:  return %[[ALL]]
  %scale = "llmc.parameter"() {sources = ["scale"]} : () -> tensor<32xf32>
  %table = "llmc.parameter"() {sources = ["table"]} : () -> tensor<8x32xf32>
  %0 = "llmc.embedding"(%ids, %table) : (tensor<1x?xi64>, tensor<8x32xf32>) -> tensor<1x?x32xf32>
  %1 = call @prefill.layer0(%0, %scale) {llmc.pipeline_stage = 0 : i64}
      : (tensor<1x?x32xf32>, tensor<32xf32>) -> tensor<1x?x32xf32>
  %2 = call @prefill.layer0(%1, %scale) {llmc.pipeline_stage = 0 : i64}
      : (tensor<1x?x32xf32>, tensor<32xf32>) -> tensor<1x?x32xf32>
  %3 = call @prefill.layer0(%2, %scale) {llmc.pipeline_stage = 1 : i64}
      : (tensor<1x?x32xf32>, tensor<32xf32>) -> tensor<1x?x32xf32>
  %4 = call @prefill.layer1(%3, %scale) {llmc.pipeline_stage = 2 : i64}
      : (tensor<1x?x32xf32>, tensor<32xf32>) -> tensor<1x?x32xf32>
  %5 = "llmc.linear"(%4, %table) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x?x32xf32>, tensor<8x32xf32>) -> tensor<1x?x8xf32>
  return %5 : tensor<1x?x8xf32>
}

func.func private @early.layer2(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}

// What no later layer needs goes to all from where it is made.
// FIRST-LABEL: func.func @early(
// FIRST:         %[[Y:.+]] = call @early.layer2
// FIRST-NEXT:    shard.broadcast %[[Y]] on @grid grid_axes = [0] root = [0]
// LAST-LABEL:  func.func @early(
// LAST-NOT:      call
// LAST:          shard.broadcast %{{.+}} on @grid grid_axes = [0] root = [0]
func.func @early(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = call @early.layer2(%x) {llmc.pipeline_stage = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

func.func private @two.layer3(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  return %x, %x : tensor<4x8xf32>, tensor<4x8xf32>
}
func.func private @two.layer4(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  return %y : tensor<4x8xf32>
}

// A layer gets all that an earlier stage hands on to it.
// FIRST-LABEL:  func.func @two(
// FIRST:          %[[Y:.+]]:2 = call @two.layer3
// FIRST:          shard.send %[[Y]]#0
// FIRST:          shard.send %[[Y]]#1
// MIDDLE-LABEL: func.func @two(
// MIDDLE-DAG:     %[[A:.+]] = shard.recv
// MIDDLE-DAG:     %[[B:.+]] = shard.recv
// MIDDLE:         %[[Y:.+]] = call @two.layer4(%[[A]], %[[B]])
// MIDDLE:         shard.broadcast %[[Y]] on @grid grid_axes = [0] root = [1]
func.func @two(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0, %1 = call @two.layer3(%x) {llmc.pipeline_stage = 0 : i64}
      : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  %2 = call @two.layer4(%0, %1) {llmc.pipeline_stage = 1 : i64}
      : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
