// RUN: llmc-opt %s --split-input-file --apply-schedule='schedule="matmul{rows=2 columns=8}"' | filecheck %s
// RUN: llmc-opt %s --split-input-file --apply-schedule='file=%S/../schedules/Inputs/library.mlir' | filecheck %s --check-prefix=FILE
// RUN: llmc-opt %s --split-input-file --apply-schedule | filecheck %s --check-prefix=NONE
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --apply-schedule='file=%S/../schedules/Inputs/mine.py:too_small'

// CHECK-LABEL: func.func @kernel
// CHECK:         vector.fma {{.*}} : vector<8xf32>
// CHECK-NOT:     linalg

// FILE-LABEL: func.func @kernel
// FILE:         scf.for {{.*}} step %c4
// FILE:           linalg.matmul

// NONE-LABEL: func.func @kernel
// NONE-NOT:     scf.for
func.func @kernel(%x: tensor<10x15xf32>, %w: tensor<15x16xf32>, %y: tensor<10x16xf32>)
    -> tensor<10x16xf32> attributes {llmc.kernel = "matmul"} {
  // expected-error@+1 {{Attempted to vectorize, but failed}}
  %0 = linalg.matmul ins(%x, %w : tensor<10x15xf32>, tensor<15x16xf32>)
                     outs(%y : tensor<10x16xf32>) -> tensor<10x16xf32>
  return %0 : tensor<10x16xf32>
}

// -----

// Nothing to schedule.
// CHECK-LABEL: func.func @nothing
// CHECK-NEXT:    return
func.func @nothing(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
