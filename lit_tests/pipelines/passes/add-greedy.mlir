// RUN: llmc-opt %s --split-input-file --add-greedy | filecheck %s

// A loop runs the step on the tokens that it returned before, a column further. The step accepts
// what is no token.
// CHECK-LABEL: func.func @decode(
// CHECK-SAME:    %[[GIVEN:[^:]+]]: tensor<1x1xi64>
// CHECK-SAME:    attributes {noinline}
// CHECK:         %[[ROWS:.+]] = linalg.generic {{.+}} ins(%[[GIVEN]] :
// CHECK:           arith.maxsi
// CHECK:         call @layers(%[[ROWS]])
// CHECK-LABEL: func.func @greedy(
// CHECK-SAME:    %[[TOKENS:[^:]+]]: tensor<1x1xi64>, %[[START:[^:]+]]: tensor<1xi64>, %[[SEQUENCE:[^:]+]]: i64, %[[PAST:[^:]+]]: i64, %[[COUNT:[^:]+]]: i64) -> (tensor<?x1xi64>, tensor<1x1xi64>)
// CHECK:         %[[STEPS:.+]] = arith.index_cast %[[COUNT]]
// CHECK:         %[[ROOM:.+]] = tensor.empty(%[[STEPS]]) : tensor<?x1xi64>
// CHECK:         %[[LOOP:.+]]:3 = scf.while (%[[I:.+]] = %{{.+}}, %{{.+}} = %[[TOKENS]], %{{.+}} = %[[ROOM]])
// CHECK:           arith.cmpi slt, %[[I]], %[[STEPS]]
// CHECK:         ^bb0(%[[I:.+]]: index, %[[T:.+]]: tensor<1x1xi64>, %[[FOUND:.+]]: tensor<?x1xi64>):
// CHECK:           %[[COLUMN:.+]] = arith.addi %[[PAST]],
// CHECK:           %[[STEP:.+]]:2 = func.call @decode(%[[T]], %[[START]], %[[SEQUENCE]], %[[COLUMN]])
// CHECK:           %[[BEST:.+]] = tensor.collapse_shape %[[STEP]]#1
// CHECK:           %[[MORE:.+]] = tensor.insert_slice %[[BEST]] into %[[FOUND]][%[[I]], 0] [1, 1]
// CHECK:           %[[NEXT:.+]] = arith.addi %[[I]],
// CHECK:           scf.yield %[[NEXT]], %[[STEP]]#1, %[[MORE]]
// CHECK:         return %[[LOOP]]#2, %[[LOOP]]#1
// CHECK-NOT:   func.func @greedy
func.func private @layers(tensor<1x1xi64>) -> (tensor<1x10xf32>, tensor<1x1xi64>)
func.func @decode(%tokens: tensor<1x1xi64>, %start: tensor<1xi64>, %sequence: i64, %past: i64) -> (tensor<1x10xf32>, tensor<1x1xi64>) {
  %y:2 = call @layers(%tokens) : (tensor<1x1xi64>) -> (tensor<1x10xf32>, tensor<1x1xi64>)
  return %y#0, %y#1 : tensor<1x10xf32>, tensor<1x1xi64>
}

// -----

// A batch has a function of its own.
// CHECK-LABEL: func.func @greedy_batch(
// CHECK-SAME:    tensor<?x1xi64>, %{{[^:]+}}: tensor<?xi64>, %{{[^:]+}}: i64, %{{[^:]+}}: i64, %{{[^:]+}}: i64) -> (tensor<?x?xi64>, tensor<?x1xi64>)
// CHECK:         func.call @decode_batch
// CHECK:         tensor.insert_slice %{{.+}} into %{{.+}}[%{{.+}}, 0] [1, %{{.+}}] [1, 1] : tensor<?xi64> into tensor<?x?xi64>
func.func private @layers(tensor<?x1xi64>) -> (tensor<?x10xf32>, tensor<?x1xi64>)
func.func @decode_batch(%tokens: tensor<?x1xi64>, %start: tensor<?xi64>, %sequence: i64, %past: i64) -> (tensor<?x10xf32>, tensor<?x1xi64>) {
  %y:2 = call @layers(%tokens) : (tensor<?x1xi64>) -> (tensor<?x10xf32>, tensor<?x1xi64>)
  return %y#0, %y#1 : tensor<?x10xf32>, tensor<?x1xi64>
}

// -----

// Left alone: what has no state yet, what returns no tokens, and prefill.
// CHECK-NOT: @greedy
func.func @decode(%tokens: tensor<1x1xi64>, %positions: tensor<1x1xi64>) -> (tensor<1x10xf32>, tensor<1x1xi64>) {
  %logits = tensor.empty() : tensor<1x10xf32>
  return %logits, %tokens : tensor<1x10xf32>, tensor<1x1xi64>
}
func.func @decode_batch(%tokens: tensor<?x1xi64>, %start: tensor<?xi64>, %sequence: i64, %past: i64) -> tensor<?x1xi64> {
  return %tokens : tensor<?x1xi64>
}
func.func @prefill(%tokens: tensor<1x1xi64>, %start: tensor<1xi64>, %sequence: i64, %past: i64) -> (tensor<1x10xf32>, tensor<1x1xi64>) {
  %logits = tensor.empty() : tensor<1x10xf32>
  return %logits, %tokens : tensor<1x10xf32>, tensor<1x1xi64>
}

// -----

// The name is taken.
// CHECK-LABEL: func.func @greedy
// CHECK-NOT:   func.call
func.func @greedy(%tokens: tensor<1x1xi64>) -> tensor<1x1xi64> {
  return %tokens : tensor<1x1xi64>
}
func.func @decode(%tokens: tensor<1x1xi64>, %start: tensor<1xi64>, %sequence: i64, %past: i64) -> (tensor<1x10xf32>, tensor<1x1xi64>) {
  %logits = tensor.empty() : tensor<1x10xf32>
  return %logits, %tokens : tensor<1x10xf32>, tensor<1x1xi64>
}
