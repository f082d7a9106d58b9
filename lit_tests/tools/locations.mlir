// Diagnostics have a place, the line and a caret; nothing is written after one.
// RUN: rm -f %t.none && not llmc-opt %S/Inputs/invalid.mlir --split-input-file -o %t.none 2>&1 | filecheck %s --check-prefix=PLACE && not cat %t.none
// PLACE:      Inputs/invalid.mlir:4:8: error: 'llmc.rotary' op operand 'cos' must have its tokens = 3, but has 5
// PLACE-NEXT: %y = "llmc.rotary"(%x, %w, %w)
// PLACE-NEXT: {{^       \^$}}

// The parts of a split file keep their places, and one that fails does not stop the others.
// RUN: not llmc-opt %S/Inputs/invalid.mlir --split-input-file 2>&1 | filecheck %s --check-prefix=SPLIT
// SPLIT:      invalid.mlir:4:8: error:
// SPLIT:      // -----
// SPLIT:      func.func @valid
// SPLIT:      // -----
// SPLIT-NEXT: invalid.mlir:14:23: error:
// SPLIT-NOT:  Traceback

// An operation that came from elsewhere, as a PyTorch model's does, is shown where it came from.
// RUN: not llmc-opt %s 2>&1 | filecheck %s --check-prefix=FROM
// FROM:      model.py:295:0: error: 'llmc.rotary' op operand 'cos' must have its tokens = 3, but has 5
// FROM-NEXT: caller.py:12:3: note: called from

// An operation of llmc in a form that it does not have.
// RUN: not llmc-opt %S/Inputs/custom-form.mlir 2>&1 | filecheck %s --check-prefix=CUSTOM
// CUSTOM:      custom-form.mlir:4:8: error: 'llmc.rms_norm' has no custom form: it is written "llmc.rms_norm"(
// CUSTOM-NEXT: %y = llmc.rms_norm %x
// CUSTOM-NEXT: {{^       \^$}}
// RUN: not llmc-opt < %S/Inputs/custom-form.mlir 2>&1 | filecheck %s --check-prefix=CUSTOM-STDIN
// CUSTOM-STDIN: {{^}}<stdin>:4:8: error: 'llmc.rms_norm' has no custom form

// Standard input has a name too.
// RUN: not llmc-opt < %S/Inputs/unexpected.mlir 2>&1 | filecheck %s --check-prefix=STDIN
// STDIN: {{^}}<stdin>:10:8: error:

func.func @f(%x: tensor<1x2x3x6xf32>, %w: tensor<1x5x6xf32>) -> tensor<1x2x3x6xf32> {
  %y = "llmc.rotary"(%x, %w, %w) {interleaved = 0 : i64} : (tensor<1x2x3x6xf32>, tensor<1x5x6xf32>, tensor<1x5x6xf32>) -> tensor<1x2x3x6xf32> loc(callsite("model.py":295:0 at "caller.py":12:3))
  return %y : tensor<1x2x3x6xf32>
}
