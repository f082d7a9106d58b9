// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(drop-assertions)' | filecheck %s

// Also from regions; what the condition needs is left to canonicalize and cse.
// CHECK-LABEL: func.func @embed
// CHECK-NOT:   cf.assert
// CHECK:       tensor.generate
// CHECK-NOT:   cf.assert
// CHECK:       arith.cmpi slt
// CHECK-NOT:   cf.assert
// CHECK:       tensor.extract
// CHECK-NOT:   cf.assert
// CHECK:       return
func.func @embed(%table: tensor<8xf32>, %ids: tensor<?xi64>, %n: index, %ok: i1) -> tensor<?xf32> {
  cf.assert %ok, "too many tokens"
  %0 = tensor.generate %n {
  ^bb0(%i: index):
    %limit = arith.constant 8 : i64
    %id = tensor.extract %ids[%i] : tensor<?xi64>
    %inside = arith.cmpi slt, %id, %limit : i64
    cf.assert %inside, "index must be smaller than dim size"
    %which = arith.index_cast %id : i64 to index
    %value = tensor.extract %table[%which] : tensor<8xf32>
    tensor.yield %value : f32
  } : tensor<?xf32>
  return %0 : tensor<?xf32>
}

// Other control flow stays.
// CHECK-LABEL: func.func @branch
// CHECK:       cf.cond_br
func.func @branch(%c: i1) -> i1 {
  cf.cond_br %c, ^a, ^b
^a:
  return %c : i1
^b:
  %f = arith.constant false
  return %f : i1
}

// -----

func.func @invalid(%condition: i64) {
  // expected-note@-1 {{prior use here}}
  // expected-error@+1 {{expects different type than prior uses}}
  cf.assert %condition, "not a truth value"
  return
}
