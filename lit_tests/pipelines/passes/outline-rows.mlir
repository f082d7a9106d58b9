// RUN: llmc-opt %s --outline-rows --canonicalize --cse --split-input-file | filecheck %s

#row = affine_map<(b, t, n) -> (b, t, n)>
#sum = affine_map<(b, t, n) -> (b, t)>
#weight = affine_map<(b, t, n) -> (n)>

// A norm, and the residual that is added to it, are one kernel: it reads a weight from the stack of
// all layers', loops over the row for the sum and then for all that is done element by element.
// CHECK-LABEL: func.func private @norm_and_residual(
// CHECK-NOT:     linalg
// CHECK:         %[[X:.*]] = tensor.collapse_shape %arg1
// CHECK:         %[[R:.*]] = tensor.collapse_shape %arg0
// CHECK:         %[[Y:.*]] = call @row_0(%[[X]], %[[R]], %arg2, %arg3) : (tensor<8xf32>, tensor<8xf32>, tensor<3x8xf32>, index) -> tensor<8xf32>
// CHECK:         %[[OUT:.*]] = tensor.expand_shape %[[Y]] {{.*}} : tensor<8xf32> into tensor<1x1x8xf32>
// CHECK:         return %[[OUT]]
// CHECK:       func.func private @row_0(%[[X:.*]]: tensor<8xf32>, %[[R:.*]]: tensor<8xf32>, %[[STACK:.*]]: tensor<3x8xf32>, %[[LAYER:.*]]: index) -> tensor<8xf32> attributes {llmc.kernel = "row"}
// CHECK:         %[[W:.*]] = tensor.extract_slice %[[STACK]][%[[LAYER]], 0] [1, 8]
// CHECK:         %[[SUM:.*]] = linalg.generic {{.*}}iterator_types = ["reduction"]} ins(%[[X]] :
// CHECK:         %[[OUT:.*]] = linalg.generic {{.*}}iterator_types = ["parallel"]} ins(%[[R]], %[[X]], %[[SUM]], %[[W]] :
// CHECK:           math.rsqrt
// CHECK:           arith.mulf
// CHECK:           arith.mulf
// CHECK:           arith.addf
// CHECK:         return %[[OUT]]
func.func private @norm_and_residual(%residual: tensor<1x1x8xf32>, %panels: tensor<1x2x4xf32>, %weights: tensor<3x8xf32>, %layer: index) -> tensor<1x1x8xf32> attributes {llmc.layer_argument = 3 : index} {
  %zero = arith.constant 0.0 : f32
  %flat = tensor.collapse_shape %panels [[0], [1, 2]] : tensor<1x2x4xf32> into tensor<1x8xf32>
  %x = tensor.expand_shape %flat [[0, 1], [2]] output_shape [1, 1, 8] : tensor<1x8xf32> into tensor<1x1x8xf32>
  %weight = tensor.extract_slice %weights[%layer, 0] [1, 8] [1, 1] : tensor<3x8xf32> to tensor<8xf32>
  %one = tensor.empty() : tensor<1x1xf32>
  %start = linalg.fill ins(%zero : f32) outs(%one : tensor<1x1xf32>) -> tensor<1x1xf32>
  %square = linalg.generic {indexing_maps = [#row, #sum], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<1x1x8xf32>) outs(%start : tensor<1x1xf32>) {
  ^bb0(%a: f32, %total: f32):
    %s = arith.mulf %a, %a : f32
    %t = arith.addf %total, %s : f32
    linalg.yield %t : f32
  } -> tensor<1x1xf32>
  %room = tensor.empty() : tensor<1x1x8xf32>
  %normed = linalg.generic {indexing_maps = [#row, #sum, #weight, #row], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %square, %weight : tensor<1x1x8xf32>, tensor<1x1xf32>, tensor<8xf32>) outs(%room : tensor<1x1x8xf32>) {
  ^bb0(%a: f32, %s: f32, %w: f32, %old: f32):
    %r = math.rsqrt %s : f32
    %n = arith.mulf %a, %r : f32
    %y = arith.mulf %n, %w : f32
    linalg.yield %y : f32
  } -> tensor<1x1x8xf32>
  %out = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel", "parallel", "parallel"]} ins(%residual, %normed : tensor<1x1x8xf32>, tensor<1x1x8xf32>) outs(%room : tensor<1x1x8xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %y = arith.addf %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<1x1x8xf32>
  return %out : tensor<1x1x8xf32>
}

// -----

// What a kernel or a part of a row reads, is a kernel's result; two that are alike share it. A part
// is read from the whole row.
// CHECK-LABEL: func.func private @two(
// CHECK:         %[[Y:.*]] = call @row_0(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
// CHECK:         %[[Z:.*]] = call @row_0(%[[Y]])
// CHECK:         %[[H:.*]] = call @row_1(%[[Y]])
// CHECK:         return %[[Z]], %[[H]]
// CHECK:       func.func private @row_1(%[[ROW:.*]]: tensor<8xf32>) -> tensor<4xf32>
// CHECK:         %[[HALF:.*]] = tensor.extract_slice %[[ROW]][4] [4] [1]
// CHECK:         linalg.generic {{.*}} ins(%[[HALF]] :
#n = affine_map<(n) -> (n)>
func.func private @two(%x: tensor<8xf32>, %layer: index) -> (tensor<8xf32>, tensor<4xf32>) attributes {llmc.layer_argument = 1 : index} {
  %room = tensor.empty() : tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%room : tensor<8xf32>) {
  ^bb0(%a: f32, %old: f32):
    %e = math.exp %a : f32
    linalg.yield %e : f32
  } -> tensor<8xf32>
  %z = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%y : tensor<8xf32>) outs(%room : tensor<8xf32>) {
  ^bb0(%a: f32, %old: f32):
    %e = math.exp %a : f32
    linalg.yield %e : f32
  } -> tensor<8xf32>
  %half = tensor.extract_slice %y[4] [4] [1] : tensor<8xf32> to tensor<4xf32>
  %small = tensor.empty() : tensor<4xf32>
  %h = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%half : tensor<4xf32>) outs(%small : tensor<4xf32>) {
  ^bb0(%a: f32, %old: f32):
    %e = math.exp %a : f32
    linalg.yield %e : f32
  } -> tensor<4xf32>
  return %z, %h : tensor<8xf32>, tensor<4xf32>
}

// -----

// Heads are a row, too, where all that is read is one number or is read in the same order.
// CHECK-LABEL: func.func private @heads(
// CHECK:         %[[X:.*]] = tensor.collapse_shape %arg0 {{.*}} : tensor<1x2x1x4xf32> into tensor<8xf32>
// CHECK:         %[[Y:.*]] = call @row_0(%[[X]], %{{.*}}) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
// CHECK:         tensor.expand_shape %[[Y]] {{.*}} : tensor<8xf32> into tensor<1x1x2x4xf32>
// CHECK:       func.func private @row_0(
#tokens = affine_map<(h, d) -> (0, 0, h, d)>
#scale = affine_map<(h, d) -> (0, 0, 0, 0)>
func.func private @heads(%x: tensor<1x2x1x4xf32>, %s: tensor<1x1x1x1xf32>, %layer: index) -> tensor<1x1x2x4xf32> attributes {llmc.layer_argument = 2 : index} {
  %room = tensor.empty() : tensor<1x1x2x4xf32>
  %tokens = linalg.transpose ins(%x : tensor<1x2x1x4xf32>) outs(%room : tensor<1x1x2x4xf32>) permutation = [0, 2, 1, 3]
  %y = linalg.generic {indexing_maps = [#tokens, #scale, #tokens], iterator_types = ["parallel", "parallel"]} ins(%tokens, %s : tensor<1x1x2x4xf32>, tensor<1x1x1x1xf32>) outs(%room : tensor<1x1x2x4xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<1x1x2x4xf32>
  return %y : tensor<1x1x2x4xf32>
}

// -----

// Truths are computed in the kernel of the row that is made by them, and so is what is made of one
// number of a stack. Truths that others read are theirs to compute.
// CHECK-LABEL: func.func private @truths(
// CHECK:         %[[SHOWN:.*]] = linalg.generic {{.*}} ins(%arg0 :
// CHECK:           arith.cmpf
// CHECK:         %[[Y:.*]] = call @row_0(%arg0, %arg1, %arg2) : (tensor<8xf32>, tensor<3x1xf32>, index) -> tensor<8xf32>
// CHECK-NOT:     call
// CHECK:         return %[[Y]], %[[SHOWN]]
// CHECK:       func.func private @row_0(%[[X:.*]]: tensor<8xf32>, %[[STACK:.*]]: tensor<3x1xf32>, %[[LAYER:.*]]: index)
// CHECK:         %[[ONE:.*]] = tensor.extract_slice %[[STACK]][%[[LAYER]], 0] [1, 1]
// CHECK:         %[[SLOPE:.*]] = tensor.collapse_shape %[[ONE]] [] : tensor<1xf32> into tensor<f32>
// CHECK:         linalg.generic {{.*}} ins(%[[X]], %[[SLOPE]] :
// CHECK:           arith.cmpf ogt
// CHECK:           math.exp
// CHECK:           arith.select
// CHECK-NOT:   func.func
#n = affine_map<(n) -> (n)>
#one = affine_map<(n) -> (0)>
func.func private @truths(%x: tensor<8xf32>, %slopes: tensor<3x1xf32>, %layer: index) -> (tensor<8xf32>, tensor<8xi1>) attributes {llmc.layer_argument = 2 : index} {
  %zero = arith.constant 0.0 : f32
  %slope = tensor.extract_slice %slopes[%layer, 0] [1, 1] [1, 1] : tensor<3x1xf32> to tensor<1xf32>
  %single = tensor.empty() : tensor<1xf32>
  %power = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%slope : tensor<1xf32>) outs(%single : tensor<1xf32>) {
  ^bb0(%a: f32, %old: f32):
    %e = math.exp %a : f32
    linalg.yield %e : f32
  } -> tensor<1xf32>
  %truths = tensor.empty() : tensor<8xi1>
  %is_positive = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%truths : tensor<8xi1>) {
  ^bb0(%a: f32, %old: i1):
    %t = arith.cmpf ogt, %a, %zero : f32
    linalg.yield %t : i1
  } -> tensor<8xi1>
  %room = tensor.empty() : tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#n, #n, #one, #n], iterator_types = ["parallel"]} ins(%is_positive, %x, %power : tensor<8xi1>, tensor<8xf32>, tensor<1xf32>) outs(%room : tensor<8xf32>) {
  ^bb0(%t: i1, %a: f32, %p: f32, %old: f32):
    %low = arith.mulf %a, %p : f32
    %e = arith.select %t, %a, %low : f32
    linalg.yield %e : f32
  } -> tensor<8xf32>
  return %y, %is_positive : tensor<8xf32>, tensor<8xi1>
}

// -----

// A copy of a row that is there, or that has a kernel, needs none.
// CHECK-LABEL: func.func private @copies(
// CHECK:         %[[Y:.*]] = call @row_0(%arg0)
// CHECK-NOT:     call
// CHECK:         return
// CHECK-NOT:   @row_1
#n = affine_map<(n) -> (n)>
func.func private @copies(%x: tensor<8xf32>, %layer: index) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) attributes {llmc.layer_argument = 1 : index} {
  %room = tensor.empty() : tensor<8xf32>
  %there = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%room : tensor<8xf32>) {
  ^bb0(%a: f32, %old: f32):
    linalg.yield %a : f32
  } -> tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%room : tensor<8xf32>) {
  ^bb0(%a: f32, %old: f32):
    %e = math.exp %a : f32
    linalg.yield %e : f32
  } -> tensor<8xf32>
  %copy = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%y : tensor<8xf32>) outs(%room : tensor<8xf32>) {
  ^bb0(%a: f32, %old: f32):
    linalg.yield %a : f32
  } -> tensor<8xf32>
  return %there, %y, %copy : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Left alone: rows by a number each, other numbers than f32, one element, the place of an element, one
// number of many, read in a branch, rows made of truths that are there, those that are read in another
// order or are a part of each; and functions of no layer.
// CHECK-LABEL: func.func private @by_a_number_each(
// CHECK-NOT:     call
#n = affine_map<(n) -> (n)>
#tn = affine_map<(t, n) -> (t, n)>
#nt = affine_map<(t, n) -> (n, t)>
#t = affine_map<(t, n) -> (t)>
func.func private @by_a_number_each(%x: tensor<2x8xf32>, %each: tensor<2xf32>, %layer: index) -> tensor<2x8xf32> attributes {llmc.layer_argument = 2 : index} {
  %y = linalg.generic {indexing_maps = [#tn, #t, #tn], iterator_types = ["parallel", "parallel"]} ins(%x, %each : tensor<2x8xf32>, tensor<2xf32>) outs(%x : tensor<2x8xf32>) {
  ^bb0(%e: f32, %s: f32, %old: f32):
    %y = arith.mulf %e, %s : f32
    linalg.yield %y : f32
  } -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}
func.func private @wide(%x: tensor<8xf64>, %layer: index) -> tensor<8xf64> attributes {llmc.layer_argument = 1 : index} {
  %y = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<8xf64>) outs(%x : tensor<8xf64>) {
  ^bb0(%e: f64, %old: f64):
    %y = math.exp %e : f64
    linalg.yield %y : f64
  } -> tensor<8xf64>
  return %y : tensor<8xf64>
}
func.func private @one(%x: tensor<1xf32>, %layer: index) -> tensor<1xf32> attributes {llmc.layer_argument = 1 : index} {
  %y = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<1xf32>) outs(%x : tensor<1xf32>) {
  ^bb0(%e: f32, %old: f32):
    %y = math.exp %e : f32
    linalg.yield %y : f32
  } -> tensor<1xf32>
  return %y : tensor<1xf32>
}
func.func private @place(%x: tensor<8xf32>, %layer: index) -> tensor<8xf32> attributes {llmc.layer_argument = 1 : index} {
  %y = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%x : tensor<8xf32>) {
  ^bb0(%e: f32, %old: f32):
    %at = linalg.index 0 : index
    %i = arith.index_cast %at : index to i32
    %f = arith.sitofp %i : i32 to f32
    %y = arith.addf %e, %f : f32
    linalg.yield %y : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}
func.func private @branch(%x: tensor<8xf32>, %layer: index) -> tensor<8xf32> attributes {llmc.layer_argument = 1 : index} {
  %zero = arith.constant 0.0 : f32
  %number = tensor.extract %x[%layer] : tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%x : tensor<8xf32>) {
  ^bb0(%e: f32, %old: f32):
    %is_positive = arith.cmpf ogt, %e, %zero : f32
    %y = scf.if %is_positive -> f32 {
      scf.yield %e : f32
    } else {
      scf.yield %number : f32
    }
    linalg.yield %y : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}
func.func private @masked(%x: tensor<8xf32>, %mask: tensor<8xi1>, %layer: index) -> tensor<8xf32> attributes {llmc.layer_argument = 2 : index} {
  %zero = arith.constant 0.0 : f32
  %y = linalg.generic {indexing_maps = [#n, #n, #n], iterator_types = ["parallel"]} ins(%mask, %x : tensor<8xi1>, tensor<8xf32>) outs(%x : tensor<8xf32>) {
  ^bb0(%t: i1, %e: f32, %old: f32):
    %y = arith.select %t, %e, %zero : f32
    linalg.yield %y : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}
func.func private @across(%x: tensor<2x4xf32>, %other: tensor<4x2xf32>, %layer: index) -> tensor<2x4xf32> attributes {llmc.layer_argument = 2 : index} {
  %y = linalg.generic {indexing_maps = [#tn, #nt, #tn], iterator_types = ["parallel", "parallel"]} ins(%x, %other : tensor<2x4xf32>, tensor<4x2xf32>) outs(%x : tensor<2x4xf32>) {
  ^bb0(%e: f32, %s: f32, %old: f32):
    %y = arith.mulf %e, %s : f32
    linalg.yield %y : f32
  } -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
func.func private @parts(%x: tensor<2x4xf32>, %rows: tensor<2x8xf32>, %layer: index) -> tensor<2x4xf32> attributes {llmc.layer_argument = 2 : index} {
  %part = tensor.extract_slice %rows[0, 4] [2, 4] [1, 1] : tensor<2x8xf32> to tensor<2x4xf32>
  %y = linalg.generic {indexing_maps = [#tn, #tn], iterator_types = ["parallel", "parallel"]} ins(%part : tensor<2x4xf32>) outs(%x : tensor<2x4xf32>) {
  ^bb0(%e: f32, %old: f32):
    %y = math.exp %e : f32
    linalg.yield %y : f32
  } -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
func.func @trunk(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%x : tensor<8xf32>) {
  ^bb0(%e: f32, %old: f32):
    %y = math.exp %e : f32
    linalg.yield %y : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// Rows of layers that compute other things beside are kernels, too: here of sums in which the order
// matters, and of a row that is but put beside another, which is left with what does so.
// CHECK-LABEL: func.func private @beside(
// CHECK:         linalg.generic {{.*}} iterator_types = ["reduction"]
// CHECK:         %[[Y:.*]] = call @row_0(%arg0)
// CHECK:         %[[NEGATED:.*]] = linalg.generic
// CHECK:           arith.negf
// CHECK:         %[[BOTH:.*]] = tensor.concat dim(0) %arg0, %[[NEGATED]]
// CHECK:         return %[[Y]], %{{.*}}, %[[BOTH]]
#n = affine_map<(n) -> (n)>
#one = affine_map<(n) -> (0)>
func.func private @beside(%x: tensor<8xf32>, %layer: index) -> (tensor<8xf32>, tensor<1xf32>, tensor<16xf32>) attributes {llmc.layer_argument = 1 : index} {
  %zero = arith.constant 0.0 : f32
  %room = tensor.empty() : tensor<1xf32>
  %start = linalg.fill ins(%zero : f32) outs(%room : tensor<1xf32>) -> tensor<1xf32>
  %s = linalg.generic {indexing_maps = [#n, #one], iterator_types = ["reduction"]} ins(%x : tensor<8xf32>) outs(%start : tensor<1xf32>) {
  ^bb0(%element: f32, %total: f32):
    %h = arith.mulf %total, %total : f32
    %y = arith.addf %h, %element : f32
    linalg.yield %y : f32
  } -> tensor<1xf32>
  %y = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%x : tensor<8xf32>) {
  ^bb0(%e: f32, %old: f32):
    %p = math.exp %e : f32
    linalg.yield %p : f32
  } -> tensor<8xf32>
  %z = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%x : tensor<8xf32>) {
  ^bb0(%e: f32, %old: f32):
    %p = arith.negf %e : f32
    linalg.yield %p : f32
  } -> tensor<8xf32>
  %both = tensor.concat dim(0) %x, %z : (tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>
  return %y, %s, %both : tensor<8xf32>, tensor<1xf32>, tensor<16xf32>
}

// -----

// What two rows are computed from by way of a reduction is computed once, as a residual that a norm
// was added to.
// CHECK-LABEL: func.func private @twice(
// CHECK:         %[[SHARED:.*]] = call @row_0(%arg0)
// CHECK:         %[[Y:.*]] = call @row_1(%[[SHARED]])
// CHECK:         %[[Z:.*]] = call @row_2(%[[SHARED]])
// CHECK-NOT:     call
// CHECK:         return %[[Y]], %[[Z]]
#n = affine_map<(n) -> (n)>
#one = affine_map<(n) -> (0)>
func.func private @twice(%x: tensor<8xf32>, %layer: index) -> (tensor<8xf32>, tensor<8xf32>) attributes {llmc.layer_argument = 1 : index} {
  %zero = arith.constant 0.0 : f32
  %room = tensor.empty() : tensor<1xf32>
  %start = linalg.fill ins(%zero : f32) outs(%room : tensor<1xf32>) -> tensor<1xf32>
  %s = linalg.generic {indexing_maps = [#n, #one], iterator_types = ["reduction"]} ins(%x : tensor<8xf32>) outs(%start : tensor<1xf32>) {
  ^bb0(%element: f32, %total: f32):
    %y = arith.addf %total, %element : f32
    linalg.yield %y : f32
  } -> tensor<1xf32>
  %shared = linalg.generic {indexing_maps = [#n, #one, #n], iterator_types = ["parallel"]} ins(%x, %s : tensor<8xf32>, tensor<1xf32>) outs(%x : tensor<8xf32>) {
  ^bb0(%e: f32, %t: f32, %old: f32):
    %p = arith.divf %e, %t : f32
    linalg.yield %p : f32
  } -> tensor<8xf32>
  %negated = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%shared : tensor<8xf32>) outs(%x : tensor<8xf32>) {
  ^bb0(%e: f32, %old: f32):
    %p = arith.negf %e : f32
    linalg.yield %p : f32
  } -> tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%negated : tensor<8xf32>) outs(%x : tensor<8xf32>) {
  ^bb0(%e: f32, %old: f32):
    %p = math.exp %e : f32
    linalg.yield %p : f32
  } -> tensor<8xf32>
  %z = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%negated : tensor<8xf32>) outs(%x : tensor<8xf32>) {
  ^bb0(%e: f32, %old: f32):
    %p = math.sqrt %e : f32
    linalg.yield %p : f32
  } -> tensor<8xf32>
  return %y, %z : tensor<8xf32>, tensor<8xf32>
}
