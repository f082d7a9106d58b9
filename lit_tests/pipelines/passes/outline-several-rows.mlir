// RUN: llmc-opt %s --lower-llmc='{keep-kernels=true}' --canonicalize --cse --outline-rows --canonicalize --cse | filecheck %s

// A norm of several rows, which are as many as are not known, is a kernel. It reads a weight from the
// stack of all layers'.
// CHECK-LABEL: func.func private @several(
// CHECK:         %[[X:.*]] = tensor.collapse_shape %arg0 {{.*}} into tensor<?x8xf32>
// CHECK:         %[[Y:.*]] = call @rows_0(%[[X]], %arg1, %arg2) : (tensor<?x8xf32>, tensor<3x8xf32>, index) -> tensor<?x8xf32>
// CHECK:         %[[OUT:.*]] = tensor.expand_shape %[[Y]] {{.*}} : tensor<?x8xf32> into tensor<?x1x8xf32>
// CHECK:         return %[[OUT]]
func.func private @several(%x: tensor<?x1x8xf32>, %weights: tensor<3x8xf32>, %layer: index) -> tensor<?x1x8xf32> attributes {llmc.layer_argument = 2 : index} {
  %weight = tensor.extract_slice %weights[%layer, 0] [1, 8] [1, 1] : tensor<3x8xf32> to tensor<8xf32>
  %y = "llmc.rms_norm"(%x, %weight) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 1>} : (tensor<?x1x8xf32>, tensor<8xf32>) -> tensor<?x1x8xf32>
  return %y : tensor<?x1x8xf32>
}

// CHECK-LABEL: func.func private @layer_norm(
// CHECK:         call @rows_1(
func.func private @layer_norm(%x: tensor<1x?x8xf32>, %bias: tensor<8xf32>, %layer: index) -> tensor<1x?x8xf32> attributes {llmc.layer_argument = 2 : index} {
  %y = "llmc.layer_norm"(%x, %bias, %bias) {epsilon = 1.0e-5 : f64, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<1x?x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x?x8xf32>
  return %y : tensor<1x?x8xf32>
}

// A residual that is added to it is added in the kernel; the sum may be normalised next.
// CHECK-LABEL: func.func private @residual(
// CHECK-DAG:     %[[X:.*]] = tensor.collapse_shape %arg0
// CHECK-DAG:     %[[R:.*]] = tensor.collapse_shape %arg1
// CHECK:         %[[SUM:.*]] = call @rows_2(%[[X]], %[[R]])
// CHECK-NOT:     linalg
// CHECK:         call @rows_3(%[[SUM]])
#id = affine_map<(b, t, n) -> (b, t, n)>
func.func private @residual(%x: tensor<?x1x8xf32>, %r: tensor<?x1x8xf32>, %layer: index) -> (tensor<?x1x8xf32>, tensor<?x1x8xf32>) attributes {llmc.layer_argument = 2 : index} {
  %n = "llmc.rms_norm"(%x) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
  %sum = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%r, %n : tensor<?x1x8xf32>, tensor<?x1x8xf32>) outs(%x : tensor<?x1x8xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<?x1x8xf32>
  %y = "llmc.rms_norm"(%sum) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
  return %sum, %y : tensor<?x1x8xf32>, tensor<?x1x8xf32>
}

// Of wider rows it takes some columns in the kernel; columns of a part of the rows are computed first.
// CHECK-LABEL: func.func private @columns(
// CHECK:         %[[WIDE:.*]] = tensor.collapse_shape %arg0 {{.*}} into tensor<?x24xf32>
// CHECK:         call @rows_4(%[[WIDE]])
// CHECK:         tensor.extract_slice %arg0[0, 0, 0] [%arg1,
// CHECK:         math.rsqrt
func.func private @columns(%x: tensor<?x1x24xf32>, %rows: index, %layer: index) -> (tensor<?x1x8xf32>, tensor<?x1x8xf32>) attributes {llmc.layer_argument = 2 : index} {
  %c0 = arith.constant 0 : index
  %all = tensor.dim %x, %c0 : tensor<?x1x24xf32>
  %own = tensor.extract_slice %x[0, 0, 8] [%all, 1, 8] [1, 1, 1] : tensor<?x1x24xf32> to tensor<?x1x8xf32>
  %y = "llmc.rms_norm"(%own) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
  %some = tensor.extract_slice %x[0, 0, 0] [%rows, 1, 8] [1, 1, 1] : tensor<?x1x24xf32> to tensor<?x1x8xf32>
  %z = "llmc.rms_norm"(%some) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
  return %y, %z : tensor<?x1x8xf32>, tensor<?x1x8xf32>
}

// What others than kernels read is theirs to compute. Halves have no kernel.
// CHECK-LABEL: func.func private @other_readers(
// CHECK:         math.rsqrt {{.*}} : f32
// CHECK:         arith.mulf {{.*}} : tensor<?x1x8xf32>
// CHECK:         call @rows_5(
// CHECK:         math.rsqrt {{.*}} : f16
func.func private @other_readers(%x: tensor<?x1x8xf32>, %h: tensor<?x1x8xf16>, %layer: index) -> (tensor<?x1x8xf32>, tensor<?x1x8xf32>, tensor<?x1x8xf16>) attributes {llmc.layer_argument = 2 : index} {
  %n = "llmc.rms_norm"(%x) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
  %product = arith.mulf %x, %n : tensor<?x1x8xf32>
  %sum = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %n : tensor<?x1x8xf32>, tensor<?x1x8xf32>) outs(%x : tensor<?x1x8xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<?x1x8xf32>
  %y = "llmc.rms_norm"(%h) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<?x1x8xf16>) -> tensor<?x1x8xf16>
  return %product, %sum, %y : tensor<?x1x8xf32>, tensor<?x1x8xf32>, tensor<?x1x8xf16>
}

// IREE fuses it with other computation before it, or after it.
// CHECK-LABEL: func.func private @others_around(
// CHECK-NOT:     call
func.func private @others_around(%x: tensor<?x1x8xf32>, %r: tensor<?x1x8xf32>, %layer: index) -> (tensor<?x1x8xf32>, tensor<?x1x8xf32>) attributes {llmc.layer_argument = 2 : index} {
  %sum = arith.mulf %x, %r : tensor<?x1x8xf32>
  %y = "llmc.rms_norm"(%sum) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
  %n = "llmc.rms_norm"(%x) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
  %z = arith.mulf %n, %r : tensor<?x1x8xf32>
  return %y, %z : tensor<?x1x8xf32>, tensor<?x1x8xf32>
}

// What takes rows of it, as experts do, is a kernel too.
// CHECK-LABEL: func.func private @taken(
// CHECK:         %[[Y:.*]] = call @rows_
// CHECK:         "llmc.take_rows"(%arg1, %[[Y]])
func.func private @taken(%x: tensor<?x8xf32>, %ids: tensor<?xi32>, %layer: index) -> tensor<?x8xf32> attributes {llmc.layer_argument = 2 : index} {
  %y = "llmc.rms_norm"(%x) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %rows = "llmc.take_rows"(%ids, %y) {top_k = 2 : i64} : (tensor<?xi32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %rows : tensor<?x8xf32>
}

// Rows of which a token has several, as heads are, stay, and what is in no layer.
// CHECK-LABEL: func.func private @heads(
// CHECK-NOT:     call
func.func private @heads(%heads: tensor<1x?x4x8xf32>, %layer: index) -> tensor<1x?x4x8xf32> attributes {llmc.layer_argument = 1 : index} {
  %z = "llmc.rms_norm"(%heads) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1x?x4x8xf32>) -> tensor<1x?x4x8xf32>
  return %z : tensor<1x?x4x8xf32>
}

// CHECK-LABEL: func.func @no_layer(
// CHECK-NOT:     call
func.func @no_layer(%x: tensor<1x?x8xf32>) -> tensor<1x?x8xf32> {
  %y = "llmc.rms_norm"(%x) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1x?x8xf32>) -> tensor<1x?x8xf32>
  return %y : tensor<1x?x8xf32>
}

// A gate of one number for each row is computed where rows are multiplied by it.
// CHECK-LABEL: func.func private @gate(
// CHECK:         %[[Y:.*]] = call @rows_6(%arg0, %arg1, %arg2, %{{.*}}) : (tensor<?x8xf32>, tensor<3x1x8xf32>, index, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK:         return %[[Y]]
#tn = affine_map<(t, n) -> (t, n)>
#t1 = affine_map<(t, n) -> (t, 0)>
func.func private @gate(%x: tensor<?x8xf32>, %weights: tensor<3x1x8xf32>, %layer: index, %rows: tensor<?x1x8xf32>) -> tensor<?x8xf32> attributes {llmc.layer_argument = 2 : index} {
  %weight = tensor.extract_slice %weights[%layer, 0, 0] [1, 1, 8] [1, 1, 1] : tensor<3x1x8xf32> to tensor<1x8xf32>
  %flat = tensor.collapse_shape %rows [[0], [1, 2]] : tensor<?x1x8xf32> into tensor<?x8xf32>
  %gate = "llmc.linear"(%x, %weight) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64} : (tensor<?x8xf32>, tensor<1x8xf32>) -> tensor<?x1xf32>
  %y = linalg.generic {indexing_maps = [#tn, #t1, #tn], iterator_types = ["parallel", "parallel"]} ins(%flat, %gate : tensor<?x8xf32>, tensor<?x1xf32>) outs(%x : tensor<?x8xf32>) {
  ^bb0(%a: f32, %g: f32, %old: f32):
    %p = arith.mulf %a, %g : f32
    linalg.yield %p : f32
  } -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func private @rows_0(
// CHECK-SAME:    attributes {llmc.kernel = "rows"}
// CHECK:         tensor.extract_slice %arg1[%arg2, 0] [1, 8]
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]
