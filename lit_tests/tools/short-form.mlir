// Passes as options run in the order given, with one dash or two; named pipelines too.
// RUN: llmc-opt %s --lower-llmc --canonicalize -cse | filecheck %s
// CHECK:     linalg.generic
// CHECK-NOT: llmc.
// RUN: llmc-opt --pack-weights='columns=8 rows=4' %s --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=OPTIONS
// OPTIONS: pack-weights{columns=8 rows=4}

// Options of the command as well, and their values behind a space or an equals sign.
// RUN: llmc-opt -pass-pipeline 'builtin.module(lower-llmc)' -o=%t.equals %s && filecheck %s < %t.equals
// RUN: llmc-opt --lower-llmc --o=%t.dashes -verify-each=0 %s && filecheck %s < %t.dashes

// One of MLIR's that runs on functions alone is nested by itself.
// RUN: llmc-opt %s --convert-torch-to-linalg --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=FUNCTION
// FUNCTION:      func.func(
// FUNCTION-NEXT: convert-torch-to-linalg

// RUN: llmc-opt %s --llmc-linalg='target=cpu' --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=NAMED
// NAMED: attend-in-place
// NAMED: lower-llmc{keep-kernels=true

// RUN: not llmc-opt %s --lower-lmc 2>&1 | filecheck %s --check-prefix=UNKNOWN
// UNKNOWN: {{^}}error: in 'lower-lmc': 'lower-lmc' does not refer to a registered pass or pass pipeline
// RUN: not llmc-opt %s --llmc-linalg=targets=cpu 2>&1 | filecheck %s --check-prefix=OPTION
// OPTION: {{^}}error: pipeline 'llmc-linalg' has no option 'targets': its options are target
// RUN: not llmc-opt %s --llmc-linalg=target=tpu 2>&1 | filecheck %s --check-prefix=TARGET
// TARGET: {{^}}error: there is no target 'tpu'
// RUN: not llmc-opt %s --cse --pass-pipeline='builtin.module(cse)' 2>&1 | filecheck %s --check-prefix=BOTH
// BOTH: {{^}}error: give --pass-pipeline or passes such as --cse, not both
// RUN: not llmc-opt %s --emit-bytecode=maybe 2>&1 | filecheck %s --check-prefix=SWITCH
// SWITCH: {{^}}error: argument --emit-bytecode: takes true or false, not 'maybe'

func.func @f(%x: tensor<1x2x3x6xf32>, %w: tensor<1x3x6xf32>) -> tensor<1x2x3x6xf32> {
  %y = "llmc.rotary"(%x, %w, %w) {interleaved = 0 : i64} : (tensor<1x2x3x6xf32>, tensor<1x3x6xf32>, tensor<1x3x6xf32>) -> tensor<1x2x3x6xf32>
  return %y : tensor<1x2x3x6xf32>
}
