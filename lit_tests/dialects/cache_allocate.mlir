// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s

// It has no meaning in linalg: two allocations of one shape are two.
// CHECK-LABEL: func.func @allocate
// CHECK-NEXT:    "llmc.cache_allocate"(%arg0, %arg1) : (index, index) -> tensor<2x?x3x?x4xf32>
func.func @allocate(%sequences: index, %capacity: index) -> tensor<2x?x3x?x4xf32> {
  %cache = "llmc.cache_allocate"(%sequences, %capacity) : (index, index) -> tensor<2x?x3x?x4xf32>
  return %cache : tensor<2x?x3x?x4xf32>
}

// -----

func.func @sequences(%n: index) {
  // CHECK: error: 'llmc.cache_allocate' op result must have a dynamic second dimension (sequences)
  %cache = "llmc.cache_allocate"(%n, %n) : (index, index) -> tensor<2x1x3x?x4xf32>
  return
}

// -----

func.func @capacity(%n: index) {
  // CHECK: error: 'llmc.cache_allocate' op result must have a dynamic fourth dimension (capacity)
  %cache = "llmc.cache_allocate"(%n, %n) : (index, index) -> tensor<2x?x3x9x4xf32>
  return
}

// -----

func.func @channels(%n: index) {
  // CHECK: error: 'llmc.cache_allocate' op result must be static in all others
  %cache = "llmc.cache_allocate"(%n, %n) : (index, index) -> tensor<2x?x3x?x?xf32>
  return
}
