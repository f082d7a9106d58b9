// RUN: llmc-opt %s --split-input-file --verify-diagnostics --add-top-k | filecheck %s

// One function for all that return logits of one vocabulary, whatever their batch.
// CHECK-LABEL: func.func @one
// CHECK-LABEL: func.func @batch
// CHECK:       func.func @top_k(%[[LOGITS:.+]]: tensor<?x10xf32>, %[[COUNT:.+]]: i64) -> (tensor<?x?xf32>, tensor<?x?xi64>)
// CHECK-NEXT:    %[[K:.+]] = arith.index_cast %[[COUNT]] : i64 to index
// CHECK-NEXT:    %[[FOUND:.+]]:2 = "llmc.top_k"(%[[LOGITS]], %[[K]])
// CHECK-NEXT:    return %[[FOUND]]#0, %[[FOUND]]#1
// CHECK-NOT:   @top_k
func.func @one(%logits: tensor<1x10xf32>, %best: tensor<1x1xi64>) -> (tensor<1x10xf32>, tensor<1x1xi64>) {
  return %logits, %best : tensor<1x10xf32>, tensor<1x1xi64>
}
func.func @batch(%logits: tensor<?x10xf32>) -> tensor<?x10xf32> {
  return %logits : tensor<?x10xf32>
}
func.func @reset(%sequences: i64) {
  return
}

// -----

// Nobody returns logits.
// CHECK-LABEL: func.func @integers
// CHECK-NOT:   llmc.top_k
func.func @integers(%x: tensor<1x10xi32>) -> tensor<1x10xi32> {
  return %x : tensor<1x10xi32>
}
func.func @open(%x: tensor<1x?xf32>) -> tensor<1x?xf32> {
  return %x : tensor<1x?xf32>
}
func.func @second(%x: tensor<1x10xf32>, %true: i1) -> (i1, tensor<1x10xf32>) {
  return %true, %x : i1, tensor<1x10xf32>
}
func.func private @layer(%x: tensor<1x10xf32>) -> tensor<1x10xf32> {
  return %x : tensor<1x10xf32>
}

// -----

// These are no logits of one vocabulary.
// CHECK-LABEL: func.func @small
// CHECK-NOT:   llmc.top_k
func.func @small(%x: tensor<1x10xf32>) -> tensor<1x10xf32> {
  return %x : tensor<1x10xf32>
}
func.func @large(%x: tensor<1x11xf32>) -> tensor<1x11xf32> {
  return %x : tensor<1x11xf32>
}

// -----

// The name is taken.
// CHECK-LABEL: func.func @logits
// CHECK-NOT:   llmc.top_k
func.func @logits(%x: tensor<1x10xf32>) -> tensor<1x10xf32> {
  return %x : tensor<1x10xf32>
}
func.func private @top_k(%x: tensor<1x10xf32>) -> tensor<1x10xf32> {
  return %x : tensor<1x10xf32>
}

// -----

// What it would read is verified before it runs.
func.func @invalid(%x: tensor<2x7xf32>, %count: index) {
  // expected-error@+1 {{'llmc.top_k' op result 'values' must be dynamic in dimension 1, but is tensor<2x4xf32>}}
  %values, %places = "llmc.top_k"(%x, %count) : (tensor<2x7xf32>, index) -> (tensor<2x4xf32>, tensor<2x?xi64>)
  return
}
