// A pipeline mixes our passes and MLIR's.
// RUN: llmc-opt %s --pass-pipeline='builtin.module(lower-llmc,func.func(canonicalize,cse))' | filecheck %s
// RUN: llmc-opt - --pass-pipeline=' builtin.module( lower-llmc , func.func( canonicalize , cse ) ) ' < %s | filecheck %s
// CHECK:     linalg.generic
// CHECK-NOT: llmc.

// Without one, the module is read, verified and printed; -o writes it to a file.
// RUN: llmc-opt %s -o %t.mlir && llmc-opt %t.mlir | filecheck %s --check-prefix=SAME
// SAME: func.func @f
// SAME: "llmc.rms_norm"

// Errors have a place; those of a pipeline name what is wrong. Nothing is written after one.
// RUN: rm -f %t.none && not llmc-opt %S/Inputs/invalid.mlir --split-input-file -o %t.none 2>&1 | filecheck %s --check-prefix=PLACE && not cat %t.none
// PLACE:      Inputs/invalid.mlir:4:8: error: 'llmc.rms_norm' op operand 'weight' must have its length = 6, but has 5
// PLACE-NEXT: %y = "llmc.rms_norm"(%x, %w)
// PLACE-NEXT: {{^       \^$}}

// The parts of a split file keep their places, and one that fails does not stop the others.
// RUN: not llmc-opt %S/Inputs/invalid.mlir --split-input-file 2>&1 | filecheck %s --check-prefix=SPLIT
// SPLIT:      invalid.mlir:4:8: error:
// SPLIT:      // -----
// SPLIT:      func.func @valid
// SPLIT:      // -----
// SPLIT-NEXT: invalid.mlir:14:23: error:
// SPLIT-NOT:  Traceback

// RUN: not llmc-opt %s --pass-pipeline='lower-llmc' 2>&1 | filecheck %s --check-prefix=ANCHOR
// ANCHOR: {{^}}error: a pipeline is wrapped in its anchor, as in 'builtin.module(cse)'
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(cse,lower-lmc)' 2>&1 | filecheck %s --check-prefix=UNKNOWN
// UNKNOWN: {{^}}error: in 'lower-lmc': 'lower-lmc' does not refer to a registered pass or pass pipeline
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(func.func(lower-llmc))' 2>&1 | filecheck %s --check-prefix=NESTED
// NESTED: {{^}}error: in 'func.func(lower-llmc)': lower-llmc runs on builtin.module alone
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(func.func(cse)' 2>&1 | filecheck %s --check-prefix=BRACKET
// BRACKET: {{^}}error: the brackets of the pipeline do not match, at 'func.func(cse'
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(cse,,cse)' 2>&1 | filecheck %s --check-prefix=EMPTY
// EMPTY: {{^}}error: the pipeline has an empty element
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(number-layers{first=1})' 2>&1 | filecheck %s --check-prefix=NO-OPTION
// NO-OPTION: {{^}}error: pass 'number-layers' has no option 'first': it has none
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(pack-weights{rows=4 column=8})' 2>&1 | filecheck %s --check-prefix=OPTION
// OPTION: {{^}}error: pass 'pack-weights' has no option 'column': its options are columns, rows
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(canonicalize{depth=1})' 2>&1 | filecheck %s --check-prefix=MLIR-OPTION
// MLIR-OPTION: {{^}}error: in 'canonicalize{depth=1}': {{.*}}no such option depth
// RUN: not llmc-opt %t.absent 2>&1 | filecheck %s --check-prefix=ABSENT
// ABSENT: {{^}}error: cannot read {{.*}}.absent: No such file or directory

// RUN: llmc-opt --list-passes | filecheck %s --check-prefix=LIST
// LIST: {{^}}pack-weights{{ +}}builtin.module{{ +}}{columns=16 rows=16}{{ +}}Turns

func.func @f(%x: tensor<3x6xf32>, %w: tensor<6xf32>) -> tensor<3x6xf32> {
  %y = "llmc.rms_norm"(%x, %w) {epsilon = 1.0e-5, offset = 0.0} : (tensor<3x6xf32>, tensor<6xf32>) -> tensor<3x6xf32>
  return %y : tensor<3x6xf32>
}
