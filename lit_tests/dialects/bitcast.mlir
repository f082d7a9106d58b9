// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s

// CHECK-LABEL: func.func @halves
// CHECK-NEXT:    "llmc.bitcast"(%arg0) : (tensor<3x2x34xi8>) -> tensor<3x2x17xf16>
func.func @halves(%x: tensor<3x2x34xi8>) -> tensor<3x2x17xf16> {
  %y = "llmc.bitcast"(%x) : (tensor<3x2x34xi8>) -> tensor<3x2x17xf16>
  return %y : tensor<3x2x17xf16>
}

// -----

func.func @bytes(%x: tensor<2x34xi8>) {
  // CHECK: error: 'llmc.bitcast' op result must have 272 bits in each row as 'x' has, but is tensor<2x16xf16>
  %y = "llmc.bitcast"(%x) : (tensor<2x34xi8>) -> tensor<2x16xf16>
  return
}

// -----

func.func @rows(%x: tensor<2x34xi8>) {
  // CHECK: error: 'llmc.bitcast' op result must have dimension 0 = 2, but has 1
  %y = "llmc.bitcast"(%x) : (tensor<2x34xi8>) -> tensor<1x34xf16>
  return
}

// -----

func.func @scalar(%x: tensor<f32>) {
  // CHECK: error: 'llmc.bitcast' op operand 'x' must have rank 1 or more, but is tensor<f32>
  %y = "llmc.bitcast"(%x) : (tensor<f32>) -> tensor<2xf16>
  return
}

// -----

func.func @open(%x: tensor<?x34xi8>) {
  // CHECK: error: 'llmc.bitcast' op operand 'x' must be static in dimension 0, but is tensor<?x34xi8>
  %y = "llmc.bitcast"(%x) : (tensor<?x34xi8>) -> tensor<?x17xf16>
  return
}

// -----

func.func @blocks(%x: tensor<2x!llmc.q8_0>) {
  // CHECK: error: 'llmc.bitcast' op operand 'x' must hold integers or floats, but is tensor<2x!llmc.q8_0>
  %y = "llmc.bitcast"(%x) : (tensor<2x!llmc.q8_0>) -> tensor<34xf16>
  return
}
