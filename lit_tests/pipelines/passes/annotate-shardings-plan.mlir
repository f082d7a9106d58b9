// RUN: llmc-opt %s --pass-pipeline='builtin.module(annotate-shardings{plan=%S/Inputs/plan.json})' | filecheck %s

// A complete plan splits what it names: a weight, and a slice of one. What reads `down` is to have
// all of its input. No other weight is split, and that of the head neither.
// CHECK-LABEL: func.func private @decode.layer0
func.func private @decode.layer0(%x: tensor<1x16xf32>) -> tensor<1x16xf32> {
  // CHECK:      %[[UP:.+]] = "llmc.parameter"() {sources = ["layers.0.up"]}
  // CHECK-NEXT: shard.sharding @grid split_axes = {{\[\[}}0], []] sharded_dims_offsets = [0, 24, 32]
  // CHECK-NEXT: shard.shard %[[UP]]
  %up = "llmc.parameter"() {sources = ["layers.0.up"]} : () -> tensor<32x16xf32>
  // CHECK:      %[[DOWN:.+]] = "llmc.parameter"() {sources = ["layers.0.down"]}
  %down = "llmc.parameter"() {sources = ["layers.0.down"]} : () -> tensor<16x32xf32>
  // CHECK:      %[[BOTH:.+]] = "llmc.parameter"() {sources = ["layers.0.both"]}
  %both = "llmc.parameter"() {sources = ["layers.0.both"]} : () -> tensor<32x16xf32>
  // CHECK-NEXT: %[[FIRST:.+]] = tensor.extract_slice %[[BOTH]][0, 0]
  %first = tensor.extract_slice %both[0, 0] [16, 16] [1, 1] : tensor<32x16xf32> to tensor<16x16xf32>
  // CHECK-NEXT: %[[SECOND:.+]] = tensor.extract_slice %[[BOTH]][16, 0]
  // CHECK-NEXT: shard.sharding @grid split_axes = {{\[\[}}], [0]]
  // CHECK-NEXT: %[[SPLIT:.+]] = shard.shard %[[SECOND]]
  %second = tensor.extract_slice %both[16, 0] [16, 16] [1, 1] : tensor<32x16xf32> to tensor<16x16xf32>
  // CHECK:      %[[HIDDEN:.+]] = "llmc.linear"
  %0 = "llmc.linear"(%x, %up) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x16xf32>, tensor<32x16xf32>) -> tensor<1x32xf32>
  // CHECK-NEXT: shard.sharding @grid split_axes = {{\[\[}}], []]
  // CHECK-NEXT: %[[ALL:.+]] = shard.shard %[[HIDDEN]] to %{{.+}} annotate_for_users
  // CHECK-NEXT: "llmc.linear"(%[[ALL]], %[[DOWN]])
  %1 = "llmc.linear"(%0, %down) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x32xf32>, tensor<16x32xf32>) -> tensor<1x16xf32>
  // CHECK-NEXT: "llmc.linear"(%{{.+}}, %[[FIRST]])
  %2 = "llmc.linear"(%1, %first) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x16xf32>, tensor<16x16xf32>) -> tensor<1x16xf32>
  // CHECK-NEXT: "llmc.linear"(%{{.+}}, %[[SPLIT]])
  %3 = "llmc.linear"(%2, %second) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x16xf32>, tensor<16x16xf32>) -> tensor<1x16xf32>
  return %3 : tensor<1x16xf32>
}

// CHECK-LABEL: func.func @decode
func.func @decode(%x: tensor<1x16xf32>) -> tensor<1x64xf32> {
  // CHECK-NOT: shard.shard
  %head = "llmc.parameter"() {sources = ["head"]} : () -> tensor<64x16xf32>
  %0 = func.call @decode.layer0(%x) : (tensor<1x16xf32>) -> tensor<1x16xf32>
  %1 = "llmc.linear"(%0, %head) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x16xf32>, tensor<64x16xf32>) -> tensor<1x64xf32>
  return %1 : tensor<1x64xf32>
}
