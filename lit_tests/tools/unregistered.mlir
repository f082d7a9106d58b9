// RUN: llmc-opt %s --allow-unregistered-dialect --cse | filecheck %s
// RUN: not llmc-opt %s 2>&1 | filecheck %s --check-prefix=REFUSED
// CHECK:   "flow.dispatch"()
// REFUSED: unregistered.mlir:{{[0-9]+}}:18: error: {{.*}}unregistered dialect
func.func @f() {
  "flow.dispatch"() : () -> ()
  return
}
