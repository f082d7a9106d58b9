// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @activations
// CHECK-NEXT:    "llmc.quantize_rows"(%arg0) {group = 32 : i64} : (tensor<1x?x64xf32>) -> (tensor<1x?x64xi8>, tensor<1x?x2xf32>)
//
// LOWER-LABEL: func.func @activations
// LOWER:         %[[ROWS:.+]] = tensor.expand_shape %arg0 {{.+}} into tensor<1x?x2x32xf32>
// LOWER:         linalg.generic {{.+}} ins(%[[ROWS]] :
// LOWER:           math.absf
// LOWER-NEXT:      arith.maximumf
// LOWER:         %[[SCALES:.+]] = linalg.generic
// LOWER:           arith.divf
// LOWER:         %[[VALUES:.+]] = linalg.generic {{.+}} ins(%[[ROWS]], %[[SCALES]] :
// LOWER:           math.round
// LOWER-NEXT:      arith.fptosi
// LOWER:         tensor.collapse_shape %[[VALUES]] {{.+}} into tensor<1x?x64xi8>
func.func @activations(%x: tensor<1x?x64xf32>) -> (tensor<1x?x64xi8>, tensor<1x?x2xf32>) {
  %values, %scales = "llmc.quantize_rows"(%x) {group = 32 : i64}
     : (tensor<1x?x64xf32>) -> (tensor<1x?x64xi8>, tensor<1x?x2xf32>)
  return %values, %scales : tensor<1x?x64xi8>, tensor<1x?x2xf32>
}

// -----

func.func @part(%x: tensor<3x60xf32>) {
  // CHECK: error: 'llmc.quantize_rows' op operand 'x' must have its last dimension = a multiple of 32, but has 60
  %v, %s = "llmc.quantize_rows"(%x) {group = 32 : i64} : (tensor<3x60xf32>) -> (tensor<3x60xi8>, tensor<3x2xf32>)
  return
}

// -----

func.func @values(%x: tensor<3x64xf32>) {
  // CHECK: error: 'llmc.quantize_rows' op result 'values' must have dimension 0 = 3, but has 4
  %v, %s = "llmc.quantize_rows"(%x) {group = 32 : i64} : (tensor<3x64xf32>) -> (tensor<4x64xi8>, tensor<3x2xf32>)
  return
}

// -----

func.func @scales(%x: tensor<3x64xf32>) {
  // CHECK: error: 'llmc.quantize_rows' op result 'scales' must have dimension 1 = 2, but has 64
  %v, %s = "llmc.quantize_rows"(%x) {group = 32 : i64} : (tensor<3x64xf32>) -> (tensor<3x64xi8>, tensor<3x64xf32>)
  return
}

// -----

func.func @element(%x: tensor<3x64xf32>) {
  // CHECK: error: 'llmc.quantize_rows' op result 'values' must hold i8, but is tensor<3x64xi16>
  %v, %s = "llmc.quantize_rows"(%x) {group = 32 : i64} : (tensor<3x64xf32>) -> (tensor<3x64xi16>, tensor<3x2xf32>)
  return
}
