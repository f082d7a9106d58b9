// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @sigmoid
// CHECK-NEXT:    "llmc.biased_route"(%arg0, %arg1) {normalised = 1 : i64, scale = 2.500000e+00 : f64, sigmoid = 1 : i64}
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
  %w, %e = "llmc.biased_route"(%x, %b) {normalised = 1 : i64, scale = 2.5 : f64, sigmoid = 1 : i64}
         : (tensor<?x32xf32>, tensor<32xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>)
  return %w, %e : tensor<?x8xf32>, tensor<?x8xi64>
}

// -----

func.func @bias(%x: tensor<3x4xf32>, %b: tensor<5xf32>) {
  // CHECK: error: 'llmc.biased_route' op operand 'bias' must have its length = 4, but has 5
  %w, %e = "llmc.biased_route"(%x, %b) {normalised = 1 : i64, scale = 1.0 : f64, sigmoid = 1 : i64}
         : (tensor<3x4xf32>, tensor<5xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>)
  return
}

// -----

func.func @many(%x: tensor<3x4xf32>, %b: tensor<4xf32>) {
  // CHECK: error: 'llmc.biased_route' op result 'weights' must have dimension 1 of at most 4, but has 5
  %w, %e = "llmc.biased_route"(%x, %b) {normalised = 1 : i64, scale = 1.0 : f64, sigmoid = 1 : i64}
         : (tensor<3x4xf32>, tensor<4xf32>) -> (tensor<3x5xf32>, tensor<3x5xi64>)
  return
}

// -----

func.func @flag(%x: tensor<3x4xf32>, %b: tensor<4xf32>) {
  // CHECK: error: 'llmc.biased_route' op attribute 'sigmoid' must be 0 or 1, but is 2
  %w, %e = "llmc.biased_route"(%x, %b) {normalised = 1 : i64, scale = 1.0 : f64, sigmoid = 2 : i64}
         : (tensor<3x4xf32>, tensor<4xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>)
  return
}
