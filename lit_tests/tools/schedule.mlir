// A schedule acts on the kernels of its kind; one that finds none says so.
// RUN: llmc-opt %s --schedule='matmul{rows=2,columns=8}' | filecheck %s
// CHECK: scf.for {{.*}} step %c2
// CHECK: vector.fma
// RUN: llmc-opt %s --schedule=matvec 2>&1 | filecheck %s --check-prefix=NOTHING
// NOTHING: {{^}}warning: schedule 'matvec' found no kernel: it acts on functions with llmc.kernel = "matvec", which a pass of the name --outline-... makes

// It runs where it stands among the passes: before or after them.
// RUN: llmc-opt %s --cse --schedule=matmul --canonicalize --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=ORDER
// ORDER:      cse,
// ORDER-NEXT: apply-schedule{schedule=matmul file=},
// ORDER-NEXT: canonicalize

// RUN: llmc-opt --schedule=matmul --dump-schedule | filecheck %s --check-prefix=SCRIPT
// RUN: llmc-opt --schedule=matmul --dump-schedule -o %t.script.mlir
// RUN: llmc-opt %t.script.mlir | filecheck %s --check-prefix=SCRIPT
// SCRIPT: transform.named_sequence @__transform_main
// SCRIPT: transform.structured.match {{.*}}llmc.kernel = "matmul"

// Of kernels that a pipeline schedules it prints what each got, which is a schedule again.
// RUN: llmc-opt %s --schedule-kernels='target=cpu:haswell' --dump-schedule > %t.scripts.mlir
// RUN: filecheck %s --check-prefix=CHOSEN < %t.scripts.mlir
// CHOSEN:      {{^}}// matmul{rows=4 columns=16}{{$}}
// CHOSEN-NEXT: {{^}}//   @kernel{{$}}
// CHOSEN-NEXT: {{^}}module attributes {transform.with_named_sequence}
// CHOSEN:        transform.structured.match {{.*}}llmc.kernel = "matmul"
// CHOSEN-NOT:    func.func
// RUN: llmc-opt %s --schedule-file=%t.scripts.mlir -o %t.by_script
// RUN: llmc-opt %s --schedule-kernels='target=cpu:haswell' -o %t.by_rule
// RUN: diff %t.by_script %t.by_rule

// RUN: llmc-opt --list-schedules | filecheck %s --check-prefix=LIST
// LIST: {{^}}matmul{{ +}}{rows=4 columns=16}

// RUN: not llmc-opt %s --schedule=matmull 2>&1 | filecheck %s --check-prefix=NAME
// NAME: {{^}}error: there is no schedule 'matmull'
// RUN: not llmc-opt %s --schedule= 2>&1 | filecheck %s --check-prefix=EMPTY
// RUN: not llmc-opt %s --schedule-file= 2>&1 | filecheck %s --check-prefix=EMPTY
// EMPTY: {{^}}error: argument --schedule{{.*}}: must not be empty
// RUN: not llmc-opt %s --schedule='matmul{row=2}' 2>&1 | filecheck %s --check-prefix=OPTION
// OPTION: {{^}}error: schedule 'matmul' has no option 'row'
// RUN: not llmc-opt %s --schedule-file=%t.py:mine 2>&1 | filecheck %s --check-prefix=FILE
// FILE: {{^}}error: cannot read {{.*}}.py: No such file or directory
// RUN: not llmc-opt %s --cse --dump-schedule 2>&1 | filecheck %s --check-prefix=NONE
// NONE: {{^}}error: --dump-schedule needs --schedule, --schedule-file or --schedule-kernels

func.func @kernel(%a: tensor<10x15xf32>, %b: tensor<15x16xf32>) -> tensor<10x16xf32>
    attributes {llmc.kernel = "matmul"} {
  %zero = arith.constant 0.0 : f32
  %room = tensor.empty() : tensor<10x16xf32>
  %sum = linalg.fill ins(%zero : f32) outs(%room : tensor<10x16xf32>) -> tensor<10x16xf32>
  %c = linalg.matmul ins(%a, %b : tensor<10x15xf32>, tensor<15x16xf32>) outs(%sum : tensor<10x16xf32>) -> tensor<10x16xf32>
  return %c : tensor<10x16xf32>
}
