// RUN: llmc-opt --version | filecheck %s --check-prefix=VERSION
// VERSION: llmc {{[0-9.]+}}, with MLIR of torch-mlir {{[0-9]+}}

// What MLIR's bindings do not allow is refused by name.
// RUN: not llmc-opt %s -mlir-pass-statistics 2>&1 | filecheck %s --check-prefix=STATISTICS
// STATISTICS: {{^}}error: llmc-opt cannot take --mlir-pass-statistics: MLIR as torch-mlir builds it
// RUN: not llmc-opt %s --mlir-print-unique-ssa-ids=1 2>&1 | filecheck %s --check-prefix=BINDING
// BINDING: {{^}}error: llmc-opt cannot take --mlir-print-unique-ssa-ids: MLIR's Python bindings

// Parts end and begin where a marker stands; one that is nearly it is told of.
// RUN: llmc-opt %S/Inputs/parts.mlir --split-input-file='//###' --output-split-marker='//===' 2>&1 | filecheck %s --check-prefix=PARTS
// PARTS:      parts.mlir:6:1: warning: near miss with file split marker
// PARTS-NEXT: //##
// PARTS:      func.func private @a
// PARTS:      //===
// PARTS-NEXT: module {
// PARTS-NEXT:   func.func private @b
// PARTS-NOT:  //===

// What is printed is read back, as text and as bytecode.
// RUN: llmc-opt %S/Inputs/parts.mlir --verify-roundtrip -mlir-print-skip-regions | filecheck %s --check-prefix=SKIPPED
// SKIPPED: {{^}}module {...}
// RUN: llmc-opt %s --mlir-use-nameloc-as-prefix --mlir-print-assume-verified | filecheck %s --check-prefix=NAMES
// NAMES: func.func @f(%x: i32)

// Of a diagnostic its notes, among them the operation, or nothing below a severity.
// RUN: not llmc-opt %S/Inputs/wrong.mlir 2>&1 | filecheck %s --check-prefix=NOTES
// NOTES: wrong.mlir:2:8: error: 'arith.addi' op expected 2 operands
// NOTES: note: see current operation: %0 = "arith.addi"
// RUN: not llmc-opt %S/Inputs/wrong.mlir --mlir-print-op-on-diagnostic=0 2>&1 | filecheck %s --check-prefix=NO-NOTES
// RUN: not llmc-opt %S/Inputs/wrong.mlir --mlir-disable-diagnostic-notes 2>&1 | filecheck %s --check-prefix=NO-NOTES
// NO-NOTES:     error: 'arith.addi' op expected 2 operands
// NO-NOTES-NOT: note:
// RUN: not llmc-opt %S/Inputs/invalid.mlir --split-input-file --mlir-print-stacktrace-on-diagnostic 2>&1 | filecheck %s --check-prefix=STACK
// STACK: invalid.mlir:4:8: error:
// STACK: note: diagnostic emitted with trace:
// STACK: dialects/{{.*}}.py", line

func.func @f(%arg0: i32 loc("x")) -> i32 {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<1x3x6xf32>
  return %arg0 : i32
}
