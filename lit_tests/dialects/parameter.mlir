// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s

// CHECK-LABEL: func.func @one
// CHECK-NEXT:    "llmc.parameter"() {sources = ["model.norm.weight"]} : () -> tensor<6xf32>
func.func @one() -> tensor<6xf32> {
  %w = "llmc.parameter"() {sources = ["model.norm.weight"]} : () -> tensor<6xf32>
  return %w : tensor<6xf32>
}

// -----

func.func @unnamed() {
  // CHECK: error: 'llmc.parameter' op attribute 'sources' must name a parameter
  %w = "llmc.parameter"() {sources = []} : () -> tensor<6xf32>
  return
}

// -----

func.func @numbered() {
  // CHECK: error: 'llmc.parameter' op attribute 'sources' must hold names, but has 0 : i64
  %w = "llmc.parameter"() {sources = [0]} : () -> tensor<6xf32>
  return
}

// -----

func.func @missing() {
  // CHECK: error: 'llmc.parameter' op attribute 'sources' must be an array, but is missing
  %w = "llmc.parameter"() : () -> tensor<6xf32>
  return
}

// -----

func.func @open() {
  // CHECK: error: 'llmc.parameter' op result must be static in dimension 0, but is tensor<?xf32>
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<?xf32>
  return
}

// -----

func.func @no_tensor() {
  // CHECK: error: 'llmc.parameter' op result must be a ranked tensor, but is f32
  %w = "llmc.parameter"() {sources = ["w"]} : () -> f32
  return
}

// -----

func.func @formats() {
  // CHECK: error: 'llmc.parameter' op attribute 'llmc.stored' must name one of q4_0, q4_1, q5_0, q5_1, q6_g16, q8_0, int4_g64, int4_g128 for each of 2, but is ["q4_1"]
  %w = "llmc.parameter"() {sources = ["a", "b"], llmc.stored = ["q4_1"]} : () -> tensor<6x32xf32>
  return
}

// -----

func.func @no_format() {
  // CHECK: error: 'llmc.parameter' op attribute 'llmc.stored' must name one of {{.+}}, but is ["q9_9"]
  %w = "llmc.parameter"() {sources = ["a"], llmc.stored = ["q9_9"]} : () -> tensor<6x32xf32>
  return
}
