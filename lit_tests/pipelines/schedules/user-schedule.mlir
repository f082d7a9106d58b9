// RUN: llmc-opt %s --schedule-file=%S/Inputs/mine.py:loops | filecheck %s --check-prefix=LOOPS
// RUN: llmc-opt %s --schedule-file='%S/Inputs/mine.py:loops{rows=3 times=5}' | filecheck %s --check-prefix=UNROLLED
// RUN: llmc-opt %s --schedule-file=%S/Inputs/mine.py:padded | filecheck %s --check-prefix=PADDED
// RUN: llmc-opt %s --schedule-file=%S/Inputs/mine.py:buffers | filecheck %s --check-prefix=BUFFERS
// RUN: llmc-opt %s --schedule-file=%S/Inputs/mine.py:annotated | filecheck %s --check-prefix=ANNOTATED
// RUN: llmc-opt %s --schedule-file=%S/Inputs/library.mlir | filecheck %s --check-prefix=LIBRARY
// RUN: llmc-opt %s --schedule-file=%S/Inputs/annotate.mlir | filecheck %s --check-prefix=SEEN

// What --dump-schedule prints is itself a transform library.
// RUN: llmc-opt %s --schedule='matmul{rows=2 columns=8}' --dump-schedule > %t.mlir
// RUN: llmc-opt %s --schedule-file=%t.mlir -o %t.dumped
// RUN: llmc-opt %s --schedule='matmul{rows=2 columns=8}' -o %t.named
// RUN: diff %t.dumped %t.named

// LOOPS-LABEL: func.func @kernel
// LOOPS:         scf.for {{.*}} to %c8 step %c4
// LOOPS:           scf.for {{.*}} to %c15 step %c1
// LOOPS:             linalg.generic
// LOOPS-NOT:         linalg.generic
// LOOPS:           scf.for {{.*}} to %c15 step %c1
// LOOPS:             linalg.generic
// LOOPS-SAME:          tensor<2x1xf32>
// LOOPS-NOT:         linalg.generic

// UNROLLED-LABEL:   func.func @kernel
// UNROLLED:           scf.for {{.*}} to %c9 step %c3
// UNROLLED:             scf.for {{.*}} to %c15 step %c5
// UNROLLED-COUNT-5:       linalg.generic
// UNROLLED-NOT:           linalg.generic
// UNROLLED:             scf.yield

// PADDED-LABEL: func.func @kernel
// PADDED:         tensor.pad
// PADDED:         linalg.matmul
// PADDED-SAME:      tensor<16x15xf32>

// BUFFERS-LABEL: func.func @kernel(%arg0: memref<10x15xf32>
// BUFFERS:         vector.fma
// BUFFERS:         return {{.*}} : memref<10x16xf32>

// ANNOTATED-LABEL: func.func @kernel
// ANNOTATED:         linalg.matmul {mine}

// What a script says of the module itself stays.
// SEEN: module attributes {llmc.seen} {

// LIBRARY-LABEL: func.func @kernel
// LIBRARY:         scf.for {{.*}} step %c4
// LIBRARY:           linalg.matmul
func.func @kernel(%x: tensor<10x15xf32>, %w: tensor<15x16xf32>, %y: tensor<10x16xf32>)
    -> tensor<10x16xf32> attributes {llmc.kernel = "matmul"} {
  %0 = linalg.matmul ins(%x, %w : tensor<10x15xf32>, tensor<15x16xf32>)
                     outs(%y : tensor<10x16xf32>) -> tensor<10x16xf32>
  return %0 : tensor<10x16xf32>
}
