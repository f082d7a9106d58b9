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

// Increasing functions keep the order: the search is in what they read.
// CHECK-LABEL: func.func @increasing(
// CHECK-SAME:    %[[X:.+]]: tensor<1x1x10xf32>
// CHECK:         %[[CAPPED:.+]] = tensor.collapse_shape
// CHECK:         %[[ROW:.+]] = tensor.collapse_shape %[[X]] {{\[\[}}0, 1], [2]]
// CHECK:         %[[BEST:.+]] = "llmc.argmax"(%[[ROW]])
// CHECK:         return %[[CAPPED]],
#same = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @increasing(%x: tensor<1x1x10xf32>) -> tensor<1x10xf32> {
  %cap = arith.constant 3.0e+01 : f64
  %factor = arith.constant 2.5e-01 : f32
  %room = tensor.empty() : tensor<1x1x10xf32>
  %capped = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<1x1x10xf32>) outs(%room : tensor<1x1x10xf32>) {
  ^bb0(%in: f32, %out: f32):
    %c = arith.truncf %cap : f64 to f32
    %part = arith.divf %in, %c : f32
    %tanh = math.tanh %part : f32
    %y = arith.mulf %c, %tanh : f32
    linalg.yield %y : f32
  } -> tensor<1x1x10xf32>
  %scaled = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel"]} ins(%capped : tensor<1x1x10xf32>) outs(%room : tensor<1x1x10xf32>) {
  ^bb0(%in: f32, %out: f32):
    %y = arith.mulf %in, %factor : f32
    linalg.yield %y : f32
  } -> tensor<1x1x10xf32>
  %logits = tensor.collapse_shape %scaled [[0, 1], [2]] : tensor<1x1x10xf32> into tensor<1x10xf32>
  return %logits : tensor<1x10xf32>
}

#row = affine_map<(d0, d1) -> (d0, d1)>
// What falls, is not known to rise, reads more than one number or changes the type is searched itself.
// CHECK-LABEL: func.func @decreasing(
// CHECK:         %[[Y:.+]] = linalg.generic
// CHECK:         "llmc.argmax"(%[[Y]])
func.func @decreasing(%x: tensor<1x10xf32>) -> tensor<1x10xf32> {
  %factor = arith.constant -2.5e-01 : f32
  %room = tensor.empty() : tensor<1x10xf32>
  %logits = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1x10xf32>) outs(%room : tensor<1x10xf32>) {
  ^bb0(%in: f32, %out: f32):
    %y = arith.mulf %in, %factor : f32
    linalg.yield %y : f32
  } -> tensor<1x10xf32>
  return %logits : tensor<1x10xf32>
}

// CHECK-LABEL: func.func @inverse(
// CHECK:         %[[Y:.+]] = linalg.generic
// CHECK:         "llmc.argmax"(%[[Y]])
func.func @inverse(%x: tensor<1x10xf32>) -> tensor<1x10xf32> {
  %one = arith.constant 1.0e+00 : f32
  %room = tensor.empty() : tensor<1x10xf32>
  %logits = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1x10xf32>) outs(%room : tensor<1x10xf32>) {
  ^bb0(%in: f32, %out: f32):
    %y = arith.divf %one, %in : f32
    linalg.yield %y : f32
  } -> tensor<1x10xf32>
  return %logits : tensor<1x10xf32>
}

// CHECK-LABEL: func.func @unknown(
// CHECK:         %[[Y:.+]] = linalg.generic
// CHECK:         "llmc.argmax"(%[[Y]])
func.func @unknown(%x: tensor<1x10xf32>) -> tensor<1x10xf32> {
  %room = tensor.empty() : tensor<1x10xf32>
  %logits = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1x10xf32>) outs(%room : tensor<1x10xf32>) {
  ^bb0(%in: f32, %out: f32):
    %y = math.cos %in : f32
    linalg.yield %y : f32
  } -> tensor<1x10xf32>
  return %logits : tensor<1x10xf32>
}

// CHECK-LABEL: func.func @by_others(
// CHECK:         %[[Y:.+]] = linalg.generic
// CHECK:         "llmc.argmax"(%[[Y]])
func.func @by_others(%x: tensor<1x10xf32>, %factors: tensor<1x10xf32>) -> tensor<1x10xf32> {
  %room = tensor.empty() : tensor<1x10xf32>
  %logits = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel", "parallel"]} ins(%x, %factors : tensor<1x10xf32>, tensor<1x10xf32>) outs(%room : tensor<1x10xf32>) {
  ^bb0(%in: f32, %factor: f32, %out: f32):
    %y = arith.mulf %in, %factor : f32
    linalg.yield %y : f32
  } -> tensor<1x10xf32>
  return %logits : tensor<1x10xf32>
}

// CHECK-LABEL: func.func @moved(
// CHECK:         %[[Y:.+]] = linalg.generic
// CHECK:         "llmc.argmax"(%[[Y]])
func.func @moved(%x: tensor<10x10xf32>) -> tensor<10x10xf32> {
  %room = tensor.empty() : tensor<10x10xf32>
  %logits = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, #row], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<10x10xf32>) outs(%room : tensor<10x10xf32>) {
  ^bb0(%in: f32, %out: f32):
    %y = math.tanh %in : f32
    linalg.yield %y : f32
  } -> tensor<10x10xf32>
  return %logits : tensor<10x10xf32>
}

// CHECK-LABEL: func.func @open_rows(
// CHECK:         %[[Y:.+]] = linalg.generic
// CHECK:         "llmc.argmax"(%[[Y]])
func.func @open_rows(%x: tensor<?x10xf32>) -> tensor<1x10xf32> {
  %room = tensor.empty() : tensor<1x10xf32>
  %logits = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x10xf32>) outs(%room : tensor<1x10xf32>) {
  ^bb0(%in: f32, %out: f32):
    %y = math.tanh %in : f32
    linalg.yield %y : f32
  } -> tensor<1x10xf32>
  return %logits : tensor<1x10xf32>
}

// CHECK-LABEL: func.func @second(
// CHECK:         %[[Y:.+]]:2 = linalg.generic
// CHECK:         "llmc.argmax"(%[[Y]]#1)
func.func @second(%x: tensor<1x10xf32>) -> tensor<1x10xf32> {
  %room = tensor.empty() : tensor<1x10xf32>
  %logits:2 = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1x10xf32>) outs(%room, %room : tensor<1x10xf32>, tensor<1x10xf32>) {
  ^bb0(%in: f32, %out: f32, %second: f32):
    %y = math.tanh %in : f32
    %z = math.cos %in : f32
    linalg.yield %y, %z : f32, f32
  } -> (tensor<1x10xf32>, tensor<1x10xf32>)
  return %logits#1 : tensor<1x10xf32>
}

// CHECK-LABEL: func.func @converted(
// CHECK:         %[[Y:.+]] = linalg.generic
// CHECK:         "llmc.argmax"(%[[Y]])
func.func @converted(%x: tensor<1x10xf32>) -> tensor<1x10xf16> {
  %room = tensor.empty() : tensor<1x10xf16>
  %logits = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1x10xf32>) outs(%room : tensor<1x10xf16>) {
  ^bb0(%in: f32, %out: f16):
    %y = arith.truncf %in : f32 to f16
    linalg.yield %y : f16
  } -> tensor<1x10xf16>
  return %logits : tensor<1x10xf16>
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
