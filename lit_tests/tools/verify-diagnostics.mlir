// RUN: llmc-opt %s --split-input-file --verify-diagnostics -o %t
// RUN: not llmc-opt %S/Inputs/unexpected.mlir --split-input-file --verify-diagnostics -o %t 2>&1 | filecheck %s
// CHECK:      unexpected.mlir:1:4: error: expected error "is not here" was not produced
// CHECK-NEXT: // expected-{{error.*}}is not here
// CHECK-NEXT: {{^   \^~+$}}
// CHECK-NEXT: unexpected.mlir:10:8: error: unexpected error: 'llmc.rotary' op operand 'cos' must have its tokens = 3, but has 5
// CHECK-NEXT: %y = "llmc.rotary"(%x, %w, %w)
// CHECK-NEXT: {{^       \^$}}
// CHECK-NEXT: unexpected.mlir:9:6: error: expected error "of another kind" was not produced
// CHECK-NOT:  error:

// What nobody expects is no fault if only what is expected matters.
// RUN: not llmc-opt %S/Inputs/unexpected.mlir --split-input-file --verify-diagnostics=only-expected -o %t 2>&1 | filecheck %s --check-prefix=ONLY
// ONLY-NOT: unexpected error
// ONLY:     error: expected error "is not here" was not produced

func.func @offset(%x: tensor<1x2x3x6xf32>, %w: tensor<1x5x6xf32>) {
  // expected-error@+1 {{'llmc.rotary' op operand 'cos' must have its tokens = 3}}
  %y = "llmc.rotary"(%x, %w, %w) {interleaved = 0 : i64} : (tensor<1x2x3x6xf32>, tensor<1x5x6xf32>, tensor<1x5x6xf32>) -> tensor<1x2x3x6xf32>
  return
}

// -----

func.func @same_line(%x: tensor<1x2x3x6xf32>, %w: tensor<1x5x6xf32>) {
  %y = "llmc.rotary"(%x, %w, %w) {interleaved = 0 : i64} : (tensor<1x2x3x6xf32>, tensor<1x5x6xf32>, tensor<1x5x6xf32>) -> tensor<1x2x3x6xf32> // expected-error {{must have its tokens}}
  return
}

// -----

func.func @below(%x: tensor<1x2x3x6xf32>, %w: tensor<1x5x6xf32>) {
  // expected-error-re@below {{tokens = {{[0-9]+}}, but has {{5$}}}}
  %y = "llmc.rotary"(%x, %w, %w) {interleaved = 0 : i64} : (tensor<1x2x3x6xf32>, tensor<1x5x6xf32>, tensor<1x5x6xf32>) -> tensor<1x2x3x6xf32>
  return
}

// -----

func.func @above(%x: tensor<1x2x3x6xf32>, %w: tensor<1x5x6xf32>) {
  %y = "llmc.rotary"(%x, %w, %w) {interleaved = 0 : i64} : (tensor<1x2x3x6xf32>, tensor<1x5x6xf32>, tensor<1x5x6xf32>) -> tensor<1x2x3x6xf32>
  // expected-error@above {{must have its tokens = 3}}
  return
}

// -----

func.func @two() {
  // expected-note@+1 {{prior use here}}
  %y = arith.constant 1 : i32
  // expected-error@+1 {{expects different type than prior uses}}
  return %y : i64
}
