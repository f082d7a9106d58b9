// RUN: llmc-opt %s --split-input-file --allow-unregistered-dialect --verify-diagnostics --pass-pipeline='builtin.module(split-layers)' | filecheck %s
// RUN: llmc-opt %s --split-input-file --allow-unregistered-dialect --verify-diagnostics --pass-pipeline='builtin.module(split-layers{ways=2})' | filecheck %s --check-prefix=TWO

// Layers 0 and 3 are stored alike, and so are 1 and 2. What is in no blocks tells none from others.
// CHECK-LABEL: func.func private @decode.layer0(
// CHECK:         llmc.stored = ["q4_1", "q4_1"], sources = ["a0", "a3"]
// CHECK:         sources = ["n0", "n3"]
// CHECK-LABEL: func.func private @decode.layer0_1(
// CHECK:         llmc.stored = ["q8_0", "q8_0"], sources = ["a1", "a2"]
// CHECK:         sources = ["n1", "n2"]
// CHECK-LABEL: func.func private @decode.layer0_2(
// CHECK:         llmc.stored = ["q4_0"], sources = ["a4"]
// CHECK:         sources = ["n4"]
// CHECK-LABEL: func.func @decode(
// CHECK:         call @decode.layer0(
// CHECK-NEXT:    call @decode.layer0_1(
// CHECK-NEXT:    call @decode.layer0_1(
// CHECK-NEXT:    call @decode.layer0(
// CHECK-NEXT:    call @decode.layer0_2(

// Two functions for three ways: the ways of fewer layers share one.
// TWO:           llmc.stored = ["q4_1", "q4_1"], sources = ["a0", "a3"]
// TWO-LABEL:   func.func private @decode.layer0_1(
// TWO:           llmc.stored = ["q8_0", "q8_0", "q4_0"], sources = ["a1", "a2", "a4"]
// TWO-NOT:     @decode.layer0_2
func.func private @decode.layer0(%x: tensor<1x64xf32>) -> tensor<1x64xf32> {
  %w = "llmc.parameter"() {sources = ["a0", "a1", "a2", "a3", "a4"],
      llmc.stored = ["q4_1", "q8_0", "q8_0", "q4_1", "q4_0"]} : () -> tensor<64x64xf32>
  %n = "llmc.parameter"() {sources = ["n0", "n1", "n2", "n3", "n4"]} : () -> tensor<64xf32>
  %0 = "use"(%x, %w, %n)
      : (tensor<1x64xf32>, tensor<64x64xf32>, tensor<64xf32>) -> tensor<1x64xf32>
  return %0 : tensor<1x64xf32>
}
func.func @decode(%x: tensor<1x64xf32>) -> tensor<1x64xf32> {
  %0 = call @decode.layer0(%x) : (tensor<1x64xf32>) -> tensor<1x64xf32>
  %1 = call @decode.layer0(%0) : (tensor<1x64xf32>) -> tensor<1x64xf32>
  %2 = call @decode.layer0(%1) : (tensor<1x64xf32>) -> tensor<1x64xf32>
  %3 = call @decode.layer0(%2) : (tensor<1x64xf32>) -> tensor<1x64xf32>
  %4 = call @decode.layer0(%3) : (tensor<1x64xf32>) -> tensor<1x64xf32>
  return %4 : tensor<1x64xf32>
}

// -----

// A layer whose calls are numbered stays.
// CHECK-LABEL: func.func private @decode.layer0(
// CHECK-NOT:   func.func private
func.func private @decode.layer0(%layer: index) -> tensor<64xf32>
    attributes {llmc.layer_argument = 0 : index} {
  %w = "llmc.parameter"() {sources = ["a0", "a1"], llmc.stored = ["q4_1", "q8_0"]}
      : () -> tensor<64xf32>
  return %w : tensor<64xf32>
}
func.func @decode(%layer: index) -> tensor<64xf32> {
  %0 = call @decode.layer0(%layer) : (index) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// -----

// expected-error@+1 {{the name of its copy, 'decode.layer0_1', is taken}}
func.func private @decode.layer0() -> tensor<64xf32> {
  %w = "llmc.parameter"() {sources = ["a0", "a1"], llmc.stored = ["q4_1", "q8_0"]}
      : () -> tensor<64xf32>
  return %w : tensor<64xf32>
}
func.func private @decode.layer0_1()
func.func @decode() -> tensor<64xf32> {
  %0 = call @decode.layer0() : () -> tensor<64xf32>
  %1 = call @decode.layer0() : () -> tensor<64xf32>
  return %1 : tensor<64xf32>
}

// -----

func.func private @decode.layer0() -> tensor<64xf32> {
  // expected-error@+1 {{'sources' must have one for each of the 1 calls}}
  %w = "llmc.parameter"() {sources = ["a0", "a1"], llmc.stored = ["q4_1", "q8_0"]}
      : () -> tensor<64xf32>
  return %w : tensor<64xf32>
}
func.func @decode() -> tensor<64xf32> {
  %0 = call @decode.layer0() : () -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
