// The IR is printed around passes of ours and of MLIR's alike.
// RUN: llmc-opt %s --lower-llmc --cse --mlir-print-ir-after-all -o %t 2>&1 | filecheck %s --check-prefix=AFTER
// AFTER:      {{^}}// -----// IR Dump After LowerLlmc: lower-llmc{keep-kernels=false ops=} //----- //
// AFTER:      {{^}}module {
// AFTER:      linalg.generic
// AFTER:      {{^}}// -----// IR Dump After CSEPass: cse //----- //
// AFTER:      linalg.generic

// RUN: llmc-opt %s --lower-llmc --cse --mlir-print-ir-before=cse,lower-llmc -o %t 2>&1 | filecheck %s --check-prefix=BEFORE
// BEFORE:     IR Dump Before LowerLlmc: lower-llmc
// BEFORE:     llmc.rotary
// BEFORE:     IR Dump Before CSEPass: cse
// BEFORE-NOT: llmc.rotary

// RUN: llmc-opt %s --lower-llmc --cse --mlir-print-ir-after=cse -o %t 2>&1 | filecheck %s --check-prefix=ONE
// ONE-NOT: lower-llmc
// ONE:     IR Dump After CSEPass: cse

// A second run changes nothing, and so is not printed.
// RUN: llmc-opt %s --lower-llmc --lower-llmc --drop-assertions --cse --cse --mlir-print-ir-after-change -o %t 2>&1 | filecheck %s --check-prefix=CHANGE
// CHANGE:     IR Dump After LowerLlmc: lower-llmc
// CHANGE-NOT: IR Dump After LowerLlmc
// CHANGE-NOT: drop-assertions
// CHANGE:     IR Dump After CSEPass: cse
// CHANGE-NOT: IR Dump

// RUN: not llmc-opt %s --cse --bind-parameters --mlir-print-ir-after-failure -o %t 2>&1 | filecheck %s --check-prefix=FAILURE
// FAILURE-NOT: CSEPass
// FAILURE:     error:
// FAILURE:     IR Dump After BindParameters Failed: bind-parameters

// Another pass of that name is printed nowhere, and one that there is not is an error.
// RUN: not llmc-opt %s --cse --mlir-print-ir-before=cse,nosuch 2>&1 | filecheck %s --check-prefix=NOSUCH
// NOSUCH: {{^}}error: --mlir-print-ir-before: there is no pass 'nosuch'

// A pass on functions prints its function, or the module.
// RUN: llmc-opt %s --pass-pipeline='builtin.module(func.func(cse))' --mlir-print-ir-after-all -o %t 2>&1 | filecheck %s --check-prefix=FUNCTION
// FUNCTION:      IR Dump After CSEPass: cse
// FUNCTION-NEXT: {{^}}func.func private @prefill.layer0
// RUN: llmc-opt %s --pass-pipeline='builtin.module(func.func(cse))' --mlir-print-ir-after-all --mlir-print-ir-module-scope -o %t 2>&1 | filecheck %s --check-prefix=SCOPE
// SCOPE:      IR Dump After CSEPass: cse ('func.func' operation: @prefill.layer0) //
// SCOPE-NEXT: {{^}}module {

// Passes nested side by side all run on one function before they do on the next.
// RUN: llmc-opt %s --pass-pipeline='builtin.module(func.func(cse),func.func(canonicalize))' --mlir-print-ir-before-all -o %t 2>&1 | filecheck %s --check-prefix=NEST
// NEST:      IR Dump Before CSEPass: cse
// NEST-NEXT: func.func private @prefill.layer0
// NEST:      IR Dump Before CanonicalizerPass: canonicalize
// NEST-NEXT: func.func private @prefill.layer0
// NEST:      IR Dump Before CSEPass: cse
// NEST-NEXT: func.func private @use
// NEST:      IR Dump Before CanonicalizerPass: canonicalize
// NEST-NEXT: func.func private @use

// The flags of printing hold for these too, around our passes and MLIR's.
// RUN: llmc-opt %s --drop-assertions --cse --mlir-print-ir-after-all --mlir-print-op-generic --mlir-print-debuginfo -o %t 2>&1 | filecheck %s --check-prefix=FLAGS
// FLAGS: IR Dump After DropAssertions
// FLAGS: "builtin.module"() ({
// FLAGS: loc({{.*}}print-ir.mlir":{{[0-9]+}}
// FLAGS: IR Dump After CSEPass
// FLAGS: "builtin.module"() ({
// FLAGS: loc({{.*}}print-ir.mlir":{{[0-9]+}}
// RUN: llmc-opt %s --drop-assertions --cse --mlir-print-ir-after-all --mlir-elide-elementsattrs-if-larger=3 --mlir-pretty-debuginfo -o %t 2>&1 | filecheck %s --check-prefix=ELIDED
// RUN: llmc-opt %s --drop-assertions --cse --mlir-print-ir-after-all --mlir-elide-elementsattrs-if-larger=3 --mlir-print-skip-regions -o %t 2>&1 | filecheck %s --check-prefix=SKIPPED
// ELIDED:      IR Dump After DropAssertions
// ELIDED:      dense_resource<__elided__>{{.*}}print-ir.mlir:{{[0-9]+}}
// ELIDED:      IR Dump After CSEPass
// ELIDED:      dense_resource<__elided__>{{.*}}print-ir.mlir:{{[0-9]+}}
// SKIPPED:      IR Dump After DropAssertions
// SKIPPED-NEXT: module {...}
// SKIPPED:      IR Dump After CSEPass
// SKIPPED-NEXT: module {...}

// Into a tree of files: a folder for each operation, numbers that count its passes and its parents'.
// RUN: rm -rf %t.tree && llmc-opt %s --pass-pipeline='builtin.module(func.func(cse,canonicalize),drop-assertions)' --mlir-print-ir-after-all --mlir-print-ir-tree-dir=%t.tree -o %t
// RUN: filecheck %s --check-prefix=TREE < %t.tree/builtin_module_no-symbol-name/func_func_prefill_layer0/0_1_canonicalize.mlir
// RUN: cat %t.tree/builtin_module_no-symbol-name/1_drop-assertions.mlir
// TREE:      IR Dump After CanonicalizerPass
// TREE-NEXT: {{^}}func.func private @prefill.layer0

func.func private @prefill.layer0(%x: tensor<1x2x3x6xf32>) -> tensor<1x2x3x6xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<1x3x6xf32>
  %c = arith.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  call @use(%c) : (tensor<4xi32>) -> ()
  %y = "llmc.rotary"(%x, %w, %w) {interleaved = 0 : i64} : (tensor<1x2x3x6xf32>, tensor<1x3x6xf32>, tensor<1x3x6xf32>) -> tensor<1x2x3x6xf32>
  return %y : tensor<1x2x3x6xf32>
}

func.func private @use(tensor<4xi32>)
