// A pipeline mixes our passes, MLIR's and torch-mlir's.
// RUN: llmc-opt %s --pass-pipeline='builtin.module(lower-llmc,func.func(canonicalize,cse,convert-torch-to-linalg))' | filecheck %s
// RUN: llmc-opt - --pass-pipeline=' builtin.module( lower-llmc , func.func( canonicalize , cse ) ) ' < %s | filecheck %s
// RUN: llmc-opt %s --pass-pipeline='builtin.module(any(cse),lower-llmc{ops=rotary keep-kernels=true})' | filecheck %s
// CHECK:     linalg.generic
// CHECK-NOT: llmc.rotary

// Options are chosen by name and type.
// RUN: llmc-opt %s --pass-pipeline='builtin.module(lower-llmc{ops=linear})' | filecheck %s --check-prefix=KEPT
// KEPT: llmc.rotary

// Without one, the module is read, verified and printed; -o writes it to a file.
// RUN: llmc-opt %s -o %t.mlir && llmc-opt %t.mlir | filecheck %s --check-prefix=SAME
// SAME: func.func @f
// SAME: "llmc.rotary"

// Errors of a pipeline name what is wrong.
// RUN: not llmc-opt %s --pass-pipeline='lower-llmc' 2>&1 | filecheck %s --check-prefix=ANCHOR
// ANCHOR: {{^}}error: a pipeline is wrapped in its anchor, as in 'builtin.module(cse)'
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(cse,lower-lmc)' 2>&1 | filecheck %s --check-prefix=UNKNOWN
// UNKNOWN: {{^}}error: in 'lower-lmc': 'lower-lmc' does not refer to a registered pass or pass pipeline; did you mean 'lower-llmc'?
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(func.func(lower-llmc))' 2>&1 | filecheck %s --check-prefix=NESTED
// NESTED: {{^}}error: lower-llmc runs on builtin.module, not on func.func
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(func.func(cse)' 2>&1 | filecheck %s --check-prefix=BRACKET
// BRACKET: {{^}}error: the brackets of the pipeline do not match, at 'builtin.module(func.func(cse)'
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(cse,,cse)' 2>&1 | filecheck %s --check-prefix=EMPTY
// EMPTY: {{^}}error: the pipeline has an empty element
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(number-layers{first=1})' 2>&1 | filecheck %s --check-prefix=NO-OPTION
// NO-OPTION: {{^}}error: pass 'number-layers' has no option 'first': it has none
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(pack-weights{rows=4 column=8})' 2>&1 | filecheck %s --check-prefix=OPTION
// OPTION: {{^}}error: pass 'pack-weights' has no option 'column': its options are columns, rows
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(pack-weights{rows=four})' 2>&1 | filecheck %s --check-prefix=TYPE
// TYPE: {{^}}error: option 'rows' of pass 'pack-weights' must be of type int, not 'four'
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(pack-weights{rows=9223372036854775808})' 2>&1 | filecheck %s --check-prefix=RANGE
// RANGE: {{^}}error: option 'rows' of pass 'pack-weights' must be from 1 to 4096, not 9223372036854775808
// RUN: not llmc-opt %s --schedule='matmul{rows=9223372036854775808}' 2>&1 | filecheck %s --check-prefix=INT64
// INT64: {{^}}error: option 'rows' of schedule 'matmul' must be from {{.*}}, not 9223372036854775808
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(canonicalize{depth=1})' 2>&1 | filecheck %s --check-prefix=MLIR-OPTION
// MLIR-OPTION: {{^}}error: in 'canonicalize{depth=1}': no such option depth
// RUN: not llmc-opt %t.absent 2>&1 | filecheck %s --check-prefix=ABSENT
// ABSENT: {{^}}error: cannot read {{.*}}.absent: No such file or directory

// The pipeline itself, with all its options, named pipelines taken apart.
// RUN: llmc-opt %s --pass-pipeline='builtin.module(lower-llmc,func.func(canonicalize,cse))' --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=DUMP
// DUMP:      Pass Manager with 2 passes:
// DUMP-NEXT: {{^}}builtin.module(
// DUMP-NEXT:   lower-llmc{keep-kernels=false ops=},
// DUMP-NEXT:   func.func(
// DUMP-NEXT:     canonicalize{{{.*}}max-iterations=10{{.*}}},
// DUMP-NEXT:     cse
// DUMP-NEXT:   )
// DUMP-NEXT: {{^}})

func.func @f(%x: tensor<?x2x3x6xf32>, %w: tensor<1x3x6xf32>) -> tensor<?x2x3x6xf32> {
  %y = "llmc.rotary"(%x, %w, %w) {interleaved = 0 : i64} : (tensor<?x2x3x6xf32>, tensor<1x3x6xf32>, tensor<1x3x6xf32>) -> tensor<?x2x3x6xf32>
  return %y : tensor<?x2x3x6xf32>
}
