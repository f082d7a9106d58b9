// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @sum_of_products
// CHECK:         "llmc.linear"(%arg0, %arg1) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64} : (tensor<2x?x6xf32>, tensor<5x6xf32>) -> tensor<2x?x5xf32>
//
// All rows are taken together, and contracted with the rows of the weight.
// LOWER-DAG:   #[[X:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// LOWER-DAG:   #[[ROWS:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// LOWER-DAG:   #[[COLUMNS:.+]] = affine_map<(d0, d1, d2) -> (d2, d1)>
// LOWER-DAG:   #[[Y:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// LOWER-LABEL: func.func @sum_of_products
// LOWER:         %[[MERGED:.+]] = tensor.collapse_shape %arg0 {{\[}}[0, 1], [2]]
// LOWER:         linalg.fill
// LOWER:         %[[PRODUCT:.+]] = linalg.generic {indexing_maps = [#[[X]], #[[ROWS]], #[[Y]]], iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[MERGED]], %arg1
// LOWER:           arith.mulf
// LOWER-NEXT:      arith.addf
// LOWER:         tensor.expand_shape %[[PRODUCT]] {{\[}}[0, 1], [2]]
// LOWER-NOT:     llmc.
func.func @sum_of_products(%x: tensor<2x?x6xf32>, %w: tensor<5x6xf32>) -> tensor<2x?x5xf32> {
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<2x?x6xf32>, tensor<5x6xf32>) -> tensor<2x?x5xf32>
  return %y : tensor<2x?x5xf32>
}

// A narrow weight is widened as it is read; a stored transpose is read by columns; the bias is added.
// CHECK-LABEL: func.func @all_options
// CHECK:         "llmc.linear"(%arg0, %arg1, %arg2)
// LOWER-LABEL: func.func @all_options
// LOWER-NOT:     tensor.collapse_shape
// LOWER:         linalg.generic {indexing_maps = [#[[X]], #[[COLUMNS]], #[[Y]]]
// LOWER:           arith.extf %{{.+}} : f16 to f32
// LOWER:         linalg.generic {{.+}} ins(%{{.+}}, %arg2 : tensor<3x5xf32>, tensor<5xf32>)
// LOWER:           arith.addf
func.func @all_options(%x: tensor<3x6xf32>, %w: tensor<6x5xf16>, %b: tensor<5xf32>) -> tensor<3x5xf32> {
  %y = "llmc.linear"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, transposed = 1 : i64}
     : (tensor<3x6xf32>, tensor<6x5xf16>, tensor<5xf32>) -> tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// -----

func.func @width(%x: tensor<3x6xf32>, %w: tensor<5x7xf32>) {
  // CHECK: error: 'llmc.linear' op operand 'x' must have its last dimension = 7, but has 6
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<3x6xf32>, tensor<5x7xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @bias(%x: tensor<3x6xf32>, %w: tensor<5x6xf32>, %b: tensor<6xf32>) {
  // CHECK: error: 'llmc.linear' op operand 'bias' must have its length = 5, but has 6
  %y = "llmc.linear"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, transposed = 0 : i64}
     : (tensor<3x6xf32>, tensor<5x6xf32>, tensor<6xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @result(%x: tensor<2x3x6xf32>, %w: tensor<5x6xf32>) {
  // CHECK: error: 'llmc.linear' op result must have dimension 1 = 3, but has 4
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<2x3x6xf32>, tensor<5x6xf32>) -> tensor<2x4x5xf32>
  return
}

// -----

func.func @open_weight(%x: tensor<3x6xf32>, %w: tensor<?x6xf32>) {
  // CHECK: error: 'llmc.linear' op operand 'weight' must be static in dimension 0, but is tensor<?x6xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<3x6xf32>, tensor<?x6xf32>) -> tensor<3x?xf32>
  return
}

// -----

func.func @wide_weight(%x: tensor<3x6xf32>, %w: tensor<5x6xf64>) {
  // CHECK: error: 'llmc.linear' op operand 'weight' must hold f32 or narrower, but is tensor<5x6xf64>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<3x6xf32>, tensor<5x6xf64>) -> tensor<3x5xf32>
  return
}

// -----

func.func @integers(%x: tensor<3x6xi64>, %w: tensor<5x6xf32>) {
  // CHECK: error: 'llmc.linear' op operand 'x' must hold floats
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<3x6xi64>, tensor<5x6xf32>) -> tensor<3x5xi64>
  return
}

// -----

func.func @no_segments(%x: tensor<3x6xf32>, %w: tensor<5x6xf32>) {
  // CHECK: error: 'llmc.linear' op attribute 'operandSegmentSizes' must be an array of i32, 0 or 1 for each of 'x', 'weight', 'bias', but is missing
  %y = "llmc.linear"(%x, %w) {transposed = 0 : i64}
     : (tensor<3x6xf32>, tensor<5x6xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @region(%x: tensor<3x6xf32>, %w: tensor<5x6xf32>) {
  // CHECK: error: 'llmc.linear' op must have no regions, but has 1
  %y = "llmc.linear"(%x, %w) ({}) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<3x6xf32>, tensor<5x6xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @unsigned(%x: tensor<3x6xf32>, %w: tensor<5x6xf32>) {
  // CHECK: error: 'llmc.linear' op attribute 'transposed' must be a number of type i64, but is 1 : ui64
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 1 : ui64}
     : (tensor<3x6xf32>, tensor<5x6xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @no_transposed(%x: tensor<3x6xf32>, %w: tensor<5x6xf32>) {
  // CHECK: error: 'llmc.linear' op attribute 'transposed' must be a number of type i64, but is missing
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>}
     : (tensor<3x6xf32>, tensor<5x6xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @transposed_twice(%x: tensor<3x6xf32>, %w: tensor<5x6xf32>) {
  // CHECK: error: 'llmc.linear' op attribute 'transposed' must be 0 or 1, but is 2
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 2 : i64}
     : (tensor<3x6xf32>, tensor<5x6xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @rank(%x: tensor<6xf32>, %w: tensor<5x6xf32>) {
  // CHECK: error: 'llmc.linear' op operand 'x' must have rank 2 or more, but is tensor<6xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<6xf32>, tensor<5x6xf32>) -> tensor<5xf32>
  return
}
