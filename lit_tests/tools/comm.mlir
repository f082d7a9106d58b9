// RUN: llmc comm %s --device %S/Inputs/device.json --rounds 1 | filecheck %s

// A projection whose input is split among two ranks, as is its result.
// CHECK:      function {{ *}}schedule {{ *}}sent {{ *}}memory {{ *}}links {{ *}}measured {{ *}}off by
// CHECK-NEXT: project {{ *}}gather {{ *}}131,072 B {{ *}}458,752 B {{ *}}0.141 ms {{ *}}{{[0-9.]+}} ms {{ *}}{{[0-9.]+}}e-0
// CHECK-NEXT: project {{ *}}ring {{ *}}131,072 B {{ *}}524,288 B {{ *}}0.141 ms
// CHECK-NEXT: project {{ *}}scatter {{ *}}196,608 B {{ *}}589,824 B {{ *}}0.207 ms
shard.grid @grid(shape = 2) {llmc.axes = ["tp"]}

func.func @project(%x: tensor<64x1024xf32>, %w: tensor<1536x1024xf32>) -> tensor<64x1536xf32> {
  %columns = shard.sharding @grid split_axes = [[], [0]] : !shard.sharding
  %xs = shard.shard %x to %columns annotate_for_users : tensor<64x1024xf32>
  %y = "llmc.linear"(%xs, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<64x1024xf32>, tensor<1536x1024xf32>) -> tensor<64x1536xf32>
  %ys = shard.shard %y to %columns : tensor<64x1536xf32>
  return %ys : tensor<64x1536xf32>
}
