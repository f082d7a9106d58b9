// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(simplify-reshapes,func.func(canonicalize,cse))' | filecheck %s

// As torch-mlir writes the split of heads, with a shape that is computed. What computed it is dead.
// CHECK-LABEL: func.func @split_heads
// CHECK:         %[[N:.+]] = tensor.dim %arg0
// CHECK-NEXT:    tensor.expand_shape %arg0 {{\[\[}}0], [1], [2, 3]] output_shape [1, %[[N]], 9, 64] : tensor<1x?x576xf32> into tensor<1x?x9x64xf32>
// CHECK-NEXT:    return
func.func @split_heads(%x: tensor<1x?x576xf32>) -> tensor<1x?x9x64xf32> {
  %c1 = arith.constant 1 : index
  %one = arith.constant 1 : i64
  %head = arith.constant 64 : i64
  %width = arith.constant 576 : i64
  %dim = tensor.dim %x, %c1 : tensor<1x?x576xf32>
  %n = arith.index_cast %dim : index to i64
  %all = arith.muli %n, %width : i64
  %of_one = arith.muli %n, %head : i64
  %heads = arith.divui %all, %of_one : i64
  %shape = tensor.from_elements %one, %n, %heads, %head : tensor<4xi64>
  %y = tensor.reshape %x(%shape) : (tensor<1x?x576xf32>, tensor<4xi64>) -> tensor<1x?x9x64xf32>
  return %y : tensor<1x?x9x64xf32>
}

// CHECK-LABEL: func.func @all
// CHECK-NEXT:    return %arg0
func.func @all(%x: tensor<?x1x576xf32>) -> tensor<?x1x576xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x1x576xf32>
  %y = tensor.extract_slice %x[0, 0, 0] [%n, 1, 576] [1, 1, 1] : tensor<?x1x576xf32> to tensor<?x1x576xf32>
  return %y : tensor<?x1x576xf32>
}

// A slice of the rows that another tensor has may be a part.
// CHECK-LABEL: func.func @some
// CHECK:         tensor.extract_slice
func.func @some(%x: tensor<?x1x576xf32>, %other: tensor<?x8xf32>) -> tensor<?x1x576xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %other, %c0 : tensor<?x8xf32>
  %y = tensor.extract_slice %x[0, 0, 0] [%n, 1, 576] [1, 1, 1] : tensor<?x1x576xf32> to tensor<?x1x576xf32>
  return %y : tensor<?x1x576xf32>
}

// Two dimensions that are read at their first element alone may be of any length each; and of what has
// no rank nothing is known.
// CHECK-LABEL: func.func @first_column
// CHECK:         tensor.extract_slice
// CHECK:         tensor.extract_slice
func.func @first_column(%x: tensor<?x?xf32>, %out: tensor<?x?xf32>, %u: tensor<*xf32>, %n: index) -> (tensor<?x?xf32>, tensor<?x4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %y = linalg.generic {indexing_maps = [affine_map<(d) -> (d, 0)>, affine_map<(d) -> (d, 0)>], iterator_types = ["parallel"]} ins(%x : tensor<?x?xf32>) outs(%out : tensor<?x?xf32>) {
  ^bb0(%e: f32, %old: f32):
    linalg.yield %e : f32
  } -> tensor<?x?xf32>
  %rows = tensor.dim %y, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %x, %c1 : tensor<?x?xf32>
  %part = tensor.extract_slice %y[0, 0] [%rows, %columns] [1, 1] : tensor<?x?xf32> to tensor<?x?xf32>
  %ranked = tensor.cast %u : tensor<*xf32> to tensor<?x4xf32>
  %some = tensor.extract_slice %ranked[0, 0] [%n, 4] [1, 1] : tensor<?x4xf32> to tensor<?x4xf32>
  return %part, %some : tensor<?x?xf32>, tensor<?x4xf32>
}

// CHECK-LABEL: func.func @merge_heads
// CHECK-NEXT:    tensor.collapse_shape %arg0 {{\[\[}}0], [1], [2, 3]] : tensor<?x1x9x64xf32> into tensor<?x1x576xf32>
func.func @merge_heads(%x: tensor<?x1x9x64xf32>, %shape: tensor<3xi64>) -> tensor<?x1x576xf32> {
  %y = tensor.reshape %x(%shape) : (tensor<?x1x9x64xf32>, tensor<3xi64>) -> tensor<?x1x576xf32>
  return %y : tensor<?x1x576xf32>
}

// The dynamic dimension may be split and merged itself.
// CHECK-LABEL: func.func @dynamic_parts
// CHECK:         %[[K:.+]] = arith.constant 2 : index
// CHECK:         %[[N:.+]] = tensor.dim %arg0
// CHECK:         %[[ROWS:.+]] = arith.divui %[[N]], %[[K]]
// CHECK:         %[[Y:.+]] = tensor.expand_shape %arg0 {{\[\[}}0, 1], [2]] output_shape [%[[ROWS]], 2, 6] : tensor<?x6xf32> into tensor<?x2x6xf32>
// CHECK:         tensor.collapse_shape %[[Y]] {{\[\[}}0], [1, 2]] : tensor<?x2x6xf32> into tensor<?x12xf32>
func.func @dynamic_parts(%x: tensor<?x6xf32>, %three: tensor<3xi64>, %two: tensor<2xi64>) -> tensor<?x12xf32> {
  %y = tensor.reshape %x(%three) : (tensor<?x6xf32>, tensor<3xi64>) -> tensor<?x2x6xf32>
  %z = tensor.reshape %y(%two) : (tensor<?x2x6xf32>, tensor<2xi64>) -> tensor<?x12xf32>
  return %z : tensor<?x12xf32>
}

// What stays as it is, but for the type, is not reshaped.
// CHECK-LABEL: func.func @same
// CHECK-NEXT:    %[[CAST:.+]] = tensor.cast %arg0 : tensor<1x5x6xf32> to tensor<1x?x6xf32>
// CHECK-NEXT:    return %[[CAST]]
func.func @same(%x: tensor<1x5x6xf32>, %shape: tensor<3xi64>) -> tensor<1x?x6xf32> {
  %y = tensor.reshape %x(%shape) : (tensor<1x5x6xf32>, tensor<3xi64>) -> tensor<1x?x6xf32>
  return %y : tensor<1x?x6xf32>
}

// Dimensions that are cut across are merged, and then split: no more of them than need be.
// CHECK-LABEL: func.func @across
// CHECK:         %[[FLAT:.+]] = tensor.collapse_shape %arg0 {{\[\[}}0], [1], [2, 3]] : tensor<?x1x6x4xf32> into tensor<?x1x24xf32>
// CHECK:         tensor.expand_shape %[[FLAT]] {{\[\[}}0], [1], [2, 3]] output_shape [%{{.*}}, 1, 8, 3]
// CHECK-NOT:     tensor.reshape
func.func @across(%x: tensor<?x1x6x4xf32>, %shape: tensor<4xi64>) -> tensor<?x1x8x3xf32> {
  %y = tensor.reshape %x(%shape) : (tensor<?x1x6x4xf32>, tensor<4xi64>) -> tensor<?x1x8x3xf32>
  return %y : tensor<?x1x8x3xf32>
}

// Two dynamic dimensions tell nothing of each other, an empty tensor has any shape, and one without a
// rank none.
// CHECK-LABEL: func.func @unproved
// CHECK-COUNT-4: tensor.reshape
func.func @unproved(%x: tensor<?x?x6xf32>, %z: tensor<0x?xf32>, %u: tensor<*xf32>, %s: tensor<3xi64>, %t: tensor<2xi64>)
    -> (tensor<?x?x6xf32>, tensor<0x?x1xf32>, tensor<?x1xf32>, tensor<*xf32>) {
  %0 = tensor.reshape %x(%s) : (tensor<?x?x6xf32>, tensor<3xi64>) -> tensor<?x?x6xf32>
  %1 = tensor.reshape %z(%s) : (tensor<0x?xf32>, tensor<3xi64>) -> tensor<0x?x1xf32>
  %2 = tensor.reshape %u(%t) : (tensor<*xf32>, tensor<2xi64>) -> tensor<?x1xf32>
  %any = arith.constant dense<[2, 3]> : tensor<2xi64>
  %unknown = tensor.cast %any : tensor<2xi64> to tensor<?xi64>
  %3 = tensor.reshape %u(%unknown) : (tensor<*xf32>, tensor<?xi64>) -> tensor<*xf32>
  return %0, %1, %2, %3 : tensor<?x?x6xf32>, tensor<0x?x1xf32>, tensor<?x1xf32>, tensor<*xf32>
}

// Scalars have no dimension to split.
// CHECK-LABEL: func.func @scalar
// CHECK:         tensor.reshape
func.func @scalar(%x: tensor<f32>, %shape: tensor<1xi64>) -> tensor<1xf32> {
  %y = tensor.reshape %x(%shape) : (tensor<f32>, tensor<1xi64>) -> tensor<1xf32>
  return %y : tensor<1xf32>
}

// -----

// The pass emits nothing itself; what it would work on is still verified.
func.func @invalid(%x: tensor<6x4xf32>, %shape: tensor<2xi64>) -> tensor<4x5xf32> {
  // expected-error@+1 {{source and destination tensor should have the same number of elements}}
  %y = tensor.reshape %x(%shape) : (tensor<6x4xf32>, tensor<2xi64>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}
