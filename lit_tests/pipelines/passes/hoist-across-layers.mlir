// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(hoist-across-layers)' | filecheck %s

// A table of positions is the same in all layers; it comes in as the last argument, after %layer.
// CHECK-LABEL: func.func private @decode.layer0(
// CHECK-SAME:      %arg0: tensor<1x?xf32>, %arg1: tensor<1x?xi64>, %arg2: index, %arg3: f32, %[[TABLE:arg4]]: tensor<1x?xf32>) -> tensor<1x?xf32>
// CHECK-SAME:      llmc.layer_argument = 2 : index
// CHECK-NEXT:    %[[W:.+]] = "llmc.parameter"()
// CHECK-NEXT:    %[[Y:.+]] = arith.addf %arg0, %[[TABLE]]
// CHECK-NEXT:    %[[SHIFTED:.+]] = linalg.generic {{.+}} ins(%[[Y]], %[[W]] :
// CHECK:         return %[[SHIFTED]]

// Its parts, and what is captured from outside, are taken from the call.
// CHECK-LABEL: func.func @decode
// CHECK:         %[[N:.+]] = tensor.dim %arg1
// CHECK:         %[[ROOM:.+]] = tensor.empty(%[[N]])
// CHECK:         %[[HOISTED:.+]] = linalg.generic {{.+}} ins(%arg1 : tensor<1x?xi64>) outs(%[[ROOM]] :
// CHECK:           arith.sitofp
// CHECK:           arith.mulf %{{.+}}, %arg2
// CHECK:         %[[X:.+]] = call @decode.layer0(%arg0, %arg1, %{{.+}}, %arg2, %[[HOISTED]])
// CHECK:         call @decode.layer0(%[[X]], %arg1, %{{.+}}, %arg2, %[[HOISTED]])
#id = affine_map<(d0, d1) -> (d0, d1)>
#first = affine_map<(d0, d1) -> (0)>
func.func private @decode.layer0(%x: tensor<1x?xf32>, %positions: tensor<1x?xi64>, %layer: index, %scale: f32) -> tensor<1x?xf32>
    attributes {llmc.layer_argument = 2 : index} {
  %c1 = arith.constant 1 : index
  %w = "llmc.parameter"() {sources = ["a", "b"]} : () -> tensor<1xf32>
  %n = tensor.dim %positions, %c1 : tensor<1x?xi64>
  %room = tensor.empty(%n) : tensor<1x?xf32>
  %table = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%positions : tensor<1x?xi64>) outs(%room : tensor<1x?xf32>) {
  ^bb0(%p: i64, %out: f32):
    %f = arith.sitofp %p : i64 to f32
    %s = arith.mulf %f, %scale : f32
    linalg.yield %s : f32
  } -> tensor<1x?xf32>
  %y = arith.addf %x, %table : tensor<1x?xf32>
  %z = linalg.generic {indexing_maps = [#id, #first, #id], iterator_types = ["parallel", "parallel"]} ins(%y, %w : tensor<1x?xf32>, tensor<1xf32>) outs(%x : tensor<1x?xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %f = arith.addf %a, %b : f32
    linalg.yield %f : f32
  } -> tensor<1x?xf32>
  return %z : tensor<1x?xf32>
}
func.func @decode(%x: tensor<1x?xf32>, %positions: tensor<1x?xi64>, %scale: f32) -> tensor<1x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %0 = call @decode.layer0(%x, %positions, %c0, %scale) : (tensor<1x?xf32>, tensor<1x?xi64>, index, f32) -> tensor<1x?xf32>
  %1 = call @decode.layer0(%0, %positions, %c1, %scale) : (tensor<1x?xf32>, tensor<1x?xi64>, index, f32) -> tensor<1x?xf32>
  return %1 : tensor<1x?xf32>
}

// -----

// What differs between the calls stays: the hidden state, the layer's number, an operand of its
// own, weights and what is made of them. So does what costs nothing, and what has effects.
// CHECK-LABEL: func.func private @layer(
// CHECK-SAME:      %arg0: tensor<4xf32>, %arg1: tensor<4xf32>, %arg2: tensor<4xf32>, %arg3: index) -> tensor<2x2xf32>
// CHECK-DAG:     tensor.expand_shape %arg1
// CHECK-DAG:     arith.negf %arg2
// CHECK-DAG:     arith.index_cast %arg3
// CHECK-DAG:     arith.negf %{{w|[0-9]+}}
// CHECK-DAG:     linalg.fill
// CHECK-DAG:     cf.assert
// CHECK-LABEL: func.func @trunk
// CHECK-NEXT:    call @layer(%arg0, %arg1, %arg0, %arg2)
// CHECK-NEXT:    call @layer(%arg0, %arg1, %arg1, %arg3)
#one = affine_map<(d0) -> (d0)>
func.func private @layer(%x: tensor<4xf32>, %same: tensor<4xf32>, %own: tensor<4xf32>, %layer: index) -> tensor<2x2xf32> {
  %true = arith.constant true
  %zero = arith.constant 0.0 : f32
  %w = "llmc.parameter"() {sources = ["a", "b"]} : () -> tensor<4xf32>
  %turned = arith.negf %w : tensor<4xf32>
  %negated = arith.negf %own : tensor<4xf32>
  %number = arith.index_cast %layer : index to i64
  %float = arith.sitofp %number : i64 to f32
  %numbered = tensor.splat %float : tensor<4xf32>
  %room = tensor.empty() : tensor<4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%room : tensor<4xf32>) -> tensor<4xf32>
  %checked = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%same : tensor<4xf32>) outs(%room : tensor<4xf32>) {
  ^bb0(%a: f32, %out: f32):
    cf.assert %true, "checked"
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %0 = arith.addf %turned, %negated : tensor<4xf32>
  %1 = arith.addf %0, %numbered : tensor<4xf32>
  %2 = arith.addf %1, %zeros : tensor<4xf32>
  %3 = arith.addf %2, %checked : tensor<4xf32>
  %square = tensor.expand_shape %same [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  %4 = tensor.expand_shape %3 [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  %5 = arith.addf %4, %square : tensor<2x2xf32>
  return %5 : tensor<2x2xf32>
}
func.func @trunk(%x: tensor<4xf32>, %y: tensor<4xf32>, %i: index, %j: index) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %0 = call @layer(%x, %y, %x, %i) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, index) -> tensor<2x2xf32>
  %1 = call @layer(%x, %y, %y, %j) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, index) -> tensor<2x2xf32>
  return %0, %1 : tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// Of one call what layers change stays, and of calls from two functions all.
// CHECK-LABEL: func.func private @once
// CHECK-SAME:      %arg2: tensor<4xf32>
// CHECK-NEXT:    %[[OWN:.+]] = arith.negf %arg0
// CHECK-NEXT:    arith.addf %[[OWN]], %arg2
func.func private @once(%x: tensor<4xf32>, %table: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.negf %x : tensor<4xf32>
  %1 = arith.negf %table : tensor<4xf32>
  %2 = arith.addf %0, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
// CHECK-LABEL: func.func private @apart
// CHECK-NEXT:    arith.negf
func.func private @apart(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.negf %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @a(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = call @once(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = call @apart(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
func.func @b(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @apart(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// What is made of constants alone stays, for IREE computes it once; with an argument it comes in.
// CHECK-LABEL: func.func private @layer(
// CHECK-SAME:      %arg0: tensor<4xf32>, %arg1: tensor<4xf32>, %[[RAISED:arg2]]: tensor<4xf32>)
// CHECK:         %[[COUNT:.+]] = linalg.generic
// CHECK:           linalg.index 0
// CHECK:         %[[SUM:.+]] = arith.addf %arg0, %[[COUNT]]
// CHECK:         arith.addf %[[SUM]], %[[RAISED]]
// CHECK-LABEL: func.func @trunk
// CHECK:         %[[COUNT:.+]] = linalg.generic
// CHECK:         %[[RAISED:.+]] = arith.addf %arg1, %[[COUNT]]
// CHECK:         call @layer(%arg0, %arg1, %[[RAISED]])
#one = affine_map<(d0) -> (d0)>
func.func private @layer(%x: tensor<4xf32>, %same: tensor<4xf32>) -> tensor<4xf32> {
  %room = tensor.empty() : tensor<4xf32>
  %count = linalg.generic {indexing_maps = [#one], iterator_types = ["parallel"]} outs(%room : tensor<4xf32>) {
  ^bb0(%out: f32):
    %i = linalg.index 0 : index
    %n = arith.index_cast %i : index to i64
    %f = arith.sitofp %n : i64 to f32
    linalg.yield %f : f32
  } -> tensor<4xf32>
  %0 = arith.addf %x, %count : tensor<4xf32>
  %1 = arith.addf %same, %count : tensor<4xf32>
  %2 = arith.addf %0, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
func.func @trunk(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @layer(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = call @layer(%0, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// The pass emits nothing itself; what it would work on is still verified.
func.func private @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @trunk(%x: tensor<5xf32>) {
  // expected-error@+1 {{operand type mismatch: expected operand type 'tensor<4xf32>', but provided 'tensor<5xf32>' for operand number 0}}
  %0 = call @layer(%x) : (tensor<5xf32>) -> tensor<4xf32>
  return
}
