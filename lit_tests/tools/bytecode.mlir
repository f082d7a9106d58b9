// RUN: llmc-opt %s --emit-bytecode -o %t.mlirbc && llmc-opt %t.mlirbc | filecheck %s
// RUN: llmc-opt %s --emit-bytecode | llmc-opt - --lower-llmc | filecheck %s --check-prefix=LOWERED
// CHECK: "llmc.rotary"
// LOWERED: linalg.generic

// Without a module around it what is read is what was written, be it a module or not.
// RUN: llmc-opt %s --emit-bytecode --no-implicit-module | llmc-opt - --no-implicit-module --pass-pipeline='func.func(cse)' | filecheck %s --check-prefix=FUNCTION
// RUN: llmc-opt %t.mlirbc --no-implicit-module --cse | filecheck %s --check-prefix=MODULE
// FUNCTION: {{^}}func.func @f
// MODULE:   {{^}}module {

// What is broken is an error, not a crash.
// RUN: head -c 60 %t.mlirbc > %t.short && not llmc-opt %t.short 2>&1 | filecheck %s --check-prefix=SHORT
// SHORT: error:

func.func @f(%x: tensor<1x2x3x6xf32>, %w: tensor<1x3x6xf32>) -> tensor<1x2x3x6xf32> {
  %y = "llmc.rotary"(%x, %w, %w) {interleaved = 0 : i64} : (tensor<1x2x3x6xf32>, tensor<1x3x6xf32>, tensor<1x3x6xf32>) -> tensor<1x2x3x6xf32>
  return %y : tensor<1x2x3x6xf32>
}
