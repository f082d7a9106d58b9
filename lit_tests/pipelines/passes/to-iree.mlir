// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(to-iree)' | filecheck %s

// Weights are named parameters, the cache is mutable; they keep their order and what llmc says.
// CHECK:      "util.global"() {initial_value = #flow.parameter.named<"model"::"norm"> : tensor<2x6xf32>,
// CHECK-SAME:   llmc.recipe = ["layers.0.norm", "layers.1.norm"], sym_name = "norm", sym_visibility = "private", type = tensor<2x6xf32>}
// CHECK-NEXT: "util.global"() {is_mutable, llmc.kv_cache, sym_name = "layer0.0.keys", sym_visibility = "private", type = tensor<2x?x2x?x8xf32>}
// CHECK-NOT:  ml_program
ml_program.global private @norm(#ml_program.extern : tensor<2x6xf32>) : tensor<2x6xf32>
    {llmc.recipe = ["layers.0.norm", "layers.1.norm"]}
ml_program.global private mutable @layer0.0.keys : tensor<2x?x2x?x8xf32> {llmc.kv_cache}

// A global begins as what it is said to be, and one that nothing writes is a constant.
// CHECK:      "util.global"() {initial_value = dense<7> : tensor<i64>, is_mutable, sym_name = "counter"
// CHECK:      "util.global"() {initial_value = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>, sym_name = "table", sym_visibility = "private", type = tensor<2xf32>}
ml_program.global private mutable @counter(dense<7> : tensor<i64>) : tensor<i64>
ml_program.global private @table(dense<[1.0, 2.0]> : tensor<2xf32>) : tensor<2xf32>

// CHECK-LABEL: func.func private @looks_up
// CHECK-NEXT:    "util.global.load"() {global = @table} : () -> tensor<2xf32>
func.func private @looks_up() -> tensor<2xf32> {
  %t = ml_program.global_load_const @table : tensor<2xf32>
  return %t : tensor<2xf32>
}

// CHECK-LABEL: func.func private @decode.layer0
// CHECK-SAME:    attributes {noinline}
func.func private @decode.layer0(%x: tensor<6xf32>) -> tensor<2x6xf32> {
  // CHECK-NEXT: "util.global.load"() {global = @norm} : () -> tensor<2x6xf32>
  %n = ml_program.global_load @norm : tensor<2x6xf32>
  return %n : tensor<2x6xf32>
}

// Two allocations of one shape stay two, and trunks may be inlined.
// CHECK-LABEL: func.func @reset(%arg0: index) {
// CHECK-NEXT:    %[[A:.+]] = "flow.tensor.alloca"(%arg0, %arg0) : (index, index) -> tensor<2x?x2x?x8xf32>
// CHECK-NEXT:    "util.global.store"(%[[A]]) {global = @layer0.0.keys}
// CHECK-NEXT:    "flow.tensor.alloca"(%arg0, %arg0)
// CHECK-NEXT:    "util.global.store"
func.func @reset(%n: index) {
  %a = bufferization.alloc_tensor(%n, %n) : tensor<2x?x2x?x8xf32>
  ml_program.global_store @layer0.0.keys = %a : tensor<2x?x2x?x8xf32>
  %b = bufferization.alloc_tensor(%n, %n) : tensor<2x?x2x?x8xf32>
  ml_program.global_store @layer0.0.keys = %b : tensor<2x?x2x?x8xf32>
  return
}

// CHECK-LABEL: func.func @view
// CHECK-NEXT:    "flow.tensor.bitcast"(%arg0) {operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<2x34xi8>) -> tensor<2x17xf16>
func.func @view(%x: tensor<2x34xi8>) -> tensor<2x17xf16> {
  %y = "llmc.bitcast"(%x) : (tensor<2x34xi8>) -> tensor<2x17xf16>
  return %y : tensor<2x17xf16>
}

// CHECK-LABEL: func.func @other
// CHECK-NEXT:    arith.addf
func.func @other(%x: tensor<6xf32>) -> tensor<6xf32> {
  %y = arith.addf %x, %x : tensor<6xf32>
  return %y : tensor<6xf32>
}

// -----

func.func @invalid() -> tensor<6xf32> {
  // expected-error@+1 {{'ml_program.global_load' op undefined global: @absent}}
  %n = ml_program.global_load @absent : tensor<6xf32>
  return %n : tensor<6xf32>
}
