// RUN: llmc-opt %s --settle-extents --allow-unregistered-dialect | filecheck %s

// The rows of what a dispatch gives are those it was told of, however they are looked at since: of
// the second result the extent is the third that is listed.
// CHECK-LABEL: func.func @views(
// CHECK-SAME:      %[[X:.*]]: tensor<?x4xf32>, %[[N:.*]]: index, %[[M:.*]]: index, %[[K:.*]]: index)
// CHECK-NOT:     tensor.dim
// CHECK:         tensor.expand_shape %{{.*}}#1 {{.*}} output_shape [%[[K]], 2, 1, 2]
// CHECK-NOT:     tensor.dim
// CHECK:         return %[[K]], %[[M]]
func.func @views(%x: tensor<?x4xf32>, %n: index, %m: index, %k: index) -> (index, index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %y:2 = "flow.dispatch"(%x, %n, %n, %m, %k) {entry_points = [@a::@a], operandSegmentSizes = array<i32: 0, 1, 1, 3>, tied_operands = [-1 : index, -1 : index]} : (tensor<?x4xf32>, index, index, index, index) -> (tensor<?x?xf32>, tensor<?x4xf32>)
  %rows = tensor.dim %y#1, %c0 : tensor<?x4xf32>
  %heads = tensor.expand_shape %y#1 [[0], [1, 2, 3]] output_shape [%rows, 2, 1, 2] : tensor<?x4xf32> into tensor<?x2x1x2xf32>
  %room = tensor.empty(%rows) : tensor<?x1x2x2xf32>
  %turned = linalg.transpose ins(%heads : tensor<?x2x1x2xf32>) outs(%room : tensor<?x1x2x2xf32>) permutation = [0, 2, 1, 3]
  %merged = tensor.collapse_shape %turned [[0, 1], [2, 3]] : tensor<?x1x2x2xf32> into tensor<?x4xf32>
  %cast = tensor.cast %merged : tensor<?x4xf32> to tensor<?x?xf32>
  %again = tensor.dim %cast, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %y#0, %c1 : tensor<?x?xf32>
  return %again, %columns : index, index
}

// A slice is told the extents of all dimensions, also of those that its result lacks.
// CHECK-LABEL: func.func @dropped(
// CHECK-SAME:      %[[X:.*]]: tensor<2x?x3x?xf32>, %[[N:.*]]: index, %[[M:.*]]: index)
// CHECK-NOT:     tensor.dim
// CHECK:         return %[[N]], %[[M]]
func.func @dropped(%x: tensor<2x?x3x?xf32>, %n: index, %m: index) -> (index, index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %y = tensor.extract_slice %x[1, 0, 2, 0] [1, %n, 1, %m] [1, 1, 1, 1]
     : tensor<2x?x3x?xf32> to tensor<?x?xf32>
  %rows = tensor.dim %y, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %y, %c1 : tensor<?x?xf32>
  return %rows, %columns : index, index
}

// Those of an argument stay as they are; where a view of one is asked for, the argument is.
// CHECK-LABEL: func.func @arguments(
// CHECK:         %[[DIM:.*]] = tensor.dim %arg0
// CHECK:         return %[[DIM]]
func.func @arguments(%x: tensor<?x1x4xf32>) -> index {
  %c0 = arith.constant 0 : index
  %rows = tensor.collapse_shape %x [[0, 1], [2]] : tensor<?x1x4xf32> into tensor<?x4xf32>
  %dim = tensor.dim %rows, %c0 : tensor<?x4xf32>
  return %dim : index
}

// Several extents that are one are multiplied.
// CHECK-LABEL: func.func @product(
// CHECK:         %[[DIM:.*]] = tensor.dim %arg0
// CHECK:         %[[ROWS:.*]] = arith.muli %[[DIM]], %c2
// CHECK:         return %[[ROWS]]
func.func @product(%x: tensor<?x2x4xf32>) -> index {
  %c0 = arith.constant 0 : index
  %rows = tensor.collapse_shape %x [[0, 1], [2]] : tensor<?x2x4xf32> into tensor<?x4xf32>
  %dim = tensor.dim %rows, %c0 : tensor<?x4xf32>
  return %dim : index
}

// A dimension that there is not is asked for in vain, as MLIR allows.
// CHECK-LABEL: func.func @beyond(
// CHECK-COUNT-3: tensor.dim
func.func @beyond(%x: tensor<?xf32>, %y: tensor<*xf32>) -> (index, index, index) {
  %less = arith.constant -3 : index
  %more = arith.constant 7 : index
  %before = tensor.dim %x, %less : tensor<?xf32>
  %after = tensor.dim %x, %more : tensor<?xf32>
  %unknown = tensor.dim %y, %more : tensor<*xf32>
  return %before, %after, %unknown : index, index, index
}
