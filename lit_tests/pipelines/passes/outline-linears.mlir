// RUN: llmc-opt %s --outline-linears --split-input-file --verify-diagnostics | filecheck %s

// One row is a panel_matvec, of which there is one function for two layers alike.
// CHECK-LABEL: func.func @one_row
// CHECK:         call @[[VEC:.*]](%{{.*}}) : (tensor<1x8xf32>, tensor<2x8x4xf16>) -> tensor<1x2x4xf32>
// CHECK:         call @[[VEC]](
func.func @one_row(%x: tensor<1x1x8xf32>, %w: tensor<2x8x4xf16>) -> tensor<1x1x8xf32> {
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 4 : i64}
      : (tensor<1x1x8xf32>, tensor<2x8x4xf16>) -> tensor<1x1x8xf32>
  %z = "llmc.packed_linear"(%y, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 4 : i64}
      : (tensor<1x1x8xf32>, tensor<2x8x4xf16>) -> tensor<1x1x8xf32>
  return %z : tensor<1x1x8xf32>
}

// Several rows are a panel_matmul, of a number that the kernel is not told, be it known or not. The
// columns with which the last panel was filled up are left out, and a bias is added outside.
// CHECK-LABEL: func.func @rows
// CHECK:         call @[[MAT:.*]](%{{.*}}) : (tensor<?x8xf32>, tensor<2x8x4xf32>) -> tensor<?x2x4xf32>
// CHECK:         tensor.extract_slice %{{.*}} [%{{.*}}, 7] [1, 1] : tensor<?x8xf32> to tensor<?x7xf32>
// CHECK-LABEL: func.func @known_rows
// CHECK:         call @[[MAT]](
// CHECK:         return %{{.*}} : tensor<2x3x7xf32>
func.func @rows(%x: tensor<1x?x8xf32>, %w: tensor<2x8x4xf32>, %b: tensor<7xf32>) -> tensor<1x?x7xf32> {
  %y = "llmc.packed_linear"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, tile = 4 : i64}
      : (tensor<1x?x8xf32>, tensor<2x8x4xf32>, tensor<7xf32>) -> tensor<1x?x7xf32>
  return %y : tensor<1x?x7xf32>
}
func.func @known_rows(%x: tensor<2x3x8xf32>, %w: tensor<2x8x4xf32>, %b: tensor<7xf32>) -> tensor<2x3x7xf32> {
  %y = "llmc.packed_linear"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, tile = 4 : i64}
      : (tensor<2x3x8xf32>, tensor<2x8x4xf32>, tensor<7xf32>) -> tensor<2x3x7xf32>
  return %y : tensor<2x3x7xf32>
}

// A single panel makes no grid of workgroups, but for one row, whose columns do.
// CHECK-LABEL: func.func @one_panel
// CHECK:         llmc.packed_linear
func.func @one_panel(%x: tensor<?x8xf32>, %w: tensor<1x8x4xf32>) -> tensor<?x4xf32> {
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 4 : i64}
      : (tensor<?x8xf32>, tensor<1x8x4xf32>) -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
// CHECK-LABEL: func.func @one_panel_of_one_row
// CHECK:         call @{{.*}}(%{{.*}}) : (tensor<1x8xf32>, tensor<1x8x4xf32>) -> tensor<1x1x4xf32>
func.func @one_panel_of_one_row(%x: tensor<1x8xf32>, %w: tensor<1x8x4xf32>) -> tensor<1x4xf32> {
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 4 : i64}
      : (tensor<1x8xf32>, tensor<1x8x4xf32>) -> tensor<1x4xf32>
  return %y : tensor<1x4xf32>
}

// Nor has a single column anything to share.
// CHECK-LABEL: func.func @one_column
// CHECK:         llmc.packed_linear
func.func @one_column(%x: tensor<1x8xf32>, %w: tensor<1x8x1xf32>) -> tensor<1x1xf32> {
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 4 : i64}
      : (tensor<1x8xf32>, tensor<1x8x1xf32>) -> tensor<1x1xf32>
  return %y : tensor<1x1xf32>
}

// Which of its lengths is asked for may be known no sooner than it runs.
// CHECK-LABEL: func.func @asked
// CHECK:         call @
// CHECK:         tensor.dim %{{.*}}, %arg2
func.func @asked(%x: tensor<?x8xf32>, %w: tensor<2x8x4xf32>, %dim: index) -> (tensor<?x8xf32>, index) {
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 4 : i64}
      : (tensor<?x8xf32>, tensor<2x8x4xf32>) -> tensor<?x8xf32>
  %length = tensor.dim %y, %dim : tensor<?x8xf32>
  return %y, %length : tensor<?x8xf32>, index
}

// A weight that is not packed has no panels.
// CHECK-LABEL: func.func @not_packed
// CHECK:         llmc.linear
func.func @not_packed(%x: tensor<1x8xf32>, %w: tensor<8x8xf32>) -> tensor<1x8xf32> {
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
      : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32>
  return %y : tensor<1x8xf32>
}

// The sum of what two layers compute is the later one's: the earlier does not wait for it.
// CHECK-LABEL: func.func @two_layers
// CHECK:         %[[FIRST:.*]] = call @[[VEC]](
// CHECK:         %[[TERM:.*]] = tensor.expand_shape
// CHECK:         %[[OUT:.*]] = call @{{.*}}(%arg0, %arg1, %[[TERM]]) : (tensor<1x8xf32>, tensor<2x8x4xf16>, tensor<1x2x4xf32>)
// CHECK-NOT:     linalg
// CHECK:         return
#point = affine_map<(a, b) -> (a, b)>
func.func @two_layers(%x: tensor<1x8xf32>, %w: tensor<2x8x4xf16>) -> tensor<1x8xf32> {
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 4 : i64}
      : (tensor<1x8xf32>, tensor<2x8x4xf16>) -> tensor<1x8xf32>
  %z = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 4 : i64}
      : (tensor<1x8xf32>, tensor<2x8x4xf16>) -> tensor<1x8xf32>
  %sum = linalg.generic {indexing_maps = [#point, #point, #point], iterator_types = ["parallel", "parallel"]}
      ins(%y, %z : tensor<1x8xf32>, tensor<1x8xf32>) outs(%x : tensor<1x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %t = arith.addf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<1x8xf32>
  return %sum : tensor<1x8xf32>
}

// The norm that one row alone is read through, and the sum that follows, are the kernel's.
// CHECK-LABEL: func.func @surroundings
// CHECK-NOT:     {{llmc|linalg}}
// CHECK:         call @[[FUSED:.*]](%{{.*}}) : (tensor<1x8xf32>, tensor<8xf32>, tensor<2x8x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
// CHECK-NOT:     {{llmc|linalg}}
// CHECK:         return
#same = affine_map<(a, b) -> (a, b)>
func.func @surroundings(%x: tensor<1x8xf32>, %s: tensor<8xf32>, %w: tensor<2x8x4xf32>) -> tensor<1x8xf32> {
  %n = "llmc.rms_norm"(%x, %s) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 1>}
      : (tensor<1x8xf32>, tensor<8xf32>) -> tensor<1x8xf32>
  %y = "llmc.packed_linear"(%n, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 4 : i64}
      : (tensor<1x8xf32>, tensor<2x8x4xf32>) -> tensor<1x8xf32>
  %room = tensor.empty() : tensor<1x8xf32>
  %z = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<1x8xf32>, tensor<1x8xf32>) outs(%room : tensor<1x8xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %sum = arith.addf %a, %b : f32
    linalg.yield %sum : f32
  } -> tensor<1x8xf32>
  return %z : tensor<1x8xf32>
}

// Of the weights of all layers a kernel takes its own, be they a matrix, a norm's or a bias.
// CHECK-LABEL: func.func @stacks(
// CHECK-SAME:    %{{.*}}, %[[NORMS:.*]]: tensor<3x8xf32>, %[[WEIGHTS:.*]]: tensor<3x2x8x4xf32>, %[[BIASES:.*]]: tensor<3x8xf32>, %[[LAYER:.*]]: index
// CHECK:         %[[PANELS:.*]] = tensor.expand_shape %[[BIASES]] {{\[\[}}0], [1, 2]] {{.*}} into tensor<3x2x4xf32>
// CHECK:         call @[[STACKS:.*]](%{{.*}}, %[[NORMS]], %[[LAYER]], %[[WEIGHTS]], %[[PANELS]])
func.func @stacks(%x: tensor<1x8xf32>, %norms: tensor<3x8xf32>, %weights: tensor<3x2x8x4xf32>, %biases: tensor<3x8xf32>, %layer: index) -> tensor<1x8xf32> {
  %norm = tensor.extract_slice %norms[%layer, 0] [1, 8] [1, 1] : tensor<3x8xf32> to tensor<8xf32>
  %w = tensor.extract_slice %weights[%layer, 0, 0, 0] [1, 2, 8, 4] [1, 1, 1, 1] : tensor<3x2x8x4xf32> to tensor<2x8x4xf32>
  %b = tensor.extract_slice %biases[%layer, 0] [1, 8] [1, 1] : tensor<3x8xf32> to tensor<8xf32>
  %n = "llmc.rms_norm"(%x, %norm) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 1>}
      : (tensor<1x8xf32>, tensor<8xf32>) -> tensor<1x8xf32>
  %y = "llmc.packed_linear"(%n, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, tile = 4 : i64}
      : (tensor<1x8xf32>, tensor<2x8x4xf32>, tensor<8xf32>) -> tensor<1x8xf32>
  return %y : tensor<1x8xf32>
}

// CHECK:       func.func private @[[VEC]]({{.*}} attributes {llmc.kernel = "panel_matvec"}
// CHECK:         arith.extf
// CHECK:       func.func private @[[MAT]]({{.*}} attributes {llmc.kernel = "panel_matmul"}
// CHECK:       func.func private @[[FUSED]]({{.*}} attributes {llmc.kernel = "panel_matvec"}
// CHECK:         llmc.rms_norm
// CHECK:       func.func private @[[STACKS]](
// CHECK-SAME:    %[[LAYER:[^:]*]]: index, %{{[^:]*}}: tensor<3x2x8x4xf32>, %[[PANELS:[^:]*]]: tensor<3x2x4xf32>
// CHECK:         tensor.extract_slice %[[PANELS]][%[[LAYER]], 0, 0] [1, 2, 4] [1, 1, 1]
// CHECK-NOT:   func.func

// -----

// An invalid layer is an error.
func.func @invalid(%x: tensor<1x8xf32>, %w: tensor<2x7x4xf32>) {
  // expected-error@+1 {{'llmc.packed_linear' op operand 'x' must have its last dimension = 7, but has 8}}
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 4 : i64}
      : (tensor<1x8xf32>, tensor<2x7x4xf32>) -> tensor<1x8xf32>
  return
}

// -----

// What looks at where it stands does not follow a layer in its kernel, where it would stand elsewhere.
// CHECK-LABEL: func.func @indexed
// CHECK:         call @
// CHECK:         linalg.index
// CHECK:         return
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @indexed(%x: tensor<1x8xf32>, %w: tensor<2x8x4xf32>) -> tensor<1x8xf32> {
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 4 : i64}
      : (tensor<1x8xf32>, tensor<2x8x4xf32>) -> tensor<1x8xf32>
  %room = tensor.empty() : tensor<1x8xf32>
  %z = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<1x8xf32>) outs(%room : tensor<1x8xf32>) {
  ^bb0(%a: f32, %old: f32):
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i64
    %f = arith.sitofp %j : i64 to f32
    %s = arith.addf %a, %f : f32
    linalg.yield %s : f32
  } -> tensor<1x8xf32>
  return %z : tensor<1x8xf32>
}

// -----

// Halves of some rows are not those of all.
// CHECK-LABEL: func.func @few(
// CHECK-SAME:    %{{.+}}: tensor<4x8x4xf32>, %[[M:.+]]: index)
// CHECK:         tensor.extract_slice %{{.+}}[0, 0] [%[[M]], 8]
// CHECK:         tensor.extract_slice %{{.+}}[0, 8] [%[[M]], 8]
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @few(%x: tensor<?x8xf32>, %w: tensor<4x8x4xf32>, %m: index) -> tensor<?x8xf32> {
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 4 : i64}
      : (tensor<?x8xf32>, tensor<4x8x4xf32>) -> tensor<?x16xf32>
  %g = tensor.extract_slice %y[0, 0] [%m, 8] [1, 1] : tensor<?x16xf32> to tensor<?x8xf32>
  %u = tensor.extract_slice %y[0, 8] [%m, 8] [1, 1] : tensor<?x16xf32> to tensor<?x8xf32>
  %room = tensor.empty(%m) : tensor<?x8xf32>
  %z = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%g, %u : tensor<?x8xf32>, tensor<?x8xf32>) outs(%room : tensor<?x8xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %s = arith.mulf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<?x8xf32>
  return %z : tensor<?x8xf32>
}
