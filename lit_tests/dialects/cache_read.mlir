// RUN: not llmc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not llmc-opt %s --split-input-file --pass-pipeline="builtin.module(lower-llmc,func.func(canonicalize,cse))" 2>&1 | filecheck %s --check-prefix=LOWER

// CHECK-LABEL: func.func @one_sequence
// CHECK:         "llmc.cache_read"(%arg0, %arg1, %arg2, %arg3, %arg4)
// LOWER-LABEL: func.func @one_sequence
// LOWER-NEXT:    tensor.extract_slice %arg0[%arg1, %arg2, 0, 0, 0] [1, 1, 3, %arg4, 4] [1, 1, 1, 1, 1] : tensor<2x?x3x?x4xf32> to tensor<1x3x?x4xf32>
func.func @one_sequence(%cache: tensor<2x?x3x?x4xf32>, %layer: index, %sequence: index, %batch: index, %columns: index) -> tensor<1x3x?x4xf32> {
  %keys = "llmc.cache_read"(%cache, %layer, %sequence, %batch, %columns)
        : (tensor<2x?x3x?x4xf32>, index, index, index, index) -> tensor<1x3x?x4xf32>
  return %keys : tensor<1x3x?x4xf32>
}

// The operand says how many sequences, where the type does not.
// CHECK-LABEL: func.func @batch
// LOWER-LABEL: func.func @batch
// LOWER-NEXT:    tensor.extract_slice %arg0[%arg1, %arg2, 0, 0, 0] [1, %arg3, 3, %arg4, 4]
func.func @batch(%cache: tensor<2x?x3x?x4xf32>, %layer: index, %sequence: index, %batch: index, %columns: index) -> tensor<?x3x?x4xf32> {
  %keys = "llmc.cache_read"(%cache, %layer, %sequence, %batch, %columns)
        : (tensor<2x?x3x?x4xf32>, index, index, index, index) -> tensor<?x3x?x4xf32>
  return %keys : tensor<?x3x?x4xf32>
}

// Of cells the values are read: those of 512 columns, in words of 4 channels, upper halves of the
// integers first. Keys are transformed again, in five stages of sums and differences.
// LOWER-LABEL: func.func @blocks
// LOWER:         %[[PANELS:.+]] = arith.ceildivui %arg1, %c512
// LOWER:         tensor.extract_slice %arg0[%arg1, %arg1, 0, 0, 0] [1, 1, 3, %[[PANELS]], 2] [1, 1, 1, 1, 1] : tensor<2x?x3x?x2x!llmc.q8_0_keys> to tensor<1x3x?x2x!llmc.q8_0_keys>
// LOWER:         tensor.extract_slice {{.+}}[0, 0, 0, 0, 1024]
// LOWER:         tensor.expand_shape {{.+}} output_shape [1, 3, %{{.+}}, 2, 32, 4, 16, 4]
// LOWER:         tensor.extract_slice {{.+}}[0, 0, 0, 0, 9216]
// LOWER:         tensor.expand_shape {{.+}} output_shape [1, 3, %{{.+}}, 2, 32, 4, 16, 4]
// LOWER:         tensor.extract_slice {{.+}} [1, 3, %arg1, 2] {{.+}} to tensor<1x3x?x2x!llmc.q8_0>
// LOWER:         arith.mulf
// LOWER:         -> tensor<1x3x?x2x32xf32>
// LOWER:         tensor.expand_shape {{.+}} output_shape [1, 3, %{{.+}}, 2, 2, 2, 2, 2, 2]
// LOWER-COUNT-5: "parallel", "parallel", "parallel", "parallel", "parallel", "reduction"]
func.func @blocks(%cache: tensor<2x?x3x?x2x!llmc.q8_0_keys>, %i: index) -> tensor<1x3x?x64xf32> {
  %keys = "llmc.cache_read"(%cache, %i, %i, %i, %i)
        : (tensor<2x?x3x?x2x!llmc.q8_0_keys>, index, index, index, index) -> tensor<1x3x?x64xf32>
  return %keys : tensor<1x3x?x64xf32>
}

// Of the last block, what the rows have.
// LOWER-LABEL: func.func @within_a_block
// LOWER:         -> tensor<1x3x?x2x32xf32>
// LOWER:         tensor.extract_slice %{{.+}}[0, 0, 0, 0] [1, 3, %{{.+}}, 48]
func.func @within_a_block(%cache: tensor<2x?x3x?x2x!llmc.q8_0_values>, %i: index) -> tensor<1x3x?x48xf32> {
  %values = "llmc.cache_read"(%cache, %i, %i, %i, %i)
        : (tensor<2x?x3x?x2x!llmc.q8_0_values>, index, index, index, index) -> tensor<1x3x?x48xf32>
  return %values : tensor<1x3x?x48xf32>
}

// -----

func.func @values_of_blocks(%cache: tensor<2x?x3x?x2x!llmc.q8_0_keys>, %i: index) {
  // CHECK: error: 'llmc.cache_read' op result must hold f32, but is tensor<1x3x?x64xf16>
  %keys = "llmc.cache_read"(%cache, %i, %i, %i, %i)
        : (tensor<2x?x3x?x2x!llmc.q8_0_keys>, index, index, index, index) -> tensor<1x3x?x64xf16>
  return
}

// -----

func.func @heads(%cache: tensor<2x?x3x?x4xf32>, %i: index) {
  // CHECK: error: 'llmc.cache_read' op result must have its heads = 3, but has 2
  %keys = "llmc.cache_read"(%cache, %i, %i, %i, %i)
        : (tensor<2x?x3x?x4xf32>, index, index, index, index) -> tensor<1x2x?x4xf32>
  return
}

// -----

func.func @rank(%cache: tensor<?x3x?x4xf32>, %i: index) {
  // CHECK: error: 'llmc.cache_read' op operand 'cache' must have rank 5
  %keys = "llmc.cache_read"(%cache, %i, %i, %i, %i)
        : (tensor<?x3x?x4xf32>, index, index, index, index) -> tensor<1x3x?x4xf32>
  return
}

// -----

func.func @channels(%cache: tensor<2x?x3x?x4xf32>, %i: index) {
  // CHECK: error: 'llmc.cache_read' op result must have its channels = 4, but has 5
  %keys = "llmc.cache_read"(%cache, %i, %i, %i, %i)
        : (tensor<2x?x3x?x4xf32>, index, index, index, index) -> tensor<1x3x?x5xf32>
  return
}

// -----

func.func @columns(%cache: tensor<2x?x3x8x4xf32>, %i: index) {
  // CHECK: error: 'llmc.cache_read' op result must have columns of at most 8, but has 9
  %keys = "llmc.cache_read"(%cache, %i, %i, %i, %i)
        : (tensor<2x?x3x8x4xf32>, index, index, index, index) -> tensor<1x3x9x4xf32>
  return
}

// -----

func.func @sequences(%cache: tensor<2x2x3x?x4xf32>, %i: index) {
  // CHECK: error: 'llmc.cache_read' op result must have a batch of at most 2, but has 3
  %keys = "llmc.cache_read"(%cache, %i, %i, %i, %i)
        : (tensor<2x2x3x?x4xf32>, index, index, index, index) -> tensor<3x3x?x4xf32>
  return
}

// -----

func.func @element(%cache: tensor<2x?x3x?x4xf16>, %i: index) {
  // CHECK: error: 'llmc.cache_read' op result must hold f16, but is tensor<1x3x?x4xf32>
  %keys = "llmc.cache_read"(%cache, %i, %i, %i, %i)
        : (tensor<2x?x3x?x4xf16>, index, index, index, index) -> tensor<1x3x?x4xf32>
  return
}

// -----

func.func @open_heads(%cache: tensor<2x?x?x?x4xf32>, %i: index) {
  // CHECK: error: 'llmc.cache_read' op operand 'cache' must be static in dimension 2, but is tensor<2x?x?x?x4xf32>
  %keys = "llmc.cache_read"(%cache, %i, %i, %i, %i)
        : (tensor<2x?x?x?x4xf32>, index, index, index, index) -> tensor<1x3x?x4xf32>
  return
}

// -----

func.func @empty(%cache: tensor<2x?x3x0x4xf32>, %i: index) {
  // CHECK: error: 'llmc.cache_read' op operand 'cache' must not be empty, but is tensor<2x?x3x0x4xf32>
  %keys = "llmc.cache_read"(%cache, %i, %i, %i, %i)
        : (tensor<2x?x3x0x4xf32>, index, index, index, index) -> tensor<1x3x?x4xf32>
  return
}
