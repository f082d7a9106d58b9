// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(number-layers)' | filecheck %s

// The number comes last; what the layer does not use goes.
// CHECK-LABEL: func.func private @decode.layer0(
// CHECK-SAME:    %arg0: tensor<1x4xf32>, %arg1: tensor<1x4xf32>, %arg2: index)
// CHECK-SAME:    llmc.layer_argument = 2 : index
func.func private @decode.layer0(%hidden: tensor<1x4xf32>, %unused: tensor<1xi64>,
                                 %cos: tensor<1x4xf32>) -> tensor<1x4xf32> {
  // CHECK-NEXT: arith.addf %arg0, %arg1
  %0 = arith.addf %hidden, %cos : tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}

// CHECK-LABEL: func.func private @decode.layer1(%arg0: tensor<1x4xf32>, %arg1: index)
// CHECK-SAME:    llmc.layer_argument = 1 : index
func.func private @decode.layer1(%hidden: tensor<1x4xf32>) -> tensor<1x4xf32> {
  return %hidden : tensor<1x4xf32>
}

// A function without a body is not a layer.
// CHECK: func.func private @declared(tensor<1x4xf32>) -> tensor<1x4xf32>{{$}}
func.func private @declared(tensor<1x4xf32>) -> tensor<1x4xf32>

// Layers are counted by kind; the trunk keeps its arguments.
// CHECK-LABEL: func.func @decode(%arg0: tensor<1x4xf32>, %arg1: tensor<1xi64>)
// CHECK-NOT:   llmc.layer_argument
func.func @decode(%x: tensor<1x4xf32>, %positions: tensor<1xi64>) -> tensor<1x4xf32> {
  // CHECK:      %[[ZERO:.+]] = arith.constant 0 : index
  // CHECK-NEXT: %[[A:.+]] = call @decode.layer0(%arg0, %arg0, %[[ZERO]])
  %0 = call @decode.layer0(%x, %positions, %x)
      : (tensor<1x4xf32>, tensor<1xi64>, tensor<1x4xf32>) -> tensor<1x4xf32>
  // CHECK:      %[[ALSO_ZERO:.+]] = arith.constant 0 : index
  // CHECK-NEXT: %[[B:.+]] = call @decode.layer1(%[[A]], %[[ALSO_ZERO]])
  %1 = call @decode.layer1(%0) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  // CHECK:      %[[ONE:.+]] = arith.constant 1 : index
  // CHECK-NEXT: %[[C:.+]] = call @decode.layer0(%[[B]], %arg0, %[[ONE]])
  %2 = call @decode.layer0(%1, %positions, %x)
      : (tensor<1x4xf32>, tensor<1xi64>, tensor<1x4xf32>) -> tensor<1x4xf32>
  // CHECK-NEXT: call @declared(%[[C]]) :
  %3 = call @declared(%2) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  return %3 : tensor<1x4xf32>
}

// A layer that is numbered stays as it is; so does a function that is not merely called.
// CHECK-LABEL: func.func private @decode.layer2(%arg0: tensor<1x4xf32>, %arg1: index) ->
func.func private @decode.layer2(%hidden: tensor<1x4xf32>, %layer: index) -> tensor<1x4xf32>
    attributes {llmc.layer_argument = 1 : index} {
  return %hidden : tensor<1x4xf32>
}
// CHECK-LABEL: func.func private @value(%arg0: tensor<1x4xf32>) ->
func.func private @value(%hidden: tensor<1x4xf32>) -> tensor<1x4xf32> {
  return %hidden : tensor<1x4xf32>
}
func.func @other(%x: tensor<1x4xf32>, %layer: index) -> tensor<1x4xf32> {
  // CHECK: call @decode.layer2(%arg0, %arg1)
  %0 = call @decode.layer2(%x, %layer) : (tensor<1x4xf32>, index) -> tensor<1x4xf32>
  %f = constant @value : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %1 = call_indirect %f(%0) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  return %1 : tensor<1x4xf32>
}

// -----

func.func private @decode.layer0(%hidden: tensor<1x4xf32>) -> tensor<1x4xf32> {
  return %hidden : tensor<1x4xf32>
}
func.func @decode(%x: tensor<1x4xf32>) {
  // expected-error@+1 {{'func.call' op incorrect number of operands for callee}}
  %0 = call @decode.layer0(%x, %x) : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  return
}

// -----

// Nobody could tell which of its layers a call is for.
// expected-error@+1 {{a layer is called from several functions}}
func.func private @layer0(%hidden: tensor<1x4xf32>) -> tensor<1x4xf32> {
  return %hidden : tensor<1x4xf32>
}
func.func @prefill(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %0 = call @layer0(%x) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}
func.func @decode(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %0 = call @layer0(%x) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}

// -----

// A call is one, however often it names what it calls.
// CHECK-LABEL: func.func @named_twice
// CHECK:         call @
// CHECK-NOT:     call @
func.func private @named(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @named_twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @named(%x) {origin = @named} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
