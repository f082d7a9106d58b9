// RUN: llmc-opt %s --outline-regions --canonicalize --cse --split-input-file | filecheck %s

// All that is computed between two kernels is one: a part of each head is negated and put beside the
// rest of it, and keys are scaled, of which the kernel runs before. What shows a tensor in another
// shape, or its first elements, is no computation. A region takes what is shown, and a weight from
// the stack of all layers'.
// CHECK-LABEL: func.func private @heads(
// CHECK-NOT:     linalg
// CHECK:         %[[Q:.*]] = call @project(%arg0)
// CHECK:         %[[K:.*]] = call @project(%arg1)
// CHECK:         %[[R:.*]]:2 = call @region_0(%[[Q]], %[[K]], %arg2, %arg3) : (tensor<1x8xf32>, tensor<1x8xf32>, tensor<3x2x4xf32>, index) -> (tensor<2x4xf32>, tensor<2x4xf32>)
// CHECK-NOT:     call @region
// CHECK:         %[[BOTH:.*]] = call @attend(%[[R]]#0, %[[R]]#1)
// CHECK:         %[[FIRST:.*]] = tensor.extract_slice %[[BOTH]][0, 0] [1, 4]
// CHECK:         return %[[FIRST]]
// CHECK:       func.func private @region_0(%[[Q:.*]]: tensor<1x8xf32>, %[[K:.*]]: tensor<1x8xf32>, %[[STACK:.*]]: tensor<3x2x4xf32>, %[[LAYER:.*]]: index) -> (tensor<2x4xf32>, tensor<2x4xf32>) attributes {llmc.kernel = "region"}
// CHECK-DAG:     %[[WEIGHT:.*]] = tensor.extract_slice %[[STACK]][%[[LAYER]], 0, 0] [1, 2, 4]
// CHECK-DAG:     tensor.expand_shape %[[Q]]
// CHECK:         linalg.generic
// CHECK:           arith.negf
// CHECK:         %[[TURNED:.*]] = tensor.concat dim(1)
// CHECK:         tensor.collapse_shape %[[K]]
// CHECK:         %[[SCALED:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[WEIGHT]] :
// CHECK:         return %[[TURNED]], %[[SCALED]]
#hd = affine_map<(h, d) -> (h, d)>
func.func private @project(tensor<1x8xf32>) -> tensor<1x8xf32>
func.func private @attend(tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<1x8xf32>
func.func private @heads(%x: tensor<1x8xf32>, %y: tensor<1x8xf32>, %weights: tensor<3x2x4xf32>, %layer: index) -> tensor<1x4xf32> attributes {llmc.layer_argument = 3 : index} {
  %q = call @project(%x) : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %queries = tensor.expand_shape %q [[0], [1, 2]] output_shape [1, 2, 4] : tensor<1x8xf32> into tensor<1x2x4xf32>
  %by_head = tensor.collapse_shape %queries [[0, 1], [2]] : tensor<1x2x4xf32> into tensor<2x4xf32>
  %rest = tensor.extract_slice %by_head[0, 0] [2, 2] [1, 1] : tensor<2x4xf32> to tensor<2x2xf32>
  %part = tensor.extract_slice %by_head[0, 2] [2, 2] [1, 1] : tensor<2x4xf32> to tensor<2x2xf32>
  %room = tensor.empty() : tensor<2x2xf32>
  %turned = linalg.generic {indexing_maps = [#hd, #hd], iterator_types = ["parallel", "parallel"]} ins(%part : tensor<2x2xf32>) outs(%room : tensor<2x2xf32>) {
  ^bb0(%e: f32, %old: f32):
    %n = arith.negf %e : f32
    linalg.yield %n : f32
  } -> tensor<2x2xf32>
  %query = tensor.concat dim(1) %rest, %turned : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x4xf32>
  %k = call @project(%y) : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %keys = tensor.expand_shape %k [[0, 1], [2]] output_shape [1, 1, 8] : tensor<1x8xf32> into tensor<1x1x8xf32>
  %flat = tensor.collapse_shape %keys [[0, 1, 2]] : tensor<1x1x8xf32> into tensor<8xf32>
  %key_heads = tensor.expand_shape %flat [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>
  %weight = tensor.extract_slice %weights[%layer, 0, 0] [1, 2, 4] [1, 1, 1] : tensor<3x2x4xf32> to tensor<2x4xf32>
  %whole = tensor.empty() : tensor<2x4xf32>
  %key = linalg.generic {indexing_maps = [#hd, #hd, #hd], iterator_types = ["parallel", "parallel"]} ins(%key_heads, %weight : tensor<2x4xf32>, tensor<2x4xf32>) outs(%whole : tensor<2x4xf32>) {
  ^bb0(%e: f32, %w: f32, %old: f32):
    %n = arith.mulf %e, %w : f32
    linalg.yield %n : f32
  } -> tensor<2x4xf32>
  %both = call @attend(%query, %key) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<1x8xf32>
  %first = tensor.extract_slice %both[0, 0] [1, 4] [1, 1] : tensor<1x8xf32> to tensor<1x4xf32>
  return %first : tensor<1x4xf32>
}

// -----

// What a kernel waits for, and what waits for it, are two regions, whatever each reads beside.
// CHECK-LABEL: func.func private @around(
// CHECK:         %[[BEFORE:.*]] = call @region_0(%arg0)
// CHECK:         %[[Y:.*]] = call @project(%[[BEFORE]])
// CHECK:         %[[AFTER:.*]] = call @region_1(%[[BEFORE]], %[[Y]])
// CHECK:         return %[[AFTER]]
func.func private @project(tensor<4x2xf32>) -> tensor<4x2xf32>
func.func private @around(%x: tensor<2x4xf32>, %layer: index) -> tensor<4x4xf32> attributes {llmc.layer_argument = 1 : index} {
  %room = tensor.empty() : tensor<4x2xf32>
  %across = linalg.transpose ins(%x : tensor<2x4xf32>) outs(%room : tensor<4x2xf32>) permutation = [1, 0]
  %y = call @project(%across) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %both = tensor.concat dim(1) %across, %y : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>
  return %both : tensor<4x4xf32>
}

// -----

// Those that a region waits for run before it, wherever they stand.
// CHECK-LABEL: func.func private @later(
// CHECK:         %[[Q:.*]] = call @project(%arg0)
// CHECK:         %[[K:.*]] = call @project(%arg1)
// CHECK:         %[[R:.*]]:2 = call @region_0(%[[Q]], %[[K]])
// CHECK:         call @consume(%[[R]]#0)
// CHECK:         call @consume(%[[R]]#1)
func.func private @project(tensor<2x4xf32>) -> tensor<2x4xf32>
func.func private @consume(tensor<4x2xf32>) -> tensor<4x2xf32>
func.func private @later(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>, %layer: index) -> (tensor<4x2xf32>, tensor<4x2xf32>) attributes {llmc.layer_argument = 2 : index} {
  %room = tensor.empty() : tensor<4x2xf32>
  %q = call @project(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %query = linalg.transpose ins(%q : tensor<2x4xf32>) outs(%room : tensor<4x2xf32>) permutation = [1, 0]
  %a = call @consume(%query) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %k = call @project(%y) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %key = linalg.transpose ins(%k : tensor<2x4xf32>) outs(%room : tensor<4x2xf32>) permutation = [1, 0]
  %b = call @consume(%key) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %a, %b : tensor<4x2xf32>, tensor<4x2xf32>
}

// -----

// An extent that is known by a cast alone is known to the kernel.
// CHECK-LABEL: func.func private @known(
// CHECK:         %[[KNOWN:.*]] = tensor.cast %arg0 : tensor<?x4xf32> to tensor<2x4xf32>
// CHECK:         call @region_0(%[[KNOWN]]) : (tensor<2x4xf32>)
func.func private @known(%x: tensor<?x4xf32>, %layer: index) -> tensor<4x2xf32> attributes {llmc.layer_argument = 1 : index} {
  %known = tensor.cast %x : tensor<?x4xf32> to tensor<2x4xf32>
  %room = tensor.empty() : tensor<4x2xf32>
  %across = linalg.transpose ins(%known : tensor<2x4xf32>) outs(%room : tensor<4x2xf32>) permutation = [1, 0]
  return %across : tensor<4x2xf32>
}

// -----

// A constant of one number is written in the kernel.
// CHECK-LABEL: func.func private @region_0(
// CHECK:         %[[ONES:.*]] = linalg.fill ins(%{{.*}} : f32)
// CHECK:         tensor.concat dim(0) %{{.*}}, %[[ONES]]
func.func private @constant(%x: tensor<2x4xf32>, %layer: index) -> tensor<4x4xf32> attributes {llmc.layer_argument = 1 : index} {
  %ones = arith.constant dense<1.0> : tensor<2x4xf32>
  %both = tensor.concat dim(0) %x, %ones : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  return %both : tensor<4x4xf32>
}

// -----

// Of several rows each is computed by itself: what is looked up is of its own row, and numbers of
// elements each kernel has to itself.
// CHECK-LABEL: func.func private @rows(
// CHECK:         %[[R:.*]] = call @regions_0(%arg0, %arg1) : (tensor<?x4xf32>, tensor<?x1xi64>) -> tensor<?x5xf32>
// CHECK-NEXT:    return %[[R]]
// CHECK:       func.func private @regions_0(%[[X:.*]]: tensor<?x4xf32>, %{{.*}}: tensor<?x1xi64>) -> tensor<?x5xf32> attributes {llmc.kernel = "regions"}
// CHECK:         tensor.dim %[[X]]
// CHECK:         linalg.index 0
// CHECK:         tensor.extract
// CHECK:         tensor.concat
#hd = affine_map<(h, d) -> (h, d)>
#d = affine_map<(h, d) -> (d)>
func.func private @rows(%x: tensor<?x4xf32>, %places: tensor<?x1xi64>, %layer: index) -> tensor<?x5xf32> attributes {llmc.layer_argument = 2 : index} {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x4xf32>
  %four = tensor.empty() : tensor<4xf32>
  %numbers = linalg.generic {indexing_maps = [affine_map<(d) -> (d)>], iterator_types = ["parallel"]} outs(%four : tensor<4xf32>) {
  ^bb0(%old: f32):
    %i = linalg.index 0 : index
    %n = arith.index_cast %i : index to i32
    %f = arith.sitofp %n : i32 to f32
    linalg.yield %f : f32
  } -> tensor<4xf32>
  %room = tensor.empty(%rows) : tensor<?x4xf32>
  %y = linalg.generic {indexing_maps = [#hd, #d, #hd], iterator_types = ["parallel", "parallel"]} ins(%x, %numbers : tensor<?x4xf32>, tensor<4xf32>) outs(%room : tensor<?x4xf32>) {
  ^bb0(%e: f32, %n: f32, %old: f32):
    %s = arith.addf %e, %n : f32
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  %one = tensor.empty(%rows) : tensor<?x1xf32>
  %found = linalg.generic {indexing_maps = [#hd, #hd], iterator_types = ["parallel", "parallel"]} ins(%places : tensor<?x1xi64>) outs(%one : tensor<?x1xf32>) {
  ^bb0(%place: i64, %old: f32):
    %row = linalg.index 0 : index
    %at = arith.index_cast %place : i64 to index
    %e = tensor.extract %y[%row, %at] : tensor<?x4xf32>
    linalg.yield %e : f32
  } -> tensor<?x1xf32>
  %both = tensor.concat dim(1) %y, %found : (tensor<?x4xf32>, tensor<?x1xf32>) -> tensor<?x5xf32>
  return %both : tensor<?x5xf32>
}

// -----

// What is read of a global after it is written is not read before.
// CHECK-LABEL: func.func private @written(
// CHECK:         ml_program.global_store @state
// CHECK:         ml_program.global_load @state
// CHECK:         linalg.generic
#hd = affine_map<(h, d) -> (h, d)>
ml_program.global private mutable @state(dense<1.0> : tensor<2x4xf32>) : tensor<2x4xf32>
func.func private @project(tensor<2x4xf32>) -> tensor<2x4xf32>
func.func private @written(%x: tensor<2x4xf32>, %layer: index) -> tensor<2x4xf32> attributes {llmc.layer_argument = 1 : index} {
  %room = tensor.empty() : tensor<2x4xf32>
  %a = linalg.generic {indexing_maps = [#hd, #hd], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2x4xf32>) outs(%room : tensor<2x4xf32>) {
  ^bb0(%e: f32, %old: f32):
    %n = arith.negf %e : f32
    linalg.yield %n : f32
  } -> tensor<2x4xf32>
  %y = call @project(%a) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  ml_program.global_store @state = %y : tensor<2x4xf32>
  %new = ml_program.global_load @state : tensor<2x4xf32>
  %b = linalg.generic {indexing_maps = [#hd, #hd, #hd], iterator_types = ["parallel", "parallel"]} ins(%x, %new : tensor<2x4xf32>, tensor<2x4xf32>) outs(%room : tensor<2x4xf32>) {
  ^bb0(%e: f32, %f: f32, %old: f32):
    %n = arith.mulf %e, %f : f32
    linalg.yield %n : f32
  } -> tensor<2x4xf32>
  %z = call @project(%b) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %z : tensor<2x4xf32>
}

// -----

// Rows of which one reads another, be it of what it reads its own of, are not computed one by one.
// CHECK-LABEL: func.func @another_row(
// CHECK-NOT:     call @regions
// CHECK:         linalg.generic
// CHECK:         call @project
#hd = affine_map<(h, d) -> (h, d)>
func.func private @project(tensor<?x4xf32>) -> tensor<?x4xf32>
func.func @another_row(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x4xf32>
  %room = tensor.empty(%rows) : tensor<?x4xf32>
  %sum = linalg.generic {indexing_maps = [#hd, #hd], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x4xf32>) outs(%room : tensor<?x4xf32>) {
  ^bb0(%own: f32, %old: f32):
    %channel = linalg.index 1 : index
    %first = tensor.extract %x[%c0, %channel] : tensor<?x4xf32>
    %s = arith.addf %own, %first : f32
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  %y = call @project(%sum) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// -----

// Nor is it looked up in from within a kernel.
// CHECK-LABEL: func.func @looked_up(
// CHECK-NOT:     call @region
// CHECK:         tensor.extract %{{.+}} : tensor<16384x4xf32>
#d = affine_map<(d) -> (d)>
ml_program.global private mutable @rows(dense<1.0> : tensor<16384x4xf32>) : tensor<16384x4xf32>
func.func private @project(tensor<4xf32>) -> tensor<4xf32>
func.func @looked_up(%token: i64) -> tensor<4xf32> {
  %rows = ml_program.global_load @rows : tensor<16384x4xf32>
  %room = tensor.empty() : tensor<4xf32>
  %row = linalg.generic {indexing_maps = [#d], iterator_types = ["parallel"]} outs(%room : tensor<4xf32>) {
  ^bb0(%old: f32):
    %i = linalg.index 0 : index
    %t = arith.index_cast %token : i64 to index
    %e = tensor.extract %rows[%t, %i] : tensor<16384x4xf32>
    linalg.yield %e : f32
  } -> tensor<4xf32>
  %y = call @project(%row) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Rows of which it is not seen that they are as many are in kernels of their own.
// CHECK-LABEL: func.func private @others(
// CHECK-DAG:     call @regions_0(%arg0) : (tensor<?x4xf32>) -> tensor<?x8xf32>
// CHECK-DAG:     call @regions_0(%arg1) : (tensor<?x4xf32>) -> tensor<?x8xf32>
// CHECK:       func.func private @regions_0(
func.func private @others(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>, %layer: index) -> (tensor<?x8xf32>, tensor<?x8xf32>) attributes {llmc.layer_argument = 2 : index} {
  %a = tensor.concat dim(1) %x, %x : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x8xf32>
  %b = tensor.concat dim(1) %y, %y : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x8xf32>
  return %a, %b : tensor<?x8xf32>, tensor<?x8xf32>
}

// -----

// Left alone: sums of products, what is computed of weights alone, rows that depend on others, tensors
// that are too large, or too many for a stack, constants of many numbers; and what is looked up in no weight.
// CHECK-NOT: @region
#hd = affine_map<(h, d) -> (h, d)>
#d = affine_map<(d) -> (d)>
ml_program.global private @weight(dense<1.0> : tensor<4x4xf16>) : tensor<4x4xf16>
func.func private @product(%x: tensor<4x4xf32>, %layer: index) -> tensor<4x4xf32> attributes {llmc.layer_argument = 1 : index} {
  %zero = arith.constant 0.0 : f32
  %room = tensor.empty() : tensor<4x4xf32>
  %weight = ml_program.global_load @weight : tensor<4x4xf16>
  %wide = linalg.generic {indexing_maps = [#hd, #hd], iterator_types = ["parallel", "parallel"]} ins(%weight : tensor<4x4xf16>) outs(%room : tensor<4x4xf32>) {
  ^bb0(%e: f16, %old: f32):
    %f = arith.extf %e : f16 to f32
    linalg.yield %f : f32
  } -> tensor<4x4xf32>
  %start = linalg.fill ins(%zero : f32) outs(%room : tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = linalg.matmul ins(%x, %wide : tensor<4x4xf32>, tensor<4x4xf32>) outs(%start : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}
func.func private @stacked(%x: tensor<?x4xf32>, %layer: index) -> tensor<?x4xf32> attributes {llmc.layer_argument = 1 : index} {
  %both = tensor.concat dim(0) %x, %x : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  return %both : tensor<?x4xf32>
}
func.func private @later(%x: tensor<?x4xf32>, %n: index, %layer: index) -> tensor<?x4xf32> attributes {llmc.layer_argument = 2 : index} {
  %rest = tensor.extract_slice %x[1, 0] [%n, 4] [1, 1] : tensor<?x4xf32> to tensor<?x4xf32>
  return %rest : tensor<?x4xf32>
}
func.func private @first(%x: tensor<?x4xf32>, %layer: index) -> tensor<?x4xf32> attributes {llmc.layer_argument = 1 : index} {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x4xf32>
  %room = tensor.empty(%rows) : tensor<?x4xf32>
  %y = linalg.generic {indexing_maps = [#hd], iterator_types = ["parallel", "parallel"]} outs(%room : tensor<?x4xf32>) {
  ^bb0(%old: f32):
    %at = linalg.index 1 : index
    %e = tensor.extract %x[%c0, %at] : tensor<?x4xf32>
    linalg.yield %e : f32
  } -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
func.func private @number(%x: tensor<?x4xf32>, %layer: index) -> tensor<?x4xf32> attributes {llmc.layer_argument = 1 : index} {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x4xf32>
  %room = tensor.empty(%rows) : tensor<?x4xf32>
  %y = linalg.generic {indexing_maps = [#hd, #hd], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x4xf32>) outs(%room : tensor<?x4xf32>) {
  ^bb0(%e: f32, %old: f32):
    %row = linalg.index 0 : index
    %n = arith.index_cast %row : index to i32
    %f = arith.sitofp %n : i32 to f32
    %s = arith.addf %e, %f : f32
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
func.func private @large(%x: tensor<2x20000xf32>, %layer: index) -> tensor<4x20000xf32> attributes {llmc.layer_argument = 1 : index} {
  %both = tensor.concat dim(0) %x, %x : (tensor<2x20000xf32>, tensor<2x20000xf32>) -> tensor<4x20000xf32>
  return %both : tensor<4x20000xf32>
}
func.func private @many(%x: tensor<2x16384xf64>, %layer: index) -> tensor<2x16384xf64> attributes {llmc.layer_argument = 1 : index} {
  %room = tensor.empty() : tensor<2x16384xf64>
  %a = linalg.generic {indexing_maps = [#hd, #hd], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2x16384xf64>) outs(%room : tensor<2x16384xf64>) {
  ^bb0(%e: f64, %old: f64):
    %n = arith.negf %e : f64
    linalg.yield %n : f64
  } -> tensor<2x16384xf64>
  %b = linalg.generic {indexing_maps = [#hd, #hd], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<2x16384xf64>) outs(%room : tensor<2x16384xf64>) {
  ^bb0(%e: f64, %old: f64):
    %n = arith.negf %e : f64
    linalg.yield %n : f64
  } -> tensor<2x16384xf64>
  %c = linalg.generic {indexing_maps = [#hd, #hd], iterator_types = ["parallel", "parallel"]} ins(%b : tensor<2x16384xf64>) outs(%room : tensor<2x16384xf64>) {
  ^bb0(%e: f64, %old: f64):
    %n = arith.negf %e : f64
    linalg.yield %n : f64
  } -> tensor<2x16384xf64>
  %d = linalg.generic {indexing_maps = [#hd, #hd], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<2x16384xf64>) outs(%room : tensor<2x16384xf64>) {
  ^bb0(%e: f64, %old: f64):
    %n = arith.negf %e : f64
    linalg.yield %n : f64
  } -> tensor<2x16384xf64>
  return %d : tensor<2x16384xf64>
}
func.func private @numbers(%x: tensor<2xf32>, %layer: index) -> tensor<4xf32> attributes {llmc.layer_argument = 1 : index} {
  %numbers = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %both = tensor.concat dim(0) %x, %numbers : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  return %both : tensor<4xf32>
}
func.func private @looked_up_in_what_is_computed(%token: tensor<1xi64>, %table: tensor<50000xf32>) -> tensor<1xf32> {
  %room = tensor.empty() : tensor<1xf32>
  %e = linalg.generic {indexing_maps = [#d, #d], iterator_types = ["parallel"]} ins(%token : tensor<1xi64>) outs(%room : tensor<1xf32>) {
  ^bb0(%id: i64, %old: f32):
    %at = arith.index_cast %id : i64 to index
    %found = tensor.extract %table[%at] : tensor<50000xf32>
    linalg.yield %found : f32
  } -> tensor<1xf32>
  return %e : tensor<1xf32>
}

// Rows of experts are more than tokens, by whose number their own is told: in a kernel it is that of its
// rows.
// CHECK-LABEL: func.func private @of_experts(
// CHECK:         call @[[EXPERTS:.*]](%arg1) : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK:       func.func private @[[EXPERTS]](%[[ROWS:.*]]: tensor<?x4xf32>)
// CHECK:         %[[COUNT:.*]] = tensor.dim %[[ROWS]]
// CHECK-NOT:     affine.apply
// CHECK:         tensor.empty(%[[COUNT]])
func.func private @of_experts(%tokens: tensor<?x4xf32>, %x: tensor<?x4xf32>, %layer: index) -> tensor<?x4xf32> attributes {llmc.layer_argument = 2 : index} {
  %c0 = arith.constant 0 : index
  %count = tensor.dim %tokens, %c0 : tensor<?x4xf32>
  %twice = affine.apply affine_map<()[s] -> (2 * s)>()[%count]
  %room = tensor.empty(%twice) : tensor<?x4xf32>
  %y = linalg.generic {indexing_maps = [#hd, #hd], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x4xf32>) outs(%room : tensor<?x4xf32>) {
  ^bb0(%e: f32, %old: f32):
    %n = math.sin %e : f32
    linalg.yield %n : f32
  } -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// -----

// So it is before the layers. A token is looked up in a weight, however large, of which nothing is
// copied; a kernel is told numbers as indices.
// CHECK-LABEL: func.func @decode(
// CHECK-SAME:    %[[TOKEN:[^:]+]]: tensor<1xi64>, %[[PAST:[^:]+]]: i64)
// CHECK-DAG:     %[[TABLE:.*]] = ml_program.global_load @table
// CHECK-DAG:     %[[NUMBER:.*]] = arith.index_cast %[[PAST]] : i64 to index
// CHECK-NOT:     linalg
// CHECK:         %[[R:.*]]:2 = call @region_0(%[[TOKEN]], %[[TABLE]], %[[NUMBER]])
// CHECK-NOT:     linalg
// CHECK:         call @layers(%[[R]]#0, %[[R]]#1)
// CHECK:       func.func private @region_0(%[[TOKEN:.*]]: tensor<1xi64>, %[[TABLE:.*]]: tensor<50000x4xf32>, %[[NUMBER:.*]]: index)
// CHECK:         %[[PAST:.*]] = arith.index_cast %[[NUMBER]] : index to i64
// CHECK-DAG:     tensor.extract %[[TABLE]][
// CHECK-DAG:     arith.addi %{{.+}}, %[[PAST]]
#d = affine_map<(d) -> (d)>
#td = affine_map<(t, d) -> (t, d)>
#t = affine_map<(t, d) -> (t)>
ml_program.global private @table(dense<0.0> : tensor<50000x4xf32>) : tensor<50000x4xf32>
func.func private @layers(tensor<1x4xf32>, tensor<1xi64>) -> tensor<1x4xf32>
func.func @decode(%token: tensor<1xi64>, %past: i64) -> tensor<1x4xf32> {
  %table = ml_program.global_load @table : tensor<50000x4xf32>
  %room = tensor.empty() : tensor<1x4xf32>
  %x = linalg.generic {indexing_maps = [#t, #td], iterator_types = ["parallel", "parallel"]} ins(%token : tensor<1xi64>) outs(%room : tensor<1x4xf32>) {
  ^bb0(%id: i64, %old: f32):
    %row = arith.index_cast %id : i64 to index
    %channel = linalg.index 1 : index
    %found = tensor.extract %table[%row, %channel] : tensor<50000x4xf32>
    linalg.yield %found : f32
  } -> tensor<1x4xf32>
  %one = tensor.empty() : tensor<1xi64>
  %position = linalg.generic {indexing_maps = [#d, #d], iterator_types = ["parallel"]} ins(%token : tensor<1xi64>) outs(%one : tensor<1xi64>) {
  ^bb0(%id: i64, %old: i64):
    %sum = arith.addi %id, %past : i64
    linalg.yield %sum : i64
  } -> tensor<1xi64>
  %y = call @layers(%x, %position) : (tensor<1x4xf32>, tensor<1xi64>) -> tensor<1x4xf32>
  return %y : tensor<1x4xf32>
}
