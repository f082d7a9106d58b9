// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// Two allocations of one shape stay two.
// CHECK-LABEL: func.func @allocate
// CHECK-NEXT:    "llmc.cache_allocate"(%arg0, %arg1) : (index, index) -> tensor<2x?x3x?x4xf32>
// CHECK-NEXT:    "llmc.cache_allocate"(%arg0, %arg1)
// LOWER-LABEL: func.func @allocate
// LOWER-NEXT:    %[[KEYS:.+]] = bufferization.alloc_tensor(%arg0, %arg1) : tensor<2x?x3x?x4xf32>
// LOWER-NEXT:    %[[VALUES:.+]] = bufferization.alloc_tensor(%arg0, %arg1)
// LOWER-NEXT:    return %[[KEYS]], %[[VALUES]]
func.func @allocate(%sequences: index, %capacity: index) -> (tensor<2x?x3x?x4xf32>, tensor<2x?x3x?x4xf32>) {
  %keys = "llmc.cache_allocate"(%sequences, %capacity) : (index, index) -> tensor<2x?x3x?x4xf32>
  %values = "llmc.cache_allocate"(%sequences, %capacity) : (index, index) -> tensor<2x?x3x?x4xf32>
  return %keys, %values : tensor<2x?x3x?x4xf32>, tensor<2x?x3x?x4xf32>
}

// -----

func.func @sequences(%n: index) {
  // CHECK: error: 'llmc.cache_allocate' op result must be dynamic in dimension 1 (sequences), but is tensor<2x1x3x?x4xf32>
  %cache = "llmc.cache_allocate"(%n, %n) : (index, index) -> tensor<2x1x3x?x4xf32>
  return
}

// -----

func.func @capacity(%n: index) {
  // CHECK: error: 'llmc.cache_allocate' op result must be dynamic in dimension 3 (capacity), but is tensor<2x?x3x9x4xf32>
  %cache = "llmc.cache_allocate"(%n, %n) : (index, index) -> tensor<2x?x3x9x4xf32>
  return
}

// -----

func.func @channels(%n: index) {
  // CHECK: error: 'llmc.cache_allocate' op result must be static in dimension 4, but is tensor<2x?x3x?x?xf32>
  %cache = "llmc.cache_allocate"(%n, %n) : (index, index) -> tensor<2x?x3x?x?xf32>
  return
}
