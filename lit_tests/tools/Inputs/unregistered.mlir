// Read by ../reproducer.mlir, which knows the lines.
func.func @f() {
  "flow.dispatch"() : () -> ()
  return
}
