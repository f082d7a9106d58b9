// RUN: llmc-opt %s --pass-pipeline='builtin.module(simplify-collectives,canonicalize)' | filecheck %s

shard.grid @grid(shape = 2) {llmc.axes = ["tp"]}
#same = affine_map<(i, j) -> (i, j)>
#first = affine_map<(i, j) -> (i)>

// A rank's own part of what is gathered is what it gave, where that goes for all; another's is not.
// CHECK-LABEL: func.func @own_part
func.func @own_part(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK:      %[[ALL:.+]] = shard.all_gather %arg0
  // CHECK-NEXT: %[[OTHER:.+]] = tensor.extract_slice %[[ALL]][0, 8] [4, 8] [1, 1] : tensor
  // CHECK-NEXT: return %arg0, %[[OTHER]]
  %0 = shard.all_gather %x on @grid grid_axes = [0] gather_axis = 1 : tensor<4x8xf32> -> tensor<4x16xf32>
  %1 = tensor.extract_slice %0[0, 8] [4, 8] [1, 1] {llmc.part_along = 0 : i64}
      : tensor<4x16xf32> to tensor<4x8xf32>
  %2 = tensor.extract_slice %0[0, 8] [4, 8] [1, 1] : tensor<4x16xf32> to tensor<4x8xf32>
  return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}

// What is gathered along no axis is left to MLIR, and what is no sum but the largest value as it is.
// CHECK-LABEL: func.func @left_alone
func.func @left_alone(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x4xf32>) {
  // CHECK:      %[[MOST:.+]] = shard.all_reduce %arg0 {{.+}} reduction = max
  // CHECK-NEXT: %[[PART:.+]] = tensor.extract_slice %[[MOST]]
  // CHECK-NEXT: return %arg0, %[[PART]]
  %0 = shard.all_gather %x on @grid gather_axis = 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = shard.all_reduce %x on @grid grid_axes = [0] reduction = max : tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = tensor.extract_slice %1[0, 4] [4, 4] [1, 1] {llmc.part_along = 0 : i64}
      : tensor<4x8xf32> to tensor<4x4xf32>
  return %0, %2 : tensor<4x8xf32>, tensor<4x4xf32>
}

// A sum that is read in parts is scattered, but not where somebody reads all of it.
// CHECK-LABEL: func.func @scatter
func.func @scatter(%x: tensor<4x16xf32>, %y: tensor<4x16xf32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>) {
  // CHECK:      %[[PART:.+]] = shard.reduce_scatter %arg0 on @grid grid_axes = [0] scatter_dim = 1
  // CHECK:      %[[ALL:.+]] = shard.all_reduce %arg1
  // CHECK:      return %[[PART]], %{{.+}}, %[[ALL]]
  %0 = shard.all_reduce %x on @grid grid_axes = [0] : tensor<4x16xf32> -> tensor<4x16xf32>
  %1 = tensor.extract_slice %0[0, 8] [4, 8] [1, 1] {llmc.part_along = 0 : i64}
      : tensor<4x16xf32> to tensor<4x8xf32>
  %2 = shard.all_reduce %y on @grid grid_axes = [0] : tensor<4x16xf32> -> tensor<4x16xf32>
  %3 = tensor.extract_slice %2[0, 8] [4, 8] [1, 1] {llmc.part_along = 0 : i64}
      : tensor<4x16xf32> to tensor<4x8xf32>
  return %1, %3, %2 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>
}

// Attention and MLP side by side: one sum of both.
// CHECK-LABEL: func.func @parallel
func.func @parallel(%a: tensor<1x8xf32>, %b: tensor<1x8xf32>) -> tensor<1x8xf32> {
  // CHECK:      %[[BOTH:.+]] = linalg.generic {{.*}} ins(%arg0, %arg1
  // CHECK:      %[[SUM:.+]] = shard.all_reduce %[[BOTH]]
  // CHECK-NOT:  shard.all_reduce
  // CHECK:      return %[[SUM]]
  %0 = shard.all_reduce %a on @grid grid_axes = [0] : tensor<1x8xf32> -> tensor<1x8xf32>
  %1 = shard.all_reduce %b on @grid grid_axes = [0] : tensor<1x8xf32> -> tensor<1x8xf32>
  %room = tensor.empty() : tensor<1x8xf32>
  %2 = linalg.generic {indexing_maps = [#same, #same, #same],
      iterator_types = ["parallel", "parallel"]}
      ins(%0, %1 : tensor<1x8xf32>, tensor<1x8xf32>) outs(%room : tensor<1x8xf32>) {
  ^bb0(%x: f32, %y: f32, %out: f32):
    %3 = arith.addf %x, %y : f32
    linalg.yield %3 : f32
  } -> tensor<1x8xf32>
  return %2 : tensor<1x8xf32>
}

// Rows of experts stay with their rank from the first layer to the sum over experts.
// CHECK-LABEL: func.func @experts
func.func @experts(%x: tensor<1x8xf32>, %e: tensor<2xi64>, %own: tensor<2xi64>,
                   %weights: tensor<1x2xf32>) -> tensor<1x8xf32> {
  // CHECK:      %[[UP:.+]] = linalg.generic {{.*}}llmc.rows
  // CHECK-NOT:  shard.all_reduce
  // CHECK:      %[[H:.+]] = linalg.generic {{.*}} ins(%[[UP]] :
  // CHECK:      "llmc.expert_linear"(%[[H]]
  // CHECK:      %[[DOWN:.+]] = linalg.generic {{.*}}llmc.rows
  // CHECK:      %[[MINE:.+]] = "llmc.combine_experts"(%[[DOWN]]
  // CHECK-NEXT: %[[SUM:.+]] = shard.all_reduce %[[MINE]]
  // CHECK-NEXT: return %[[SUM]]
  %zero = arith.constant 0.0 : f32
  %two = arith.constant 2 : i64
  %up = "llmc.parameter"() {sources = ["up"]} : () -> tensor<2x16x8xf32>
  %down = "llmc.parameter"() {sources = ["down"]} : () -> tensor<2x8x16xf32>
  %0 = "llmc.expert_linear"(%x, %own, %up) {top_k = 2 : i64, transposed = 0 : i64}
      : (tensor<1x8xf32>, tensor<2xi64>, tensor<2x16x8xf32>) -> tensor<2x16xf32>
  %wide = tensor.empty() : tensor<2x16xf32>
  %1 = linalg.generic {indexing_maps = [#same, #first, #same],
      iterator_types = ["parallel", "parallel"]} ins(%0, %e : tensor<2x16xf32>, tensor<2xi64>)
      outs(%wide : tensor<2x16xf32>) attrs = {llmc.rows = array<i64: 0, 0, 2, 2, 4>} {
  ^bb0(%y: f32, %n: i64, %out: f32):
    %9 = arith.cmpi ult, %n, %two : i64
    %10 = arith.select %9, %y, %zero : f32
    linalg.yield %10 : f32
  } -> tensor<2x16xf32>
  %2 = shard.all_reduce %1 on @grid grid_axes = [0] : tensor<2x16xf32> -> tensor<2x16xf32>
  %3 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%2 : tensor<2x16xf32>) outs(%wide : tensor<2x16xf32>) {
  ^bb0(%y: f32, %out: f32):
    %9 = math.tanh %y : f32
    linalg.yield %9 : f32
  } -> tensor<2x16xf32>
  %4 = "llmc.expert_linear"(%3, %own, %down) {top_k = 1 : i64, transposed = 0 : i64}
      : (tensor<2x16xf32>, tensor<2xi64>, tensor<2x8x16xf32>) -> tensor<2x8xf32>
  %narrow = tensor.empty() : tensor<2x8xf32>
  %5 = linalg.generic {indexing_maps = [#same, #first, #same],
      iterator_types = ["parallel", "parallel"]} ins(%4, %e : tensor<2x8xf32>, tensor<2xi64>)
      outs(%narrow : tensor<2x8xf32>) attrs = {llmc.rows = array<i64: 0, 0, 2, 2, 4>} {
  ^bb0(%y: f32, %n: i64, %out: f32):
    %9 = arith.cmpi ult, %n, %two : i64
    %10 = arith.select %9, %y, %zero : f32
    linalg.yield %10 : f32
  } -> tensor<2x8xf32>
  %6 = shard.all_reduce %5 on @grid grid_axes = [0] : tensor<2x8xf32> -> tensor<2x8xf32>
  %7 = "llmc.combine_experts"(%6, %weights) : (tensor<2x8xf32>, tensor<1x2xf32>) -> tensor<1x8xf32>
  return %7 : tensor<1x8xf32>
}
