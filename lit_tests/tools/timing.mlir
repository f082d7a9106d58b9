// Ours and MLIR's in one table, passes below the anchor that they run on.
// RUN: llmc-opt %s --pass-pipeline='builtin.module(drop-assertions,func.func(canonicalize,cse),symbol-dce)' --mlir-timing -o %t 2>&1 | filecheck %s
// CHECK:      ... Execution time report ...
// CHECK:      Total Execution Time: {{[0-9.]+}} seconds
// CHECK:      ----Wall Time---- ----Name----
// CHECK-NEXT: {{[0-9.]+}} ({{ *[0-9.]+}}%) Parser
// CHECK-NEXT: {{[0-9.]+}} ({{ *[0-9.]+}}%) drop-assertions
// CHECK-NEXT: {{[0-9.]+}} ({{ *[0-9.]+}}%) 'func.func' Pipeline
// CHECK-NEXT: {{[0-9.]+}} ({{ *[0-9.]+}}%)   canonicalize
// CHECK-NEXT: {{[0-9.]+}} ({{ *[0-9.]+}}%)   cse
// CHECK-NEXT: {{[0-9.]+}} ({{ *[0-9.]+}}%) symbol-dce
// CHECK-NEXT: {{[0-9.]+}} ({{ *[0-9.]+}}%) Output
// CHECK-NEXT: {{[0-9.]+}} ({{ *[0-9.]+}}%) Rest
// CHECK-NEXT: {{[0-9.]+}} (100.0%) Total

// Or with the longest first, those of one name together.
// RUN: llmc-opt %s --pass-pipeline='builtin.module(func.func(canonicalize),symbol-dce,func.func(canonicalize))' --mlir-timing --mlir-timing-display=list -o %t 2>&1 | filecheck %s --check-prefix=LIST
// LIST-COUNT-1: canonicalize
// LIST-NOT:     canonicalize
// LIST:         Rest

func.func @f() {
  return
}
