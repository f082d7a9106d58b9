// RUN: llmc-opt %s --pair-halves | filecheck %s

// CHECK-LABEL: func.func @gate_up
// CHECK-DAG:     %[[GATE:.+]] = tensor.extract_slice %arg1[0, 0] [3, 4] [1, 1]
// CHECK-DAG:     %[[UP:.+]] = tensor.extract_slice %arg1[3, 0] [3, 4] [1, 1]
// CHECK:         %[[Y:.+]]:2 = linalg.generic
// CHECK-SAME:      iterator_types = ["parallel", "reduction"]
// CHECK-SAME:      ins(%{{.+}}, %[[GATE]], %[[UP]] : tensor<4xf32>, tensor<3x4xf16>, tensor<3x4xf16>)
// CHECK-DAG:     %[[FIRST:.+]] = tensor.expand_shape %[[Y]]#0
// CHECK-DAG:     %[[SECOND:.+]] = tensor.expand_shape %[[Y]]#1
// CHECK:         return %[[SECOND]], %[[FIRST]]
func.func @gate_up(%x: tensor<1x1x4xf32>, %w: tensor<6x4xf16>)
    -> (tensor<1x1x3xf32>, tensor<1x1x3xf32>) {
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x1x4xf32>, tensor<6x4xf16>) -> tensor<1x1x6xf32>
  %up = tensor.extract_slice %y[0, 0, 3] [1, 1, 3] [1, 1, 1]
      : tensor<1x1x6xf32> to tensor<1x1x3xf32>
  %gate = tensor.extract_slice %y[0, 0, 0] [1, 1, 3] [1, 1, 1]
        : tensor<1x1x6xf32> to tensor<1x1x3xf32>
  return %up, %gate : tensor<1x1x3xf32>, tensor<1x1x3xf32>
}

// Parts that are no halves, or of another rank, and several rows, stay as they are.
// CHECK-LABEL: func.func @parts
// CHECK:         "llmc.linear"
func.func @parts(%x: tensor<1x4xf32>, %w: tensor<6x4xf32>) -> (tensor<1x4xf32>, tensor<1x2xf32>) {
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x4xf32>, tensor<6x4xf32>) -> tensor<1x6xf32>
  %a = tensor.extract_slice %y[0, 0] [1, 4] [1, 1] : tensor<1x6xf32> to tensor<1x4xf32>
  %b = tensor.extract_slice %y[0, 4] [1, 2] [1, 1] : tensor<1x6xf32> to tensor<1x2xf32>
  return %a, %b : tensor<1x4xf32>, tensor<1x2xf32>
}

// CHECK-LABEL: func.func @of_another_rank
// CHECK:         "llmc.linear"
func.func @of_another_rank(%x: tensor<1x4xf32>, %w: tensor<6x4xf32>) -> (tensor<3xf32>, tensor<1x3xf32>) {
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x4xf32>, tensor<6x4xf32>) -> tensor<1x6xf32>
  %a = tensor.extract_slice %y[0, 0] [1, 3] [1, 1] : tensor<1x6xf32> to tensor<3xf32>
  %b = tensor.extract_slice %y[0, 3] [1, 3] [1, 1] : tensor<1x6xf32> to tensor<1x3xf32>
  return %a, %b : tensor<3xf32>, tensor<1x3xf32>
}

// CHECK-LABEL: func.func @rows
// CHECK:         "llmc.linear"
func.func @rows(%x: tensor<2x4xf32>, %w: tensor<6x4xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<2x4xf32>, tensor<6x4xf32>) -> tensor<2x6xf32>
  %a = tensor.extract_slice %y[0, 0] [2, 3] [1, 1] : tensor<2x6xf32> to tensor<2x3xf32>
  %b = tensor.extract_slice %y[0, 3] [2, 3] [1, 1] : tensor<2x6xf32> to tensor<2x3xf32>
  return %a, %b : tensor<2x3xf32>, tensor<2x3xf32>
}
