// RUN: llmc-opt %s --pass-pipeline='builtin.module(annotate-caches)' | filecheck %s
// RUN: llmc-opt %s --pass-pipeline='builtin.module(annotate-caches,propagate-shardings)' | filecheck %s --check-prefix=ALL
// RUN: llmc-opt %s --pass-pipeline='builtin.module(annotate-caches,propagate-shardings,partition-shards{rank=1},canonicalize,cse)' | filecheck %s --check-prefix=RANK

shard.grid @grid(shape = 3) {llmc.axes = ["sp"]}

// CHECK: ml_program.global private mutable @keys {{.*}}llmc.sharers = 3 : i64
ml_program.global private mutable @keys : tensor<2x?x1x?x8xf32> {llmc.kv_cache}
ml_program.global private mutable @values : tensor<2x?x1x?x8xf32> {llmc.kv_cache}
ml_program.global private mutable @kept_in_cells : tensor<2x?x1x?x1x!llmc.q8_0_keys> {llmc.kv_cache}

// A cache is dealt out as it is loaded. What is appended to it, read from it and stored is so, too,
// and attention to it is that of all ranks.
// CHECK-LABEL: func.func @attend
// CHECK:         %[[KEYS:.+]] = ml_program.global_load @keys
// CHECK-NEXT:    %[[DEALT:.+]] = shard.sharding @grid split_axes = {{\[\[}}], [], [], [0], []]
// CHECK-NEXT:    %[[OWN:.+]] = shard.shard %[[KEYS]] to %[[DEALT]]
// CHECK-NEXT:    "llmc.cache_append"(%[[OWN]],
//
// ALL-LABEL:   func.func @attend
// ALL:           %[[NEW:.+]] = "llmc.cache_append"
// ALL:           %[[OWN:.+]] = shard.shard %[[NEW]] to %{{.+}} : tensor<2x?x1x?x8xf32>
// ALL-NEXT:      %[[READ:.+]] = "llmc.cache_read"(%[[OWN]]
// ALL:           shard.shard %[[READ]] to %{{.+}} : tensor<1x1x?x8xf32>
// ALL:           %[[OUT:.+]] = "llmc.attention"
// ALL-NOT:       shard.shard
// ALL:           ml_program.global_store @keys = %[[OWN]]
// ALL:           return %[[OUT]]
//
// Columns 1, 4, 7 and so on are those of rank 1: it has a third of the columns before this one. What
// it appends is stored before ranks exchange anything: IREE would copy the cache over a call.
// RANK-LABEL:  func.func @attend
// RANK:          %[[BEHIND:.+]] = arith.addi %arg4, %c1 : index
// RANK:          %[[COLUMN:.+]] = arith.divui %[[BEHIND]], %c3 : index
// RANK:          %[[KEYS:.+]] = "llmc.cache_append"(%{{.+}}, %arg1, %arg3, %{{.+}}, %[[COLUMN]])
// RANK:          %[[PART:.+]] = "llmc.attention_part"(%arg0, %[[KEYS]], %{{.+}}) {first = 1 : i64, {{.*}}step = 3 : i64
// RANK:          ml_program.global_store @keys = %[[KEYS]]
// RANK:          ml_program.global_store @values
// RANK:          %[[GATHERED:.+]] = shard.all_gather %{{.+}} on @grid grid_axes = [0] gather_axis = 0 : tensor<1x1x2x1x9xf32> -> tensor<3x1x2x1x9xf32>
// RANK:          arith.maximumf
// RANK:          math.exp
// RANK:          arith.divf
func.func @attend(%q: tensor<1x2x1x8xf32>, %row: tensor<1x1x1x8xf32>, %start: tensor<1xi64>,
                  %layer: index, %past: index) -> tensor<1x2x1x8xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %columns = arith.addi %past, %one : index
  %keys = ml_program.global_load @keys : tensor<2x?x1x?x8xf32>
  %new_keys = "llmc.cache_append"(%keys, %row, %layer, %zero, %past)
      : (tensor<2x?x1x?x8xf32>, tensor<1x1x1x8xf32>, index, index, index) -> tensor<2x?x1x?x8xf32>
  %key = "llmc.cache_read"(%new_keys, %layer, %zero, %one, %columns)
      : (tensor<2x?x1x?x8xf32>, index, index, index, index) -> tensor<1x1x?x8xf32>
  %values = ml_program.global_load @values : tensor<2x?x1x?x8xf32>
  %new_values = "llmc.cache_append"(%values, %row, %layer, %zero, %past)
      : (tensor<2x?x1x?x8xf32>, tensor<1x1x1x8xf32>, index, index, index) -> tensor<2x?x1x?x8xf32>
  %value = "llmc.cache_read"(%new_values, %layer, %zero, %one, %columns)
      : (tensor<2x?x1x?x8xf32>, index, index, index, index) -> tensor<1x1x?x8xf32>
  %out = "llmc.attention"(%q, %key, %value, %past, %start)
      {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 1.0 : f64, window = 0 : i64,
       softcap = 0.0 : f64}
      : (tensor<1x2x1x8xf32>, tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, index, tensor<1xi64>)
      -> tensor<1x2x1x8xf32>
  ml_program.global_store @keys = %new_keys : tensor<2x?x1x?x8xf32>
  ml_program.global_store @values = %new_values : tensor<2x?x1x?x8xf32>
  return %out : tensor<1x2x1x8xf32>
}

// Of several rows a rank appends every third.
// RANK-LABEL: func.func @append
// RANK:         %[[OWN:.+]] = linalg.generic
// RANK:           %[[ROW:.+]] = arith.minui
// RANK:           tensor.extract %arg0[%{{.+}}, %{{.+}}, %[[ROW]], %{{.+}}]
// RANK:         "llmc.cache_append"(%{{.+}}, %[[OWN]],
func.func @append(%rows: tensor<1x1x?x8xf32>, %past: index) {
  %zero = arith.constant 0 : index
  %keys = ml_program.global_load @keys : tensor<2x?x1x?x8xf32>
  %new = "llmc.cache_append"(%keys, %rows, %zero, %zero, %past)
      : (tensor<2x?x1x?x8xf32>, tensor<1x1x?x8xf32>, index, index, index) -> tensor<2x?x1x?x8xf32>
  ml_program.global_store @keys = %new : tensor<2x?x1x?x8xf32>
  return
}

// RANK-LABEL: func.func @reset
// RANK:         %[[MORE:.+]] = arith.addi %arg1, %c4
// RANK:         %[[OWN:.+]] = arith.divui %[[MORE]], %c3
// RANK:         "llmc.cache_allocate"(%arg0, %[[OWN]])
func.func @reset(%sequences: index, %capacity: index) {
  %room = "llmc.cache_allocate"(%sequences, %capacity) : (index, index) -> tensor<2x?x1x?x8xf32>
  ml_program.global_store @keys = %room : tensor<2x?x1x?x8xf32>
  return
}

// Cells have 512 of a rank's columns each.
// RANK-LABEL: func.func @cells
// RANK:         %[[COLUMNS:.+]] = arith.muli %arg1, %c512
// RANK:         %[[MORE:.+]] = arith.addi %[[COLUMNS]], %c4
// RANK:         %[[OWN:.+]] = arith.divui %[[MORE]], %c3
// RANK:         %[[CELLS:.+]] = arith.ceildivui %[[OWN]], %c512
// RANK:         "llmc.cache_allocate"(%arg0, %[[CELLS]])
func.func @cells(%sequences: index, %capacity: index) {
  %room = "llmc.cache_allocate"(%sequences, %capacity) : (index, index) -> tensor<2x?x1x?x1x!llmc.q8_0_keys>
  ml_program.global_store @kept_in_cells = %room : tensor<2x?x1x?x1x!llmc.q8_0_keys>
  return
}
