// RUN: llmc-opt %s --no-implicit-module --pass-pipeline='func.func(canonicalize)' | filecheck %s
// CHECK-NOT: module
// CHECK:     {{^}}func.func @f
// CHECK-NOT: addi
// RUN: llmc-opt %s | filecheck %s --check-prefix=MODULE
// MODULE: {{^}}module {
// RUN: not llmc-opt %s --no-implicit-module --cse 2>&1 | filecheck %s --check-prefix=ANCHOR
// ANCHOR: implicit-module.mlir:{{.*}}error: can't run 'builtin.module' pass manager on 'func.func' op
// RUN: not llmc-opt %s --no-implicit-module --drop-assertions 2>&1 | filecheck %s --check-prefix=OURS
// OURS: error: can't run 'builtin.module' pass manager on 'func.func' op
func.func @f(%x: i32) -> i32 {
  %unused = arith.addi %x, %x : i32
  return %x : i32
}
