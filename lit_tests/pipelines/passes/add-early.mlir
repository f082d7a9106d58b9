// RUN: llmc-opt %s --add-early --canonicalize --split-input-file | filecheck %s

#n = affine_map<(n) -> (n)>

// Of three, what the last linear layer computes is added last; the others as soon as they are there,
// in whichever order the sums are written.
// CHECK-LABEL: func.func @parallel(
// CHECK:         %[[A:.*]] = math.exp %arg0
// CHECK-NEXT:    tensor.empty
// CHECK-NEXT:    %[[FIRST:.*]] = linalg.generic {{.*}} ins(%arg0, %[[A]] :
// CHECK:           arith.addf
// CHECK:         %[[B:.*]] = math.sin %arg0
// CHECK:         %[[Y:.*]] = linalg.generic {{.*}} ins(%[[B]], %[[FIRST]] :
// CHECK:         return %[[Y]]
func.func @parallel(%x: tensor<8xf32>) -> tensor<8xf32> {
  %room = tensor.empty() : tensor<8xf32>
  %a = math.exp %x : tensor<8xf32>
  %b = math.sin %x : tensor<8xf32>
  %s = linalg.generic {indexing_maps = [#n, #n, #n], iterator_types = ["parallel"]} ins(%b, %a : tensor<8xf32>, tensor<8xf32>) outs(%room : tensor<8xf32>) {
  ^bb0(%e: f32, %f: f32, %old: f32):
    %t = arith.addf %e, %f : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#n, #n, #n], iterator_types = ["parallel"]} ins(%x, %s : tensor<8xf32>, tensor<8xf32>) outs(%room : tensor<8xf32>) {
  ^bb0(%e: f32, %f: f32, %old: f32):
    %t = arith.addf %e, %f : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// Left alone: a sum that is read elsewhere too, and one whose last term is added last already.
// CHECK-LABEL: func.func @residual(
// CHECK:         %[[A:.*]] = math.exp %arg0
// CHECK:         %[[H:.*]] = linalg.generic {{.*}} ins(%arg0, %[[A]] :
// CHECK:         %[[B:.*]] = math.sin %[[H]]
// CHECK:         linalg.generic {{.*}} ins(%[[H]], %[[B]] :
// CHECK-LABEL: func.func @in_order(
// CHECK:         %[[S:.*]] = linalg.generic {{.*}} ins(%arg0, %{{.*}} :
// CHECK:         %[[B:.*]] = math.sin %arg0
// CHECK:         linalg.generic {{.*}} ins(%[[S]], %[[B]] :
#n = affine_map<(n) -> (n)>
func.func @residual(%x: tensor<8xf32>) -> tensor<8xf32> {
  %room = tensor.empty() : tensor<8xf32>
  %a = math.exp %x : tensor<8xf32>
  %h = linalg.generic {indexing_maps = [#n, #n, #n], iterator_types = ["parallel"]} ins(%x, %a : tensor<8xf32>, tensor<8xf32>) outs(%room : tensor<8xf32>) {
  ^bb0(%e: f32, %f: f32, %old: f32):
    %t = arith.addf %e, %f : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  %b = math.sin %h : tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#n, #n, #n], iterator_types = ["parallel"]} ins(%h, %b : tensor<8xf32>, tensor<8xf32>) outs(%room : tensor<8xf32>) {
  ^bb0(%e: f32, %f: f32, %old: f32):
    %t = arith.addf %e, %f : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}
func.func @in_order(%x: tensor<8xf32>) -> tensor<8xf32> {
  %room = tensor.empty() : tensor<8xf32>
  %a = math.exp %x : tensor<8xf32>
  %s = linalg.generic {indexing_maps = [#n, #n, #n], iterator_types = ["parallel"]} ins(%x, %a : tensor<8xf32>, tensor<8xf32>) outs(%room : tensor<8xf32>) {
  ^bb0(%e: f32, %f: f32, %old: f32):
    %t = arith.addf %e, %f : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  %b = math.sin %x : tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#n, #n, #n], iterator_types = ["parallel"]} ins(%s, %b : tensor<8xf32>, tensor<8xf32>) outs(%room : tensor<8xf32>) {
  ^bb0(%e: f32, %f: f32, %old: f32):
    %t = arith.addf %e, %f : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}
