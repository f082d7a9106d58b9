// RUN: llmc-opt %s --split-argmax=columns=4 | filecheck %s

// Each of four columns is searched by a thread, from the top to the bottom, and then their best.
// CHECK-LABEL: func.func @best
// CHECK:         %[[X:.+]] = tensor.expand_shape %arg0 {{\[\[}}0], [1, 2]] output_shape [%{{.+}}, 3, 4]
// CHECK:         %[[HIGHEST:.+]] = linalg.generic {{.+}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[X]] : tensor<?x3x4xf32>) outs(%{{.+}} : tensor<?x4xf32>)
// CHECK:           arith.maximumf
// CHECK:         %[[LARGEST:.+]] = linalg.generic {{.+}} ins(%[[HIGHEST]] : tensor<?x4xf32>) outs(%{{.+}} : tensor<?xf32>)
// CHECK:         %[[PLACES:.+]] = linalg.generic {{.+}} ins(%[[X]], %[[HIGHEST]] : tensor<?x3x4xf32>, tensor<?x4xf32>) outs(%{{.+}} : tensor<?x4xi64>)
// CHECK:           arith.minsi
// CHECK:         %[[BEST:.+]] = linalg.generic {{.+}} ins(%[[PLACES]], %[[HIGHEST]], %[[LARGEST]] : {{.+}}) outs(%{{.+}} : tensor<?xi64>)
// CHECK:         linalg.generic {{.+}} ins(%[[BEST]], %[[LARGEST]] : tensor<?xi64>, tensor<?xf32>)
func.func @best(%x: tensor<?x12xf32>) -> tensor<?xi64> {
  %best = "llmc.argmax"(%x) : (tensor<?x12xf32>) -> tensor<?xi64>
  return %best : tensor<?xi64>
}

// What is no matrix of more than one row and column stays.
// CHECK-LABEL: func.func @prime
// CHECK:         llmc.argmax
// CHECK-LABEL: func.func @short
// CHECK:         llmc.argmax
func.func @prime(%x: tensor<?x13xf32>) -> tensor<?xi64> {
  %best = "llmc.argmax"(%x) : (tensor<?x13xf32>) -> tensor<?xi64>
  return %best : tensor<?xi64>
}
func.func @short(%x: tensor<?x4xf32>) -> tensor<?xi64> {
  %best = "llmc.argmax"(%x) : (tensor<?x4xf32>) -> tensor<?xi64>
  return %best : tensor<?xi64>
}
