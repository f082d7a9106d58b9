// RUN: llmc-opt %s --split-input-file --verify-diagnostics --return-best-token | filecheck %s

// CHECK-LABEL: func.func @batch(%arg0: tensor<?x6xf32>, %arg1: tensor<10x6xf32>) -> (tensor<?x10xf32>, tensor<?x1xi64>)
// CHECK:         %[[LOGITS:.+]] = "llmc.linear"
// CHECK:         %[[BEST:.+]] = "llmc.argmax"(%[[LOGITS]]) : (tensor<?x10xf32>) -> tensor<?xi64>
// CHECK:         %[[TOKENS:.+]] = tensor.expand_shape %[[BEST]] {{\[\[}}0, 1]] output_shape [%{{.+}}, 1]
// CHECK:         return %[[LOGITS]], %[[TOKENS]]
func.func @batch(%x: tensor<?x6xf32>, %w: tensor<10x6xf32>) -> tensor<?x10xf32> {
  %logits = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64} : (tensor<?x6xf32>, tensor<10x6xf32>) -> tensor<?x10xf32>
  return %logits : tensor<?x10xf32>
}

// CHECK-LABEL: func.func @one
// CHECK-SAME:    -> (tensor<1x10xf32> {llmc.dims = "B"}, tensor<1x1xi64>)
// CHECK:         llmc.argmax
func.func @one(%logits: tensor<1x10xf32>) -> (tensor<1x10xf32> {llmc.dims = "B"}) {
  return %logits : tensor<1x10xf32>
}

// What has its tokens already, returns no logits or is called stays as it is.
// CHECK-NOT: llmc.argmax
func.func @done(%logits: tensor<1x10xf32>, %best: tensor<1x1xi64>) -> (tensor<1x10xf32>, tensor<1x1xi64>) {
  return %logits, %best : tensor<1x10xf32>, tensor<1x1xi64>
}
func.func @reset(%sequences: i64) {
  return
}
func.func @integers(%x: tensor<1x10xi32>) -> tensor<1x10xi32> {
  return %x : tensor<1x10xi32>
}
func.func @scalar(%x: f32) -> f32 {
  return %x : f32
}
func.func @open(%x: tensor<1x?xf32>) -> tensor<1x?xf32> {
  return %x : tensor<1x?xf32>
}
func.func @calls(%x: tensor<1x10xf32>) -> (tensor<1x10xf32>, i1) {
  %y = call @layer(%x) : (tensor<1x10xf32>) -> tensor<1x10xf32>
  %true = arith.constant true
  return %y, %true : tensor<1x10xf32>, i1
}
func.func @calls_itself(%x: tensor<1x10xf32>) -> tensor<1x10xf32> {
  %y = call @calls_itself(%x) : (tensor<1x10xf32>) -> tensor<1x10xf32>
  return %y : tensor<1x10xf32>
}
func.func @branches(%x: tensor<1x10xf32>) -> tensor<1x10xf32> {
  cf.br ^end
^end:
  return %x : tensor<1x10xf32>
}
func.func private @layer(%x: tensor<1x10xf32>) -> tensor<1x10xf32> {
  return %x : tensor<1x10xf32>
}

// -----

// What it would read is verified before it runs.
func.func @invalid(%x: tensor<2x7xf32>) -> tensor<2xi64> {
  // expected-error@+1 {{'llmc.argmax' op result must have dimension 0 = 2, but has 3}}
  %best = "llmc.argmax"(%x) : (tensor<2x7xf32>) -> tensor<3xi64>
  return %best : tensor<3xi64>
}
