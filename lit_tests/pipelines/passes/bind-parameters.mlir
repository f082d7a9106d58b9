// RUN: not llmc-opt %s --split-input-file --pass-pipeline='builtin.module(bind-parameters)' 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline='builtin.module(bind-parameters{storage=f16})' 2>&1 | filecheck %s --check-prefix=F16
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(bind-parameters{storage=f8})' 2>&1 | filecheck %s --check-prefix=F8

// F8: error: pass 'bind-parameters': storage must be one of f32, f16, bf16, not 'f8'

// The weights of all layers of a kind are stacked, and a layer takes its slice.
// CHECK-DAG:   #[[NORM:.+]] = #ml_program.extern : tensor<2x6xf32>
// CHECK-DAG:   #[[PACKED:.+]] = #ml_program.extern : tensor<2x1x6x8xf32>
// CHECK-DAG:   ml_program.global private @layers.0.norm(#[[NORM]]) : tensor<2x6xf32> {llmc.sources = ["layers.0.norm", "layers.1.norm"]}
// CHECK-DAG:   ml_program.global private @layers.0.w(#[[PACKED]]) : tensor<2x1x6x8xf32> {llmc.layout = {columns = 8 : i64, transposed = 0 : i64}, llmc.sources = ["layers.0.w", "layers.1.w"]}
// CHECK-LABEL: func.func private @decode.layer0
// CHECK:         %[[NORMS:.+]] = ml_program.global_load @layers.0.norm
// CHECK-NEXT:    %[[N:.+]] = tensor.extract_slice %[[NORMS]][%arg1, 0] [1, 6] [1, 1] : tensor<2x6xf32> to tensor<6xf32>
// CHECK:         "llmc.rms_norm"(%arg0, %[[N]])
//
// Vectors keep float32; a linear layer widens its matrix itself.
// F16-DAG:     ml_program.global private @layers.0.norm({{.+}}) : tensor<2x6xf32>
// F16-DAG:     ml_program.global private @layers.0.w({{.+}}) : tensor<2x1x6x8xf16>
// F16-LABEL:   func.func private @decode.layer0
// F16:           tensor<1x6x8xf16>{{$}}
// F16-NOT:       arith.extf
// F16:           "llmc.packed_linear"({{.+}}) {{.+}} (tensor<1x1x6xf32>, tensor<1x6x8xf16>) ->
func.func private @decode.layer0(%x: tensor<1x1x6xf32>, %layer: index) -> tensor<1x1x6xf32>
    attributes {llmc.layer_argument = 1 : index} {
  %n = "llmc.parameter"() {sources = ["layers.0.norm", "layers.1.norm"]} : () -> tensor<6xf32>
  %w = "llmc.parameter"() {llmc.layout = {columns = 8 : i64, transposed = 0 : i64},
                           sources = ["layers.0.w", "layers.1.w"]} : () -> tensor<1x6x8xf32>
  %normed = "llmc.rms_norm"(%x, %n) {epsilon = 0.0, offset = 0.0}
          : (tensor<1x1x6xf32>, tensor<6xf32>) -> tensor<1x1x6xf32>
  %y = "llmc.packed_linear"(%normed, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 8 : i64}
     : (tensor<1x1x6xf32>, tensor<1x6x8xf32>) -> tensor<1x1x6xf32>
  return %y : tensor<1x1x6xf32>
}

// A trunk's are not stacked; variants share one global.
// CHECK-LABEL: func.func @decode
// CHECK-NOT:     tensor.extract_slice
// CHECK:         %[[W:.+]] = ml_program.global_load @embed : tensor<10x6xf32>
// CHECK-NOT:     llmc.parameter
// CHECK:         tensor.extract %[[W]][%arg0, %arg0]
// CHECK:         arith.addf %[[W]], %[[W]]
//
// A lookup widens one element, anything else the whole.
// F16-LABEL:   func.func @decode
// F16:           %[[W:.+]] = ml_program.global_load @embed : tensor<10x6xf16>
// F16:           %[[WIDE:.+]] = linalg.generic {{.+}} ins(%[[W]] : tensor<10x6xf16>)
// F16:             arith.extf
// F16:           %[[E:.+]] = tensor.extract %[[W]][%arg0, %arg0] : tensor<10x6xf16>
// F16-NEXT:      arith.extf %[[E]] : f16 to f32
// F16:           arith.addf %[[WIDE]], %[[WIDE]] : tensor<10x6xf32>
// Integers have no other storage.
// F16:           ml_program.global_load @ids : tensor<2x2xi64>
func.func @decode(%i: index) -> (f32, tensor<10x6xf32>, tensor<2x2xi64>) {
  %w = "llmc.parameter"() {sources = ["embed"]} : () -> tensor<10x6xf32>
  %e = tensor.extract %w[%i, %i] : tensor<10x6xf32>
  %twice = arith.addf %w, %w : tensor<10x6xf32>
  %ids = "llmc.parameter"() {sources = ["ids"]} : () -> tensor<2x2xi64>
  return %e, %twice, %ids : f32, tensor<10x6xf32>, tensor<2x2xi64>
}

// CHECK-LABEL: func.func @prefill
// CHECK:         ml_program.global_load @embed : tensor<10x6xf32>
func.func @prefill() -> tensor<10x6xf32> {
  %w = "llmc.parameter"() {sources = ["embed"]} : () -> tensor<10x6xf32>
  return %w : tensor<10x6xf32>
}

// -----

// CHECK:      error: layer function has no 'llmc.layer_argument': run number-layers first
// CHECK-NEXT: func.func private @decode.layer0(
func.func private @decode.layer0(%x: tensor<6xf32>) -> tensor<6xf32> {
  %n = "llmc.parameter"() {sources = ["layers.0.norm"]} : () -> tensor<6xf32>
  return %n : tensor<6xf32>
}

// -----

func.func @decode() -> tensor<6xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<6xf32>
  return %w : tensor<6xf32>
}
func.func @prefill() -> tensor<5xf32> {
  // CHECK:      error: 'w' is needed as tensor<5xf32>, and elsewhere as tensor<6xf32>
  // CHECK-NEXT: sources = ["w"]} : () -> tensor<5xf32>
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<5xf32>
  return %w : tensor<5xf32>
}
