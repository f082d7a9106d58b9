// RUN: llmc-opt %s --split-input-file --add-sampled | filecheck %s

// A copy of the step draws one of its most likely tokens, of which it finds one more than asked
// for, and returns it alone. Where none are asked for these are 256, and what all others weigh
// counts; only where they do not tell are the others gone through. The loop hands it its own row of
// random numbers.
// CHECK-LABEL: func.func private @sampled.step(
// CHECK-SAME:    %[[GIVEN:[^:]+]]: tensor<1x1xi64>, %{{[^:]+}}: tensor<1xi64>, %{{[^:]+}}: i64, %{{[^:]+}}: i64, %[[K:[^:]+]]: i64, %[[OPTIONS:[^:]+]]: tensor<3xf32>, %[[NUMBERS:[^:]+]]: tensor<1xf32>) -> tensor<1x1xi64>
// CHECK-SAME:    attributes {llmc.part, noinline}
// CHECK:         %[[ROWS:.+]] = linalg.generic {{.+}} ins(%[[GIVEN]] :
// CHECK:           arith.maxsi
// CHECK:         %[[STEP:.+]]:2 = call @layers(%[[ROWS]])
// CHECK:         %[[TOP:.+]] = arith.index_cast %[[K]]
// CHECK:         %[[BEST:.+]] = tensor.collapse_shape %[[STEP]]#1
// CHECK:         %[[OF_ALL:.+]] = arith.cmpi eq, %[[TOP]],
// CHECK:         %[[MORE:.+]] = arith.addi %[[TOP]],
// CHECK:         %[[WANTED:.+]] = arith.select %[[OF_ALL]], %c256{{.*}}, %[[MORE]]
// CHECK:         %[[READ:.+]] = arith.minui %[[WANTED]],
// CHECK:         %[[FEW:.+]]:2 = "llmc.top_k"(%[[STEP]]#0, %[[READ]])
// CHECK:         %[[FOUND:.+]] = "llmc.draw"(%[[STEP]]#0, %[[FEW]]#0, %[[FEW]]#1, %[[BEST]], %[[NUMBERS]], %[[OPTIONS]], %[[TOP]])
// CHECK:         %[[DRAWN:.+]] = scf.if %[[OF_ALL]] -> (tensor<1xi64>) {
// CHECK:           %[[TOKEN:.+]] = tensor.extract %[[FOUND]]
// CHECK:           %[[OPEN:.+]] = arith.cmpi eq, %[[TOKEN]], %c-2
// CHECK:           scf.if %[[OPEN]] -> (tensor<1xi64>) {
// CHECK:             %[[ANY:.+]] = "llmc.draw_of_all"(%[[FOUND]], %[[STEP]]#0, %[[FEW]]#0, %[[FEW]]#1, %[[NUMBERS]], %[[OPTIONS]])
// CHECK:             scf.yield %[[ANY]]
// CHECK:           } else {
// CHECK:             scf.yield %[[FOUND]]
// CHECK:         } else {
// CHECK:           scf.yield %[[FOUND]]
// CHECK:         %[[NEXT:.+]] = tensor.expand_shape %[[DRAWN]]
// CHECK:         return %[[NEXT]] : tensor<1x1xi64>
// CHECK-LABEL: func.func @decode(
// CHECK-NOT:     llmc.draw
// CHECK-LABEL: func.func @sampled(
// CHECK-SAME:    %[[TOKENS:[^:]+]]: tensor<1x1xi64>, %[[START:[^:]+]]: tensor<1xi64>, %[[SEQUENCE:[^:]+]]: i64, %[[PAST:[^:]+]]: i64, %[[K:[^:]+]]: i64, %[[OPTIONS:[^:]+]]: tensor<3xf32>, %[[RANDOM:[^:]+]]: tensor<?x1xf32>) -> (tensor<?x1xi64>, tensor<1x1xi64>)
// CHECK:         %[[STEPS:.+]] = tensor.dim %[[RANDOM]],
// CHECK:         %[[LOOP:.+]]:3 = scf.while (%[[I:.+]] = %{{.+}}, %{{.+}} = %[[TOKENS]], %{{.+}} = %{{.+}})
// CHECK:         ^bb0(%[[I:.+]]: index, %[[T:.+]]: tensor<1x1xi64>, %[[FOUND:.+]]: tensor<?x1xi64>):
// CHECK:           %[[COLUMN:.+]] = arith.addi %[[PAST]],
// CHECK:           %[[ROW:.+]] = tensor.extract_slice %[[RANDOM]][%[[I]], 0] [1, 1] [1, 1] : tensor<?x1xf32> to tensor<1xf32>
// CHECK:           %[[NEXT:.+]] = func.call @sampled.step(%[[T]], %[[START]], %[[SEQUENCE]], %[[COLUMN]], %[[K]], %[[OPTIONS]], %[[ROW]])
// CHECK:           %[[MORE:.+]] = tensor.insert_slice %{{.+}} into %[[FOUND]][%[[I]], 0]
// CHECK:           scf.yield %{{.+}}, %[[NEXT]], %[[MORE]]
// CHECK:         return %[[LOOP]]#2, %[[LOOP]]#1
func.func private @layers(tensor<1x1xi64>) -> (tensor<1x1024xf32>, tensor<1x1xi64>)
func.func @decode(%tokens: tensor<1x1xi64>, %start: tensor<1xi64>, %sequence: i64, %past: i64) -> (tensor<1x1024xf32>, tensor<1x1xi64>) {
  %y:2 = call @layers(%tokens) : (tensor<1x1xi64>) -> (tensor<1x1024xf32>, tensor<1x1xi64>)
  return %y#0, %y#1 : tensor<1x1024xf32>, tensor<1x1xi64>
}

// -----

// A batch has functions of its own.
// CHECK-LABEL: func.func private @sampled_batch.step(
// CHECK-SAME:    %{{[^:]+}}: tensor<?xf32>) -> tensor<?x1xi64>
// CHECK:         %[[FOUND:.+]] = "llmc.draw"({{.+}}) : (tensor<?x10xf32>, tensor<?x?xf32>, tensor<?x?xi64>, tensor<?xi64>, tensor<?xf32>, tensor<3xf32>, index) -> tensor<?xi64>
// CHECK:         linalg.generic {{.+}} ins(%[[FOUND]] : tensor<?xi64>)
// CHECK:           %[[OPEN:.+]] = arith.cmpi eq, %{{.+}}, %c-2
// CHECK:           arith.ori %{{.+}}, %[[OPEN]]
// CHECK-LABEL: func.func @sampled_batch(
// CHECK-SAME:    %{{[^:]+}}: tensor<?x?xf32>) -> (tensor<?x?xi64>, tensor<?x1xi64>)
// CHECK:           tensor.extract_slice %{{.+}}[%{{.+}}, 0] [1, %{{.+}}] [1, 1] : tensor<?x?xf32> to tensor<?xf32>
// CHECK:           func.call @sampled_batch.step
func.func private @layers(tensor<?x1xi64>) -> (tensor<?x10xf32>, tensor<?x1xi64>)
func.func @decode_batch(%tokens: tensor<?x1xi64>, %start: tensor<?xi64>, %sequence: i64, %past: i64) -> (tensor<?x10xf32>, tensor<?x1xi64>) {
  %y:2 = call @layers(%tokens) : (tensor<?x1xi64>) -> (tensor<?x10xf32>, tensor<?x1xi64>)
  return %y#0, %y#1 : tensor<?x10xf32>, tensor<?x1xi64>
}

// -----

// Left alone: what returns no logits, or logits of halves, and prefill.
// CHECK-NOT: @sampled
func.func @decode(%tokens: tensor<1x1xi64>, %start: tensor<1xi64>, %sequence: i64, %past: i64) -> (tensor<1x1xi64>, tensor<1x1xi64>) {
  return %tokens, %tokens : tensor<1x1xi64>, tensor<1x1xi64>
}
func.func @decode_batch(%tokens: tensor<?x1xi64>, %start: tensor<?xi64>, %sequence: i64, %past: i64, %x: tensor<?x10xf16>) -> (tensor<?x10xf16>, tensor<?x1xi64>) {
  return %x, %tokens : tensor<?x10xf16>, tensor<?x1xi64>
}
func.func @prefill(%tokens: tensor<1x1xi64>, %start: tensor<1xi64>, %sequence: i64, %past: i64) -> (tensor<1x10xf32>, tensor<1x1xi64>) {
  %logits = tensor.empty() : tensor<1x10xf32>
  return %logits, %tokens : tensor<1x10xf32>, tensor<1x1xi64>
}

// -----

// The name is taken.
// CHECK-LABEL: func.func @sampled
// CHECK-NOT:   func.call
func.func @sampled(%tokens: tensor<1x1xi64>) -> tensor<1x1xi64> {
  return %tokens : tensor<1x1xi64>
}
func.func @decode(%tokens: tensor<1x1xi64>, %start: tensor<1xi64>, %sequence: i64, %past: i64) -> (tensor<1x10xf32>, tensor<1x1xi64>) {
  %logits = tensor.empty() : tensor<1x10xf32>
  return %logits, %tokens : tensor<1x10xf32>, tensor<1x1xi64>
}

// -----

// Nor is there one of what has several blocks.
// CHECK-LABEL: func.func @decode
// CHECK-NOT:   @sampled
func.func @decode(%tokens: tensor<1x1xi64>, %start: tensor<1xi64>, %sequence: i64, %past: i64, %late: i1) -> (tensor<1x10xf32>, tensor<1x1xi64>) {
  %logits = tensor.empty() : tensor<1x10xf32>
  cf.cond_br %late, ^one, ^other
^one:
  return %logits, %tokens : tensor<1x10xf32>, tensor<1x1xi64>
^other:
  return %logits, %tokens : tensor<1x10xf32>, tensor<1x1xi64>
}
