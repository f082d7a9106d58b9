// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @sigmoid
// CHECK-NEXT:    "llmc.scored_route"(%arg0, %arg1) {best = 1 : i64, groups = 1 : i64, kept_groups = 1 : i64, normalised = 1 : i64, operandSegmentSizes = array<i32: 1, 1>, scale = 2.500000e+00 : f64, sigmoid = 1 : i64}
//
// The bias counts where experts are chosen, not in their weights.
// LOWER-LABEL: func.func @sigmoid
// LOWER:         %[[SCORES:.+]] = linalg.generic {{.+}} ins(%arg0 : tensor<?x32xf32>)
// LOWER:           math.exp
// LOWER:         %[[SUMS:.+]] = linalg.generic {{.+}} ins(%[[SCORES]], %arg1 : tensor<?x32xf32>, tensor<32xf32>)
// LOWER:         linalg.generic {{.+}} ins(%[[SUMS]], %[[SUMS]] :
// LOWER:         %[[EXPERTS:.+]] = linalg.generic {{.+}} ins(%{{.+}} : tensor<?x32xi64>) outs(%{{.+}} : tensor<?x8xi64>)
// LOWER:         %[[CHOSEN:.+]] = linalg.generic {{.+}} ins(%[[EXPERTS]] : tensor<?x8xi64>)
// LOWER:           tensor.extract %[[SCORES]]
// LOWER:         %[[SCALED:.+]] = linalg.generic {{.+}} ins(%[[CHOSEN]] : tensor<?x8xf32>)
// LOWER:         %[[TOTAL:.+]] = linalg.generic {{.+}} ins(%[[CHOSEN]] : tensor<?x8xf32>) outs(%{{.+}} : tensor<?xf32>)
// LOWER:         linalg.generic {{.+}} ins(%[[SCALED]], %[[TOTAL]] :
// LOWER:           arith.divf
func.func @sigmoid(%x: tensor<?x32xf32>, %b: tensor<32xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>) {
  %w, %e = "llmc.scored_route"(%x, %b) {best = 1 : i64, groups = 1 : i64, kept_groups = 1 : i64, normalised = 1 : i64, operandSegmentSizes = array<i32: 1, 1>, scale = 2.5 : f64, sigmoid = 1 : i64}
         : (tensor<?x32xf32>, tensor<32xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>)
  return %w, %e : tensor<?x8xf32>, tensor<?x8xi64>
}

// -----

// Groups count whose rank is among the first: that of their two largest sums. Without a bias these
// are the scores.
// LOWER-LABEL: func.func @groups
// LOWER:         %[[GROUPED:.+]] = tensor.expand_shape %{{.+}} : tensor<?x32xf32> into tensor<?x4x8xf32>
// LOWER:         %[[BEST:.+]] = linalg.generic {{.+}} outs(%{{.+}} : tensor<?x2xf32>)
// LOWER:         linalg.generic {{.+}} ins(%[[BEST]] : tensor<?x2xf32>)
// LOWER:         %[[RANKS:.+]] = linalg.generic {{.+}} outs(%{{.+}} : tensor<?x4xi64>)
// LOWER:         %[[LIMITED:.+]] = linalg.generic {{.+}} ins(%[[GROUPED]], %[[RANKS]] :
// LOWER:           arith.cmpi ult, %{{.+}}, %c3_i64
// LOWER:           arith.select
// LOWER:         tensor.collapse_shape %[[LIMITED]]
func.func @groups(%x: tensor<?x32xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>) {
  %w, %e = "llmc.scored_route"(%x) {best = 2 : i64, groups = 4 : i64, kept_groups = 3 : i64, normalised = 0 : i64, operandSegmentSizes = array<i32: 1, 0>, scale = 2.5 : f64, sigmoid = 1 : i64}
         : (tensor<?x32xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>)
  return %w, %e : tensor<?x8xf32>, tensor<?x8xi64>
}

// -----

func.func @bias(%x: tensor<3x4xf32>, %b: tensor<5xf32>) {
  // CHECK: error: 'llmc.scored_route' op operand 'bias' must have its length = 4, but has 5
  %w, %e = "llmc.scored_route"(%x, %b) {best = 1 : i64, groups = 1 : i64, kept_groups = 1 : i64, normalised = 1 : i64, operandSegmentSizes = array<i32: 1, 1>, scale = 1.0 : f64, sigmoid = 1 : i64}
         : (tensor<3x4xf32>, tensor<5xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>)
  return
}

// -----

func.func @many(%x: tensor<3x4xf32>, %b: tensor<4xf32>) {
  // CHECK: error: 'llmc.scored_route' op result 'weights' must have dimension 1 of at most 4, but has 5
  %w, %e = "llmc.scored_route"(%x, %b) {best = 1 : i64, groups = 1 : i64, kept_groups = 1 : i64, normalised = 1 : i64, operandSegmentSizes = array<i32: 1, 1>, scale = 1.0 : f64, sigmoid = 1 : i64}
         : (tensor<3x4xf32>, tensor<4xf32>) -> (tensor<3x5xf32>, tensor<3x5xi64>)
  return
}

// -----

func.func @flag(%x: tensor<3x4xf32>, %b: tensor<4xf32>) {
  // CHECK: error: 'llmc.scored_route' op attribute 'sigmoid' must be 0 or 1, but is 2
  %w, %e = "llmc.scored_route"(%x, %b) {best = 1 : i64, groups = 1 : i64, kept_groups = 1 : i64, normalised = 1 : i64, operandSegmentSizes = array<i32: 1, 1>, scale = 1.0 : f64, sigmoid = 2 : i64}
         : (tensor<3x4xf32>, tensor<4xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>)
  return
}

// -----

func.func @uneven(%x: tensor<3x12xf32>) {
  // CHECK: error: 'llmc.scored_route' op attribute 'groups' must divide 12, but is 5
  %w, %e = "llmc.scored_route"(%x) {best = 1 : i64, groups = 5 : i64, kept_groups = 1 : i64, normalised = 1 : i64, operandSegmentSizes = array<i32: 1, 0>, scale = 1.0 : f64, sigmoid = 0 : i64}
         : (tensor<3x12xf32>) -> (tensor<3x4xf32>, tensor<3x4xi64>)
  return
}

// -----

func.func @kept(%x: tensor<3x12xf32>) {
  // CHECK: error: 'llmc.scored_route' op attribute 'kept_groups' must be at most 3, but is 4
  %w, %e = "llmc.scored_route"(%x) {best = 1 : i64, groups = 3 : i64, kept_groups = 4 : i64, normalised = 1 : i64, operandSegmentSizes = array<i32: 1, 0>, scale = 1.0 : f64, sigmoid = 0 : i64}
         : (tensor<3x12xf32>) -> (tensor<3x4xf32>, tensor<3x4xi64>)
  return
}

// -----

func.func @best(%x: tensor<3x12xf32>) {
  // CHECK: error: 'llmc.scored_route' op attribute 'best' must be at most 4, but is 5
  %w, %e = "llmc.scored_route"(%x) {best = 5 : i64, groups = 3 : i64, kept_groups = 2 : i64, normalised = 1 : i64, operandSegmentSizes = array<i32: 1, 0>, scale = 1.0 : f64, sigmoid = 0 : i64}
         : (tensor<3x12xf32>) -> (tensor<3x4xf32>, tensor<3x4xi64>)
  return
}

// -----

func.func @few(%x: tensor<3x12xf32>) {
  // CHECK: error: 'llmc.scored_route' op attribute 'kept_groups' must have 4 experts, but has 3
  %w, %e = "llmc.scored_route"(%x) {best = 1 : i64, groups = 4 : i64, kept_groups = 1 : i64, normalised = 1 : i64, operandSegmentSizes = array<i32: 1, 0>, scale = 1.0 : f64, sigmoid = 0 : i64}
         : (tensor<3x12xf32>) -> (tensor<3x4xf32>, tensor<3x4xi64>)
  return
}
