// When a pass fails, the IR before it and the pass are kept in a file that shows it again.
// RUN: rm -f %t.mlir && not llmc-opt %s --cse --thread-kv-cache --canonicalize --reproducer=%t.mlir 2>&1 | filecheck %s --check-prefix=FIRST
// FIRST: reproducer.mlir:{{[0-9]+}}:1: error: layer function has no 'llmc.layer_argument'
// FIRST: note: to see it again: llmc-opt {{.*}} --run-reproducer
// RUN: filecheck %s --check-prefix=FILE < %t.mlir && not llmc-opt %t.mlir --run-reproducer 2>&1 | filecheck %s --check-prefix=AGAIN
// FILE:  pipeline: "builtin.module(thread-kv-cache)"
// AGAIN: reproducer.mlir:{{[0-9]+}}:1: error: layer function has no 'llmc.layer_argument'

// Without a failure there is none.
// RUN: llmc-opt %s --cse --reproducer=%t.none -o %t && not cat %t.none

func.func private @prefill.layer0(%x: tensor<1x?x6xf32>) -> tensor<1x?x6xf32> {
  return %x : tensor<1x?x6xf32>
}
