// What a verb is not for is told of the operation that it was given.
// RUN: not llmc-opt %s --schedule-file=%S/Inputs/mistaken.py:products_of_floats 2>&1 | filecheck %s --check-prefix=DOTS
// RUN: not llmc-opt %s --schedule-file=%S/Inputs/mistaken.py:products_of_rows 2>&1 | filecheck %s --check-prefix=DOTS
// DOTS: mistaken.mlir:{{.+}} error: only sums of products of bytes over loops 'tpbjgi' can be multiplied so
//
// RUN: not llmc-opt %s --schedule-file=%S/Inputs/mistaken.py:pairs_of_floats 2>&1 | filecheck %s --check-prefix=PAIRS
// PAIRS: mistaken.mlir:{{.+}} error: only sums of two products of bf16, over loops 'tpjk', are multiplied so
// RUN: not llmc-opt %s --schedule='panel_matmul{chain=4 instruction=vdpbf16ps}' 2>&1 | filecheck %s --check-prefix=COLUMNS
// COLUMNS: error: 'vdpbf16ps' takes no 6 columns
//
// RUN: not llmc-opt %s --schedule-file=%S/Inputs/mistaken.py:tiles_of_rows 2>&1 | filecheck %s --check-prefix=TILES
// TILES: mistaken.mlir:{{.+}} error: only sums of products of bytes over loops 'tpbjfgi' can be multiplied so
//
// RUN: not llmc-opt %s --schedule-file=%S/Inputs/mistaken.py:vectors_of_functions 2>&1 | filecheck %s --check-prefix=LATE
// RUN: not llmc-opt %s --schedule-file=%S/Inputs/mistaken.py:vectors_of_broadcasts 2>&1 | filecheck %s --check-prefix=LATE
// LATE: mistaken.mlir:{{.+}} error: only a linalg.generic that reads tensors by its loops becomes vectors late
//
// RUN: not llmc-opt %s --schedule-file=%S/Inputs/mistaken.py:vectors_of_sums 2>&1 | filecheck %s --check-prefix=TERMS
// TERMS: mistaken.mlir:{{.+}} error: sums of several terms cannot become vectors late: tile them by 1
//
// RUN: not llmc-opt %s --schedule-file=%S/Inputs/mistaken.py:registers_of_functions 2>&1 | filecheck %s --check-prefix=FUNCTION
// FUNCTION: mistaken.mlir:{{.+}} error: tile registers are for the workgroups of a grid, not 'func.func'
// RUN: not llmc-opt %s --schedule-file=%S/Inputs/mistaken.py:registers_of_sums 2>&1 | filecheck %s --check-prefix=SUMS
// SUMS: mistaken.mlir:{{.+}} error: tile registers are for the workgroups of a grid, not 'linalg.matmul'
//
// RUN: not llmc-opt %s --outline-quantized-linears='target=cpu:sapphirerapids' --schedule-file=%S/Inputs/mistaken.py:other_instruction 2>&1 | filecheck %s --check-prefix=NAME
// NAME: error: there is no instruction 'vpdpbus': there are tdpbsud, vpdpbusd, {{.+}}plain
// RUN: not llmc-opt %s --outline-quantized-linears='target=cpu:sapphirerapids' --schedule-file=%S/Inputs/mistaken.py:no_lanes 2>&1 | filecheck %s --check-prefix=LANES
// LANES: error: 'plain' takes no 0 lanes of 16 columns

func.func @floats(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>, %c: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %sums = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x16xf32>) outs(%c : tensor<4x16xf32>) -> tensor<4x16xf32>
  return %sums : tensor<4x16xf32>
}

func.func @first_row(%a: tensor<1x4xf32>, %room: tensor<6x4xf32>) -> tensor<6x4xf32> {
  %rows = linalg.generic {indexing_maps = [affine_map<(x, y) -> (0, y)>, affine_map<(x, y) -> (x, y)>], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<1x4xf32>) outs(%room : tensor<6x4xf32>) {
  ^bb0(%number: f32, %_: f32):
    linalg.yield %number : f32
  } -> tensor<6x4xf32>
  return %rows : tensor<6x4xf32>
}

func.func @blocks(%x: tensor<1x64xf32>, %w: tensor<8x2x320xi8>) -> tensor<1x128xf32> {
  %y = "llmc.packed_quantized_linear"(%x, %w) {format = "q4_1", operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<1x64xf32>, tensor<8x2x320xi8>) -> tensor<1x128xf32>
  return %y : tensor<1x128xf32>
}

func.func @six_columns(%x: tensor<?x8xbf16>, %w: tensor<4x8x6xbf16>, %room: tensor<?x4x6xf32>) -> tensor<?x4x6xf32>
    attributes {llmc.kernel = "panel_matmul"} {
  %y = linalg.generic {indexing_maps = [affine_map<(t, p, j, k) -> (t, k)>, affine_map<(t, p, j, k) -> (p, k, j)>, affine_map<(t, p, j, k) -> (t, p, j)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<?x8xbf16>, tensor<4x8x6xbf16>) outs(%room : tensor<?x4x6xf32>) {
  ^bb0(%a: bf16, %b: bf16, %sum: f32):
    %wide = arith.extf %a : bf16 to f32
    %weight = arith.extf %b : bf16 to f32
    %product = arith.mulf %wide, %weight : f32
    %total = arith.addf %sum, %product : f32
    linalg.yield %total : f32
  } -> tensor<?x4x6xf32>
  return %y : tensor<?x4x6xf32>
}
