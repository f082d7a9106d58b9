// RUN: llmc-opt %s --fuse-partial-rotary --canonicalize --split-input-file | filecheck %s

// Heads that are cut in two, and concatenated once the first part is rotated, are rotated as a
// whole: the tables say how many channels are.
// CHECK-LABEL: func.func @tokens(
// CHECK:         %[[HEADS:.*]] = linalg.transpose
// CHECK:         %[[Y:.*]] = "llmc.rotary"(%[[HEADS]], %arg1, %arg2) {interleaved = 0 : i64} : (tensor<1x2x?x6xf32>, tensor<1x?x4xf32>, tensor<1x?x4xf32>) -> tensor<1x2x?x6xf32>
// CHECK:         return %[[Y]]
func.func @tokens(%x: tensor<1x?x12xf32>, %cos: tensor<1x?x4xf32>, %sin: tensor<1x?x4xf32>) -> tensor<1x2x?x6xf32> {
  %c1 = arith.constant 1 : index
  %tokens = tensor.dim %x, %c1 : tensor<1x?x12xf32>
  %cut = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [1, %tokens, 2, 6] : tensor<1x?x12xf32> into tensor<1x?x2x6xf32>
  %room = tensor.empty(%tokens) : tensor<1x2x?x6xf32>
  %heads = linalg.transpose ins(%cut : tensor<1x?x2x6xf32>) outs(%room : tensor<1x2x?x6xf32>) permutation = [0, 2, 1, 3]
  %first = tensor.extract_slice %heads[0, 0, 0, 0] [1, 2, %tokens, 4] [1, 1, 1, 1] : tensor<1x2x?x6xf32> to tensor<1x2x?x4xf32>
  %rest = tensor.extract_slice %heads[0, 0, 0, 4] [1, 2, %tokens, 2] [1, 1, 1, 1] : tensor<1x2x?x6xf32> to tensor<1x2x?x2xf32>
  %turned = "llmc.rotary"(%first, %cos, %sin) {interleaved = 0 : i64} : (tensor<1x2x?x4xf32>, tensor<1x?x4xf32>, tensor<1x?x4xf32>) -> tensor<1x2x?x4xf32>
  %y = tensor.concat dim(3) %turned, %rest : (tensor<1x2x?x4xf32>, tensor<1x2x?x2xf32>) -> tensor<1x2x?x6xf32>
  return %y : tensor<1x2x?x6xf32>
}

// Heads of a known number of tokens may come from anywhere.
// CHECK-LABEL: func.func @token(
// CHECK-NEXT:    %[[Y:.*]] = "llmc.rotary"(%arg0, %arg1, %arg2) {interleaved = 1 : i64} {{.*}} -> tensor<1x2x1x6xf32>
// CHECK-NEXT:    return %[[Y]]
func.func @token(%heads: tensor<1x2x1x6xf32>, %cos: tensor<1x1x4xf32>, %sin: tensor<1x1x4xf32>) -> tensor<1x2x1x6xf32> {
  %first = tensor.extract_slice %heads[0, 0, 0, 0] [1, 2, 1, 4] [1, 1, 1, 1] : tensor<1x2x1x6xf32> to tensor<1x2x1x4xf32>
  %rest = tensor.extract_slice %heads[0, 0, 0, 4] [1, 2, 1, 2] [1, 1, 1, 1] : tensor<1x2x1x6xf32> to tensor<1x2x1x2xf32>
  %turned = "llmc.rotary"(%first, %cos, %sin) {interleaved = 1 : i64} : (tensor<1x2x1x4xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>) -> tensor<1x2x1x4xf32>
  %y = tensor.concat dim(3) %turned, %rest : (tensor<1x2x1x4xf32>, tensor<1x2x1x2xf32>) -> tensor<1x2x1x6xf32>
  return %y : tensor<1x2x1x6xf32>
}

// -----

// Left alone: a rotation of the first two channels of the first part, the parts in another order,
// parts of different heads, and parts with a gap between.
// CHECK-LABEL: func.func @others(
// CHECK-COUNT-4: tensor.concat
func.func @others(%heads: tensor<1x2x1x6xf32>, %more: tensor<1x2x1x6xf32>, %long: tensor<1x2x1x7xf32>, %cos: tensor<1x1x4xf32>, %short: tensor<1x1x2xf32>)
    -> (tensor<1x2x1x6xf32>, tensor<1x2x1x6xf32>, tensor<1x2x1x6xf32>, tensor<1x2x1x6xf32>) {
  %first = tensor.extract_slice %heads[0, 0, 0, 0] [1, 2, 1, 4] [1, 1, 1, 1] : tensor<1x2x1x6xf32> to tensor<1x2x1x4xf32>
  %rest = tensor.extract_slice %heads[0, 0, 0, 4] [1, 2, 1, 2] [1, 1, 1, 1] : tensor<1x2x1x6xf32> to tensor<1x2x1x2xf32>
  %begin = tensor.extract_slice %heads[0, 0, 0, 0] [1, 2, 1, 2] [1, 1, 1, 1] : tensor<1x2x1x6xf32> to tensor<1x2x1x2xf32>
  %behind = tensor.extract_slice %heads[0, 0, 0, 2] [1, 2, 1, 4] [1, 1, 1, 1] : tensor<1x2x1x6xf32> to tensor<1x2x1x4xf32>
  %alien = tensor.extract_slice %more[0, 0, 0, 4] [1, 2, 1, 2] [1, 1, 1, 1] : tensor<1x2x1x6xf32> to tensor<1x2x1x2xf32>
  %parted = tensor.extract_slice %long[0, 0, 0, 0] [1, 2, 1, 4] [1, 1, 1, 1] : tensor<1x2x1x7xf32> to tensor<1x2x1x4xf32>
  %gap = tensor.extract_slice %long[0, 0, 0, 5] [1, 2, 1, 2] [1, 1, 1, 1] : tensor<1x2x1x7xf32> to tensor<1x2x1x2xf32>
  %a = "llmc.rotary"(%first, %short, %short) {interleaved = 0 : i64} : (tensor<1x2x1x4xf32>, tensor<1x1x2xf32>, tensor<1x1x2xf32>) -> tensor<1x2x1x4xf32>
  %b = "llmc.rotary"(%behind, %cos, %cos) {interleaved = 0 : i64} : (tensor<1x2x1x4xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>) -> tensor<1x2x1x4xf32>
  %c = "llmc.rotary"(%first, %cos, %cos) {interleaved = 0 : i64} : (tensor<1x2x1x4xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>) -> tensor<1x2x1x4xf32>
  %d = "llmc.rotary"(%parted, %cos, %cos) {interleaved = 0 : i64} : (tensor<1x2x1x4xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>) -> tensor<1x2x1x4xf32>
  %w = tensor.concat dim(3) %a, %rest : (tensor<1x2x1x4xf32>, tensor<1x2x1x2xf32>) -> tensor<1x2x1x6xf32>
  %x = tensor.concat dim(3) %b, %begin : (tensor<1x2x1x4xf32>, tensor<1x2x1x2xf32>) -> tensor<1x2x1x6xf32>
  %y = tensor.concat dim(3) %c, %alien : (tensor<1x2x1x4xf32>, tensor<1x2x1x2xf32>) -> tensor<1x2x1x6xf32>
  %z = tensor.concat dim(3) %d, %gap : (tensor<1x2x1x4xf32>, tensor<1x2x1x2xf32>) -> tensor<1x2x1x6xf32>
  return %w, %x, %y, %z : tensor<1x2x1x6xf32>, tensor<1x2x1x6xf32>, tensor<1x2x1x6xf32>, tensor<1x2x1x6xf32>
}
