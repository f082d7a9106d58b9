// RUN: llmc-opt %s --pass-pipeline='builtin.module(lower-collectives)' | filecheck %s

#identity = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i) -> (i)>

// The grid goes, and what is called is declared.
// CHECK-NOT: shard.
// CHECK-DAG: func.func private @collective.all_reduce(tensor<?xf32>, i32) -> tensor<?xf32>
// CHECK-DAG: func.func private @collective.all_gather(tensor<?xf32>, i32) -> tensor<?xf32>
shard.grid @grid(shape = 2x2x2) {llmc.axes = ["dp", "pp", "tp"]}

// CHECK-LABEL: func.func @reduce
func.func @reduce(%x: tensor<1x?x8xf32>) -> tensor<1x?x8xf32> {
  // CHECK:      tensor.collapse_shape %arg0 {{\[\[}}0, 1, 2]]
  // Axes 0 and 2 are the bits 1 and 4.
  // CHECK:      %[[AXES:.+]] = arith.constant 5 : i32
  // CHECK-NEXT: %[[SUM:.+]] = call @collective.all_reduce(%{{.+}}, %[[AXES]])
  // CHECK:      tensor.expand_shape %[[SUM]] {{\[\[}}0, 1, 2]] output_shape [1, %{{.+}}, 8]
  %0 = shard.all_reduce %x on @grid grid_axes = [0, 2] : tensor<1x?x8xf32> -> tensor<1x?x8xf32>
  return %0 : tensor<1x?x8xf32>
}

// One row's pieces are in order as they come.
// CHECK-LABEL: func.func @gather_row
func.func @gather_row(%x: tensor<1x8xf32>) -> tensor<1x16xf32> {
  // CHECK:      call @collective.all_gather
  // CHECK-NOT:  linalg.transpose
  // CHECK:      return %{{.+}} : tensor<1x16xf32>
  %0 = shard.all_gather %x on @grid grid_axes = [1] gather_axis = 1 : tensor<1x8xf32> -> tensor<1x16xf32>
  return %0 : tensor<1x16xf32>
}

// Those of several rows are not.
// CHECK-LABEL: func.func @gather_rows
func.func @gather_rows(%x: tensor<?x8xf32>) -> tensor<?x16xf32> {
  // CHECK:      %[[FLAT:.+]] = call @collective.all_gather
  // CHECK:      %[[PIECES:.+]] = tensor.expand_shape %[[FLAT]] {{.*}} into tensor<2x?x8xf32>
  // CHECK:      linalg.transpose ins(%[[PIECES]] : {{.*}} permutation = [1, 0, 2]
  // CHECK:      tensor.collapse_shape {{.*}} : tensor<?x2x8xf32> into tensor<?x16xf32>
  %0 = shard.all_gather %x on @grid grid_axes = [1] gather_axis = 1 : tensor<?x8xf32> -> tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}

// What is received has a length; the size of what all get is that of what comes.
// CHECK-LABEL: func.func @stages
func.func @stages(%x: tensor<1x?x8xf32>) -> (tensor<1x?x8xf32>, tensor<?x8xf32>) {
  // CHECK:      call @collective.send(%{{.+}}, %{{.+}}, %{{.+}}) : (tensor<?xf32>, i32, i32) -> ()
  %0 = shard.send %x on @grid grid_axes = [1] destination = [1]
      : (tensor<1x?x8xf32>) -> tensor<1x?x8xf32>
  // CHECK:      %[[LENGTH:.+]] = arith.index_cast %{{.+}} : index to i64
  // CHECK:      call @collective.receive(%[[LENGTH]], %{{.+}}, %{{.+}}) : (i64, i32, i32)
  %1 = shard.recv %x on @grid grid_axes = [1] source = [0]
      : (tensor<1x?x8xf32>) -> tensor<1x?x8xf32>
  // CHECK:      %[[ALL:.+]] = call @collective.broadcast
  // CHECK:      %[[COUNT:.+]] = tensor.dim %[[ALL]]
  // CHECK:      %[[ROWS:.+]] = arith.divui %[[COUNT]]
  // CHECK:      tensor.expand_shape %[[ALL]] {{.*}} output_shape [%[[ROWS]], 8]
  %2 = tensor.collapse_shape %1 [[0, 1], [2]] : tensor<1x?x8xf32> into tensor<?x8xf32>
  %3 = shard.broadcast %2 on @grid grid_axes = [1] root = [1] : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %1, %3 : tensor<1x?x8xf32>, tensor<?x8xf32>
}

// The parts of several rows follow one after another, for a rank to get its own.
// CHECK-LABEL: func.func @scatter_rows
func.func @scatter_rows(%x: tensor<?x16xf32>) -> tensor<?x8xf32> {
  // CHECK:      tensor.expand_shape %arg0 {{.*}} into tensor<?x2x8xf32>
  // CHECK:      linalg.transpose {{.*}} outs({{.*}} tensor<2x?x8xf32>) permutation = [1, 0, 2]
  // CHECK:      %[[PART:.+]] = call @collective.reduce_scatter(%{{.+}}, %{{.+}}) : (tensor<?xf32>, i32)
  // CHECK:      tensor.expand_shape %[[PART]] {{.*}} into tensor<?x8xf32>
  %0 = shard.reduce_scatter %x on @grid grid_axes = [1] scatter_dim = 1 : tensor<?x16xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @pass_on
func.func @pass_on(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK:      %[[BY:.+]] = arith.constant 1 : i32
  // CHECK:      call @collective.shift(%{{.+}}, %[[BY]], %{{.+}}) : (tensor<?xf32>, i32, i32)
  %0 = shard.shift %x on @grid grid_axes = [2] shift_axis = 2 offset = 1 rotate : tensor<4x8xf32> -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// What is started ends where its result is read, after what stands before that.
// CHECK-LABEL: func.func @started
func.func @started(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x16xf32>) {
  // CHECK:      %[[NUMBER:.+]] = call @collective.start_all_gather(%{{.+}}, %{{.+}}) : (tensor<?xf32>, i32) -> i32
  // CHECK:      %[[Y:.+]] = linalg.generic
  // CHECK:      %[[FLAT_Y:.+]] = tensor.collapse_shape %[[Y]]
  // CHECK-NEXT: %[[MEANWHILE:.+]] = tensor.cast %[[FLAT_Y]]
  // CHECK-NEXT: %[[FLAT:.+]] = call @collective.finish_after(%[[MEANWHILE]], %[[NUMBER]]) : (tensor<?xf32>, i32) -> tensor<?xf32>
  // CHECK:      linalg.transpose
  // CHECK:      %[[GATHERED:.+]] = tensor.collapse_shape
  // CHECK-NEXT: linalg.exp ins(%[[GATHERED]]
  %gathered = shard.all_gather %x on @grid grid_axes = [1] gather_axis = 1 {llmc.started} : tensor<?x8xf32> -> tensor<?x16xf32>
  %meanwhile = linalg.generic {indexing_maps = [#identity], iterator_types = ["parallel", "parallel"]}
      outs(%y : tensor<?x8xf32>) {
  ^bb0(%out: f32):
    %double = arith.addf %out, %out : f32
    linalg.yield %double : f32
  } -> tensor<?x8xf32>
  %read = linalg.exp ins(%gathered : tensor<?x16xf32>) outs(%gathered : tensor<?x16xf32>) -> tensor<?x16xf32>
  return %meanwhile, %read : tensor<?x8xf32>, tensor<?x16xf32>
}

// What another one needs is computed before that in any case.
// CHECK-LABEL: func.func @in_turn
func.func @in_turn(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: %[[FIRST:.+]] = call @collective.start_all_reduce
  // CHECK: linalg.generic
  // CHECK: %[[SECOND:.+]] = call @collective.start_all_reduce
  // CHECK: call @collective.finish(%[[FIRST]])
  // CHECK: call @collective.finish(%[[SECOND]])
  %a = shard.all_reduce %x on @grid grid_axes = [0] {llmc.started} : tensor<8xf32> -> tensor<8xf32>
  %double = linalg.generic {indexing_maps = [#row], iterator_types = ["parallel"]}
      outs(%y : tensor<8xf32>) {
  ^bb0(%out: f32):
    %sum = arith.addf %out, %out : f32
    linalg.yield %sum : f32
  } -> tensor<8xf32>
  %b = shard.all_reduce %double on @grid grid_axes = [0] {llmc.started} : tensor<8xf32> -> tensor<8xf32>
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}
