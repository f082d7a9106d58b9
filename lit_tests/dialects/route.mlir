// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @route
// CHECK-NEXT:    "llmc.route"(%arg0) {normalised = 1 : i64} : (tensor<?x32xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>)
//
// Normalised, the sum is that of the largest.
// LOWER-LABEL: func.func @route
// LOWER:         %[[POWERS:.+]] = linalg.generic {{.+}} ins(%arg0, %{{.+}} : tensor<?x32xf32>, tensor<?xf32>)
// LOWER:           math.exp
// LOWER:         %[[LARGEST:.+]] = linalg.generic {{.+}} ins(%[[POWERS]], %{{.+}} : tensor<?x32xf32>, tensor<?x32xi64>)
// LOWER:         %[[SUM:.+]] = linalg.generic {{.+}} ins(%[[LARGEST]] : tensor<?x8xf32>) outs(%{{.+}} : tensor<?xf32>)
// LOWER:         linalg.generic {{.+}} ins(%[[LARGEST]], %[[SUM]] :
// LOWER:           arith.divf
func.func @route(%x: tensor<?x32xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>) {
  %w, %e = "llmc.route"(%x) {normalised = 1 : i64} : (tensor<?x32xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>)
  return %w, %e : tensor<?x8xf32>, tensor<?x8xi64>
}

// -----

func.func @many(%x: tensor<3x4xf32>) {
  // CHECK: error: 'llmc.route' op result 'weights' must have dimension 1 of at most 4, but has 5
  %w, %e = "llmc.route"(%x) {normalised = 1 : i64} : (tensor<3x4xf32>) -> (tensor<3x5xf32>, tensor<3x5xi64>)
  return
}

// -----

func.func @counts(%x: tensor<3x4xf32>) {
  // CHECK: error: 'llmc.route' op result 'experts' must have dimension 1 = 2, but has 3
  %w, %e = "llmc.route"(%x) {normalised = 1 : i64} : (tensor<3x4xf32>) -> (tensor<3x2xf32>, tensor<3x3xi64>)
  return
}

// -----

func.func @element(%x: tensor<3x4xf32>) {
  // CHECK: error: 'llmc.route' op result 'experts' must hold i64, but is tensor<3x2xi32>
  %w, %e = "llmc.route"(%x) {normalised = 1 : i64} : (tensor<3x4xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)
  return
}

// -----

func.func @flag(%x: tensor<3x4xf32>) {
  // CHECK: error: 'llmc.route' op attribute 'normalised' must be 0 or 1, but is 2
  %w, %e = "llmc.route"(%x) {normalised = 2 : i64} : (tensor<3x4xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>)
  return
}
