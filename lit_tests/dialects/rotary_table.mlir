// RUN: llmc-opt %s --split-input-file --verify-diagnostics | filecheck %s
// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(lower-llmc,func.func(canonicalize,cse))' | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @cos
// CHECK-NEXT:    "llmc.rotary_table"(%arg0) {function = "cos", positions = 9 : i64, scale = 1.500000e+00 : f64} : (tensor<4xf32>) -> tensor<9x4xf32>
// LOWER-LABEL: func.func @cos
// LOWER:         linalg.generic {{.+}} ins(%arg0 : tensor<4xf32>) outs(%{{.+}} : tensor<9x4xf32>)
// LOWER:           linalg.index 0
// LOWER:           arith.sitofp
// LOWER:           arith.mulf
// LOWER:           math.cos
// LOWER:           arith.mulf %{{.+}}, %cst
func.func @cos(%f: tensor<4xf32>) -> tensor<9x4xf32> {
  %t = "llmc.rotary_table"(%f) {positions = 9 : i64, function = "cos", scale = 1.5} : (tensor<4xf32>) -> tensor<9x4xf32>
  return %t : tensor<9x4xf32>
}

// CHECK-LABEL: func.func @sin
// CHECK:         function = "sin"
// LOWER-LABEL: func.func @sin
// LOWER:         math.sin
func.func @sin(%f: tensor<4xf32>) -> tensor<9x4xf32> {
  %t = "llmc.rotary_table"(%f) {positions = 9 : i64, function = "sin", scale = 1.0} : (tensor<4xf32>) -> tensor<9x4xf32>
  return %t : tensor<9x4xf32>
}

// -----

func.func @function(%f: tensor<4xf32>) {
  // expected-error@+1 {{'llmc.rotary_table' op attribute 'function' must be cos or sin, but is 'tan'}}
  %t = "llmc.rotary_table"(%f) {positions = 9 : i64, function = "tan", scale = 1.0} : (tensor<4xf32>) -> tensor<9x4xf32>
  return
}

// -----

func.func @positions(%f: tensor<4xf32>) {
  // expected-error@+1 {{'llmc.rotary_table' op attribute 'positions' must be from 1 to 2147483647, but is 0}}
  %t = "llmc.rotary_table"(%f) {positions = 0 : i64, function = "cos", scale = 1.0} : (tensor<4xf32>) -> tensor<0x4xf32>
  return
}

// -----

func.func @rows(%f: tensor<4xf32>) {
  // expected-error@+1 {{'llmc.rotary_table' op result must have dimension 0 = 9, but has 8}}
  %t = "llmc.rotary_table"(%f) {positions = 9 : i64, function = "cos", scale = 1.0} : (tensor<4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @frequencies(%f: tensor<?xf32>) {
  // expected-error@+1 {{'llmc.rotary_table' op operand 'frequencies' must be static in dimension 0, but is tensor<?xf32>}}
  %t = "llmc.rotary_table"(%f) {positions = 9 : i64, function = "cos", scale = 1.0} : (tensor<?xf32>) -> tensor<9x4xf32>
  return
}

// -----

func.func @element(%f: tensor<4xf32>) {
  // expected-error@+1 {{'llmc.rotary_table' op result must hold f32, but is tensor<9x4xf16>}}
  %t = "llmc.rotary_table"(%f) {positions = 9 : i64, function = "cos", scale = 1.0} : (tensor<4xf32>) -> tensor<9x4xf16>
  return
}
