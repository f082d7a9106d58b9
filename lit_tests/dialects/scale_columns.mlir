// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// The scale runs along the last dimension, the offset is added to it.
// CHECK-LABEL: func.func @experts
// CHECK:         "llmc.scale_columns"(%arg0, %arg1) {offset = 1.000000e+00 : f64}
// LOWER:       #[[ALL:.+]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// LOWER-NEXT:  #[[LAST:.+]] = affine_map<(d0, d1, d2) -> (d2)>
// LOWER-LABEL: func.func @experts
// LOWER:         linalg.generic {indexing_maps = [#[[ALL]], #[[LAST]], #[[ALL]]]{{.+}} ins(%arg0, %arg1 :
// LOWER:           %[[S:.+]] = arith.addf %{{.+}}, %cst
// LOWER-NEXT:      arith.mulf %{{.+}}, %[[S]]
func.func @experts(%w: tensor<3x8x6xf32>, %s: tensor<6xf32>) -> tensor<3x8x6xf32> {
  %y = "llmc.scale_columns"(%w, %s) {offset = 1.0} : (tensor<3x8x6xf32>, tensor<6xf32>) -> tensor<3x8x6xf32>
  return %y : tensor<3x8x6xf32>
}

// -----

func.func @length(%w: tensor<8x6xf32>, %s: tensor<5xf32>) {
  // CHECK: error: 'llmc.scale_columns' op operand 'scale' must have its length = 6, but has 5
  %y = "llmc.scale_columns"(%w, %s) {offset = 0.0} : (tensor<8x6xf32>, tensor<5xf32>) -> tensor<8x6xf32>
  return
}

// -----

func.func @element(%w: tensor<8x6xf32>, %s: tensor<6xf16>) {
  // CHECK: error: 'llmc.scale_columns' op operand 'scale' must hold f32, but is tensor<6xf16>
  %y = "llmc.scale_columns"(%w, %s) {offset = 0.0} : (tensor<8x6xf32>, tensor<6xf16>) -> tensor<8x6xf32>
  return
}

// -----

func.func @scalar(%w: tensor<f32>, %s: tensor<6xf32>) {
  // CHECK: error: 'llmc.scale_columns' op operand 'weight' must have rank 1 or more, but is tensor<f32>
  %y = "llmc.scale_columns"(%w, %s) {offset = 0.0} : (tensor<f32>, tensor<6xf32>) -> tensor<f32>
  return
}

// -----

func.func @result(%w: tensor<8x6xf32>, %s: tensor<6xf32>) {
  // CHECK: error: 'llmc.scale_columns' op result must be tensor<8x6xf32> as 'weight' is
  %y = "llmc.scale_columns"(%w, %s) {offset = 0.0} : (tensor<8x6xf32>, tensor<6xf32>) -> tensor<?x6xf32>
  return
}
