// RUN: llmc-opt %s --mlir-print-op-generic | filecheck %s --check-prefix=GENERIC
// GENERIC: "builtin.module"() ({
// GENERIC: "func.func"()
// GENERIC: "arith.constant"()

// RUN: llmc-opt %s --mlir-print-debuginfo | filecheck %s --check-prefix=DEBUG
// DEBUG: arith.constant {{.*}} loc(
// DEBUG: loc("{{.*}}printing.mlir":{{[0-9]+}}:{{[0-9]+}})
// RUN: llmc-opt %s --mlir-print-debuginfo --mlir-print-local-scope | filecheck %s --check-prefix=LOCAL
// LOCAL: arith.constant {{.*}} loc("{{.*}}printing.mlir":{{[0-9]+}}:{{[0-9]+}})
// RUN: llmc-opt %s --mlir-pretty-debuginfo | filecheck %s --check-prefix=PRETTY
// PRETTY: arith.constant {{.*}} {{.*}}printing.mlir:{{[0-9]+}}:{{[0-9]+}}

// RUN: llmc-opt %s --mlir-elide-elementsattrs-if-larger=3 | filecheck %s --check-prefix=ELIDED
// ELIDED: dense_resource<__elided__> : tensor<4xi32>
// RUN: llmc-opt %s --mlir-elide-elementsattrs-if-larger=4 | filecheck %s --check-prefix=WHOLE
// WHOLE: dense<[1, 2, 3, 4]> : tensor<4xi32>
// RUN: not llmc-opt %s --mlir-elide-elementsattrs-if-larger=few 2>&1 | filecheck %s --check-prefix=COUNT
// COUNT: {{^}}error: argument --mlir-elide-elementsattrs-if-larger: must be a whole number, not 'few'

func.func @f() -> tensor<4xi32> {
  %c = arith.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  return %c : tensor<4xi32>
}
