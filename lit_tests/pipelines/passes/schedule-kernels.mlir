// A kernel for which there is no rule is left alone.
// RUN: llmc-opt %s --schedule-kernels | filecheck %s
// CHECK-LABEL: func.func private @kernel
// CHECK-NOT:     scf.for
// CHECK:         linalg.matmul

// A schedule that is named is run on the kernels of its kind.
// RUN: llmc-opt %s --schedule-kernels='schedule="matmul{rows=2 columns=8}"' | filecheck %s --check-prefix=NAMED
// NAMED: scf.for {{.*}} step %c2
// NAMED: vector.fma {{.*}} : vector<8xf32>

// RUN: not llmc-opt %s --schedule-kernels='schedule="matmull"' 2>&1 | filecheck %s --check-prefix=NAME
// NAME: there is no schedule 'matmull'

// No database is one without entries; what is none is refused.
// RUN: llmc-opt %s --schedule-kernels='tuned=%t.absent' | filecheck %s
// RUN: not llmc-opt %s --schedule-kernels='tuned=%s' 2>&1 | filecheck %s --check-prefix=DAMAGED
// DAMAGED: schedule-kernels.mlir is no tuning database

func.func private @kernel(%a: tensor<10x15xf32>, %b: tensor<15x16xf32>) -> tensor<10x16xf32>
    attributes {llmc.kernel = "matmul"} {
  %zero = arith.constant 0.0 : f32
  %room = tensor.empty() : tensor<10x16xf32>
  %sum = linalg.fill ins(%zero : f32) outs(%room : tensor<10x16xf32>) -> tensor<10x16xf32>
  %c = linalg.matmul ins(%a, %b : tensor<10x15xf32>, tensor<15x16xf32>) outs(%sum : tensor<10x16xf32>) -> tensor<10x16xf32>
  return %c : tensor<10x16xf32>
}
