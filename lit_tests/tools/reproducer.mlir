// When a pass fails, the IR before it and the pass are kept in a file that shows it again.
// RUN: rm -f %t.mlir && not llmc-opt %s --cse --thread-kv-cache --canonicalize --reproducer=%t.mlir 2>&1 | filecheck %s --check-prefix=FIRST
// FIRST: reproducer.mlir:{{[0-9]+}}:1: error: layer function has no 'llmc.layer_argument'
// FIRST: note: to see it again: llmc-opt {{.*}} --run-reproducer
// RUN: filecheck %s --check-prefix=FILE < %t.mlir && not llmc-opt %t.mlir --run-reproducer 2>&1 | filecheck %s --check-prefix=AGAIN
// FILE:  pipeline: "builtin.module(thread-kv-cache{element=f32})"
// AGAIN: reproducer.mlir:{{[0-9]+}}:1: error: layer function has no 'llmc.layer_argument'

// It says all that it needs: here to take operations that are not known, and what is no module.
// RUN: rm -f %t.func && not llmc-opt %S/Inputs/unregistered.mlir --allow-unregistered-dialect --no-implicit-module --pass-pipeline='func.func(cse,convert-torch-to-linalg,inline)' --reproducer=%t.func 2>&1 | filecheck %s --check-prefix=NEEDS
// NEEDS: note: to see it again: llmc-opt {{.*}}.func --run-reproducer --allow-unregistered-dialect --no-implicit-module
// RUN: not llmc-opt %t.func --run-reproducer --allow-unregistered-dialect --no-implicit-module 2>&1 | filecheck %s --check-prefix=INLINER
// INLINER: unregistered.mlir:2:1: error: 'func.func' op {{.*}}inliner

// A pass that a file of the user's makes fail leaves one too.
// RUN: rm -f %t.user && not llmc-opt %s --cse --schedule-file=%S/Inputs/failing.py:schedule --reproducer=%t.user 2>&1 | filecheck %s --check-prefix=USER
// USER:      error: {{.*}}failing.py:8: KeyError: 'a key'
// USER-NEXT: note: to see it again: llmc-opt {{.*}}.user --run-reproducer
// RUN: not llmc-opt %t.user --run-reproducer 2>&1 | filecheck %s --check-prefix=USER-AGAIN
// USER-AGAIN: error: {{.*}}failing.py:8: KeyError: 'a key'

// Without a failure there is none.
// RUN: llmc-opt %s --cse --reproducer=%t.none -o %t && not cat %t.none

func.func private @prefill.layer0(%x: tensor<1x?x6xf32>) -> tensor<1x?x6xf32> {
  return %x : tensor<1x?x6xf32>
}
