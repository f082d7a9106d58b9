// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @top
// CHECK-NEXT:    "llmc.top_k"(%arg0, %arg1) : (tensor<?x7xf32>, index) -> (tensor<?x?xf32>, tensor<?x?xi64>)
//
// LOWER-LABEL: func.func @top
// LOWER:         %[[RANKS:.+]] = linalg.generic {{.+}} ins(%arg0, %arg0 : {{.+}}) outs(%{{.+}} : tensor<?x7xi64>)
// LOWER:           arith.cmpf ogt
// LOWER:           arith.cmpf oeq
// LOWER:         %[[VALUES:.+]] = linalg.generic {{.+}} ins(%arg0, %[[RANKS]] : {{.+}}) outs(%{{.+}} : tensor<?x?xf32>)
// LOWER:         %[[PLACES:.+]] = linalg.generic {{.+}} ins(%[[RANKS]] : {{.+}}) outs(%{{.+}} : tensor<?x?xi64>)
// LOWER:         return %[[VALUES]], %[[PLACES]]
func.func @top(%x: tensor<?x7xf32>, %count: index) -> (tensor<?x?xf32>, tensor<?x?xi64>) {
  %values, %places = "llmc.top_k"(%x, %count) : (tensor<?x7xf32>, index) -> (tensor<?x?xf32>, tensor<?x?xi64>)
  return %values, %places : tensor<?x?xf32>, tensor<?x?xi64>
}

// -----

func.func @rank(%x: tensor<7xf32>, %count: index) {
  // CHECK: error: 'llmc.top_k' op operand 'x' must have rank 2, but is tensor<7xf32>
  %values, %places = "llmc.top_k"(%x, %count) : (tensor<7xf32>, index) -> (tensor<1x?xf32>, tensor<1x?xi64>)
  return
}

// -----

func.func @integers(%x: tensor<2x7xi32>, %count: index) {
  // CHECK: error: 'llmc.top_k' op operand 'x' must hold floats (f16, bf16, f32, f64), but is tensor<2x7xi32>
  %values, %places = "llmc.top_k"(%x, %count) : (tensor<2x7xi32>, index) -> (tensor<2x?xi32>, tensor<2x?xi64>)
  return
}

// -----

func.func @open(%x: tensor<2x?xf32>, %count: index) {
  // CHECK: error: 'llmc.top_k' op operand 'x' must be static in dimension 1, but is tensor<2x?xf32>
  %values, %places = "llmc.top_k"(%x, %count) : (tensor<2x?xf32>, index) -> (tensor<2x?xf32>, tensor<2x?xi64>)
  return
}

// -----

func.func @empty(%x: tensor<2x0xf32>, %count: index) {
  // CHECK: error: 'llmc.top_k' op operand 'x' must not be empty, but is tensor<2x0xf32>
  %values, %places = "llmc.top_k"(%x, %count) : (tensor<2x0xf32>, index) -> (tensor<2x?xf32>, tensor<2x?xi64>)
  return
}

// -----

func.func @rows(%x: tensor<2x7xf32>, %count: index) {
  // CHECK: error: 'llmc.top_k' op result 'places' must have dimension 0 = 2, but has 3
  %values, %places = "llmc.top_k"(%x, %count) : (tensor<2x7xf32>, index) -> (tensor<2x?xf32>, tensor<3x?xi64>)
  return
}

// -----

func.func @fixed(%x: tensor<2x7xf32>, %count: index) {
  // CHECK: error: 'llmc.top_k' op result 'values' must be dynamic in dimension 1, but is tensor<2x4xf32>
  %values, %places = "llmc.top_k"(%x, %count) : (tensor<2x7xf32>, index) -> (tensor<2x4xf32>, tensor<2x?xi64>)
  return
}

// -----

func.func @values(%x: tensor<2x7xf32>, %count: index) {
  // CHECK: error: 'llmc.top_k' op result 'values' must hold f32, but is tensor<2x?xf16>
  %values, %places = "llmc.top_k"(%x, %count) : (tensor<2x7xf32>, index) -> (tensor<2x?xf16>, tensor<2x?xi64>)
  return
}

// -----

func.func @places(%x: tensor<2x7xf32>, %count: index) {
  // CHECK: error: 'llmc.top_k' op result 'places' must hold i64, but is tensor<2x?xi32>
  %values, %places = "llmc.top_k"(%x, %count) : (tensor<2x7xf32>, index) -> (tensor<2x?xf32>, tensor<2x?xi32>)
  return
}
