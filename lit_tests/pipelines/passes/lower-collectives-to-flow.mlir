// RUN: llmc-opt %s --pass-pipeline='builtin.module(lower-collectives-to-flow)' | filecheck %s
// RUN: not llmc-opt %S/lower-collectives.mlir --pass-pipeline='builtin.module(lower-collectives-to-flow)' 2>&1 | filecheck %s --check-prefix=STAGES

// STAGES: error: IREE drops what is sent and not returned: GPUs take no pp

// CHECK-NOT: shard.grid
shard.grid @grid(shape = 2x2) {llmc.axes = ["dp", "tp"], llmc.rank = 3 : i64}

// The ranks 2 and 3 are a group, of which rank 3 is the second.
// CHECK-LABEL: func.func @reduce
func.func @reduce(%x: tensor<1x?x8xf32>) -> tensor<1x?x8xf32> {
  // CHECK:      %[[ALL:.+]] = "flow.channel.default"() : () -> !flow.channel
  // CHECK-NEXT: %[[COLOR:.+]] = arith.constant 2 : index
  // CHECK-NEXT: %[[KEY:.+]] = arith.constant 1 : index
  // CHECK-NEXT: %[[GROUP:.+]] = "flow.channel.split"(%[[ALL]], %[[COLOR]], %[[KEY]])
  // CHECK:      %[[SIZE:.+]] = tensor.dim %arg0
  // CHECK-NEXT: %[[ROOM:.+]] = tensor.empty(%[[SIZE]]) : tensor<1x?x8xf32>
  // CHECK-NEXT: "flow.collective.all_reduce"(%[[ROOM]], %[[SIZE]], %arg0, %[[GROUP]])
  // CHECK-SAME:   element_type = 9 : i32, reduction_op = 1 : i32, tied_operands = [0 : index]
  %0 = shard.all_reduce %x on @grid grid_axes = [1] : tensor<1x?x8xf32> -> tensor<1x?x8xf32>
  return %0 : tensor<1x?x8xf32>
}

// Pieces are gathered in a new outermost dimension; all ranks need no channel of their own.
// CHECK-LABEL: func.func @gather
func.func @gather(%x: tensor<3x8xf32>) -> tensor<3x32xf32> {
  // CHECK-NOT:  flow.channel.split
  // CHECK:      %[[ALL:.+]] = "flow.collective.all_gather"({{.*}} : (tensor<4x3x8xf32>, tensor<1x3x8xf32>
  // CHECK:      linalg.transpose ins(%[[ALL]] : {{.*}} permutation = [1, 0, 2]
  %0 = shard.all_gather %x on @grid grid_axes = [0, 1] gather_axis = 1 : tensor<3x8xf32> -> tensor<3x32xf32>
  return %0 : tensor<3x32xf32>
}

// Who is not the root of a broadcast adds zeros.
// CHECK-LABEL: func.func @broadcast
func.func @broadcast(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK:      %[[ZEROS:.+]] = linalg.fill
  // CHECK:      "flow.collective.all_reduce"(%{{.+}}, %[[ZEROS]],
  // CHECK:      "flow.collective.all_reduce"(%{{.+}}, %arg1,
  %0 = shard.broadcast %x on @grid grid_axes = [1] root = [0] : (tensor<8xf32>) -> tensor<8xf32>
  %1 = shard.broadcast %y on @grid grid_axes = [1] root = [1] : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
