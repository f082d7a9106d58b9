// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(fuse-residual-norm)' | filecheck %s

// The sum goes on to others; the norm takes its place beside it.
// CHECK-LABEL: func.func @residual
// CHECK-NOT:     arith.addf
// CHECK:         %[[BOTH:.+]]:2 = "llmc.add_rms_norm"(%arg0, %arg1, %arg2) {epsilon = 1.000000e-05 : f64, offset = 1.000000e+00 : f64,
// CHECK-NEXT:    return %[[BOTH]]#0, %[[BOTH]]#1
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @residual(%x: tensor<1x?x6xf32>, %r: tensor<1x?x6xf32>, %w: tensor<6xf32>) -> (tensor<1x?x6xf32>, tensor<1x?x6xf32>) {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<1x?x6xf32>
  %room = tensor.empty(%n) : tensor<1x?x6xf32>
  %sum = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %r : tensor<1x?x6xf32>, tensor<1x?x6xf32>) outs(%room : tensor<1x?x6xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<1x?x6xf32>
  %y = "llmc.rms_norm"(%sum, %w) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5, offset = 1.0}
     : (tensor<1x?x6xf32>, tensor<6xf32>) -> tensor<1x?x6xf32>
  return %sum, %y : tensor<1x?x6xf32>, tensor<1x?x6xf32>
}

// So it does for an addition of tensors and a norm without a weight. The second norm reads the sum.
// CHECK-LABEL: func.func @twice
// CHECK-NEXT:    %[[BOTH:.+]]:2 = "llmc.add_rms_norm"(%arg0, %arg0) {{.+}} operandSegmentSizes = array<i32: 1, 1, 0>
// CHECK-NEXT:    %[[SECOND:.+]] = "llmc.rms_norm"(%[[BOTH]]#0, %arg1)
// CHECK-NEXT:    return %[[BOTH]]#1, %[[SECOND]]
func.func @twice(%x: tensor<3x6xf32>, %w: tensor<6xf32>) -> (tensor<3x6xf32>, tensor<3x6xf32>) {
  %sum = arith.addf %x, %x : tensor<3x6xf32>
  %y = "llmc.rms_norm"(%sum) {operandSegmentSizes = array<i32: 1, 0>, epsilon = 1.0e-5, offset = 0.0} : (tensor<3x6xf32>) -> tensor<3x6xf32>
  %z = "llmc.rms_norm"(%sum, %w) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5, offset = 0.0} : (tensor<3x6xf32>, tensor<6xf32>) -> tensor<3x6xf32>
  return %y, %z : tensor<3x6xf32>, tensor<3x6xf32>
}

// What needs the sum before the weight is there keeps it.
// CHECK-LABEL: func.func @needed_earlier
// CHECK-NEXT:    %[[SUM:.+]] = arith.addf
// CHECK-NEXT:    tensor.extract_slice %[[SUM]]
// CHECK-NEXT:    "llmc.rms_norm"(%[[SUM]],
func.func @needed_earlier(%x: tensor<3x6xf32>) -> tensor<3x6xf32> {
  %sum = arith.addf %x, %x : tensor<3x6xf32>
  %w = tensor.extract_slice %sum[0, 0] [1, 6] [1, 1] : tensor<3x6xf32> to tensor<6xf32>
  %y = "llmc.rms_norm"(%sum, %w) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5, offset = 0.0} : (tensor<3x6xf32>, tensor<6xf32>) -> tensor<3x6xf32>
  return %y : tensor<3x6xf32>
}

// A broadcast addition, another operation, and a norm of what is no sum are left alone.
// CHECK-LABEL: func.func @others
// CHECK-NOT:     llmc.add_rms_norm
// CHECK:         return
#row = affine_map<(d0, d1) -> (d1)>
#both = affine_map<(d0, d1) -> (d0, d1)>
func.func @others(%x: tensor<3x6xf32>, %w: tensor<6xf32>) -> (tensor<3x6xf32>, tensor<3x6xf32>, tensor<3x6xf32>) {
  %room = tensor.empty() : tensor<3x6xf32>
  %sum = linalg.generic {indexing_maps = [#both, #row, #both], iterator_types = ["parallel", "parallel"]}
      ins(%x, %w : tensor<3x6xf32>, tensor<6xf32>) outs(%room : tensor<3x6xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<3x6xf32>
  %difference = arith.subf %x, %x : tensor<3x6xf32>
  %1 = "llmc.rms_norm"(%sum, %w) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5, offset = 0.0} : (tensor<3x6xf32>, tensor<6xf32>) -> tensor<3x6xf32>
  %2 = "llmc.rms_norm"(%difference, %w) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5, offset = 0.0} : (tensor<3x6xf32>, tensor<6xf32>) -> tensor<3x6xf32>
  %3 = "llmc.rms_norm"(%x, %w) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5, offset = 0.0} : (tensor<3x6xf32>, tensor<6xf32>) -> tensor<3x6xf32>
  return %1, %2, %3 : tensor<3x6xf32>, tensor<3x6xf32>, tensor<3x6xf32>
}

// -----

// The pass emits nothing itself; what it would work on is still verified.
func.func @invalid(%x: tensor<3x6xf32>, %w: tensor<5xf32>) {
  %sum = arith.addf %x, %x : tensor<3x6xf32>
  // expected-error@+1 {{'llmc.rms_norm' op operand 'weight' must have its length = 6, but has 5}}
  %y = "llmc.rms_norm"(%sum, %w) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5, offset = 0.0} : (tensor<3x6xf32>, tensor<5xf32>) -> tensor<3x6xf32>
  return
}
