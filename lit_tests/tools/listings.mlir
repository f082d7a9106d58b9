// RUN: llmc-opt --list-passes | filecheck %s --check-prefix=PASSES
// PASSES: {{^}}lower-llmc{{ +}}builtin.module{{ +}}{{[{]}}{{.*}}keep-kernels=false{{.*}}{{ +}}Lowers
// PASSES: {{^}}pack-weights{{ +}}builtin.module{{ +}}{columns=16 rows=16}{{ +}}Turns

// RUN: llmc-opt --list-pipelines | filecheck %s --check-prefix=PIPELINES
// PIPELINES: {{^}}llmc-import{{ +}}{}{{ +}}From the torch dialect
// PIPELINES: {{^}}llmc-weights{{ +}}{{[{]}}{{.*}}target=cpu
// PIPELINES: {{^}}llmc-to-iree{{ +}}

// RUN: llmc-opt --show-dialects | filecheck %s --check-prefix=DIALECTS
// DIALECTS:      {{^}}Available Dialects: {{.*}}arith,
// DIALECTS-SAME: linalg,llmc,
// DIALECTS-SAME: torch,

// RUN: llmc-opt --help | filecheck %s --check-prefix=HELP
// HELP: usage: llmc-opt
// HELP: --pass-pipeline
