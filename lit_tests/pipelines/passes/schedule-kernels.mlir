// A kernel has the schedule of its kind, for the registers of the target; one for which there is no
// rule is left alone.
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --schedule-kernels='target=cpu:haswell' | filecheck %s
// CHECK-LABEL: func.func private @kernel
// CHECK-NOT:     linalg
// CHECK:         scf.for {{.*}} step %c4
// CHECK:           vector.fma {{.*}} : vector<16xf32>
// CHECK-LABEL: func.func private @other
// CHECK-NOT:     scf.for
// CHECK:         linalg.matmul

// A schedule that is named is run on the kernels of its kind, with the rules' choice of what it does
// not say.
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --schedule-kernels='target=cpu:armv8.2 schedule="matmul{rows=2}"' | filecheck %s --check-prefix=ROWS
// ROWS: scf.for {{.*}} step %c2
// ROWS: vector.fma {{.*}} : vector<8xf32>
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --schedule-kernels='schedule="matmul{rows=2 columns=8}"' | filecheck %s --check-prefix=NAMED
// NAMED: scf.for {{.*}} step %c2
// NAMED: vector.fma {{.*}} : vector<8xf32>

// A second run finds nothing to do.
// RUN: llmc-opt %s --outline-linears --schedule-kernels='target=cpu:haswell' --schedule-kernels --split-input-file --verify-diagnostics | filecheck %s --check-prefix=TWICE
// TWICE-LABEL: func.func private @panel_matvec
// TWICE:         scf.forall
// TWICE:           arith.addf {{.+}} : vector<16xf32>

// RUN: not llmc-opt %s --schedule-kernels='schedule="matmull"' 2>&1 | filecheck %s --check-prefix=NAME
// NAME: there is no schedule 'matmull'

// One for no kernel here is told of; one for the kernel of a part is not.
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --schedule-kernels='schedule="matvec{}"' 2>&1 >/dev/null | filecheck %s --check-prefix=UNUSED
// UNUSED: {{^}}warning: schedule 'matvec{}' was not used
// UNUSED-NOT: warning
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --schedule-kernels='schedule="matmul"' 2>&1 >/dev/null | filecheck %s --check-prefix=USED --allow-empty
// USED-NOT: warning

// A database that is not there, and what is none, are refused.
// RUN: not llmc-opt %s --split-input-file --verify-diagnostics --schedule-kernels='tuned=%t.absent' 2>&1 | filecheck %s --check-prefix=ABSENT
// ABSENT: there is no tuning database {{.+}}.absent: llmc tune makes one
// RUN: not llmc-opt %s --split-input-file --verify-diagnostics --schedule-kernels='tuned=%s' 2>&1 | filecheck %s --check-prefix=DAMAGED
// DAMAGED: schedule-kernels.mlir is no tuning database

func.func private @kernel(%a: tensor<10x15xf32>, %b: tensor<15x16xf32>) -> tensor<10x16xf32>
    attributes {llmc.kernel = "matmul"} {
  %zero = arith.constant 0.0 : f32
  %room = tensor.empty() : tensor<10x16xf32>
  %sum = linalg.fill ins(%zero : f32) outs(%room : tensor<10x16xf32>) -> tensor<10x16xf32>
  %c = linalg.matmul ins(%a, %b : tensor<10x15xf32>, tensor<15x16xf32>) outs(%sum : tensor<10x16xf32>) -> tensor<10x16xf32>
  return %c : tensor<10x16xf32>
}

func.func private @other(%a: tensor<10x15xf32>, %b: tensor<15x16xf32>, %c: tensor<10x16xf32>) -> tensor<10x16xf32>
    attributes {llmc.kernel = "contraction"} {
  %d = linalg.matmul ins(%a, %b : tensor<10x15xf32>, tensor<15x16xf32>) outs(%c : tensor<10x16xf32>) -> tensor<10x16xf32>
  return %d : tensor<10x16xf32>
}

// -----

func.func @linear(%x: tensor<1x8xf32>, %w: tensor<2x8x16xf32>) -> tensor<1x32xf32> {
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 16 : i64}
      : (tensor<1x8xf32>, tensor<2x8x16xf32>) -> tensor<1x32xf32>
  return %y : tensor<1x32xf32>
}

// -----

// Workgroups share the columns of a single panel.
// TWICE-LABEL: func.func @router
// TWICE:         scf.forall (%[[COLUMN:.*]]) = (0) to (16) step (8)
// TWICE:           vector.transfer_read %{{.*}}[%{{.*}}, %{{.*}}, %[[COLUMN]]]
func.func @router(%x: tensor<1x8xf32>, %w: tensor<1x8x16xf32>) -> tensor<1x16xf32> {
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 16 : i64}
      : (tensor<1x8xf32>, tensor<1x8x16xf32>) -> tensor<1x16xf32>
  return %y : tensor<1x16xf32>
}

// -----

func.func private @linear(%x: tensor<1x8xf32>, %w: tensor<2x7x16xf32>) -> tensor<1x32xf32>
    attributes {llmc.kernel = "panel_matvec"} {
  // expected-error@+1 {{'llmc.packed_linear' op operand 'x' must have its last dimension = 7, but has 8}}
  %y = "llmc.packed_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 16 : i64}
      : (tensor<1x8xf32>, tensor<2x7x16xf32>) -> tensor<1x32xf32>
  return %y : tensor<1x32xf32>
}

// -----

// What is marked as a kernel by hand may be none.
// expected-error@+1 {{a kernel of panels returns [.., panels, columns]}}
func.func private @nothing() attributes {llmc.kernel = "panel_matvec"} {
  return
}

// -----

// expected-error@+1 {{a kernel of a row returns a tensor of rank 1 and static size}}
func.func private @open(%x: tensor<?xf32>) -> tensor<?xf32> attributes {llmc.kernel = "row"} {
  return %x : tensor<?xf32>
}

// -----

// expected-error@+1 {{a kernel of one workgroup returns tensors of static size}}
func.func private @number(%i: index) -> index attributes {llmc.kernel = "region"} {
  return %i : index
}
