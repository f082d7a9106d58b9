// RUN: llmc-opt %s --schedule='matmul{rows=2 columns=8}' | filecheck %s

// Loops over tiles of 2 rows and 8 columns, whose sums a third loop carries in registers. The number
// of rows is dynamic: the vectors are masked. Nothing of linalg is left.
// CHECK-LABEL: func.func @dynamic
// CHECK:         scf.for {{.*}} step %c2
// CHECK:           vector.create_mask
// CHECK:           scf.for {{.*}} step %c8
// CHECK:             scf.for {{.*}} iter_args({{.*}}vector<2x8xf32>) {
// CHECK-COUNT-2:       vector.fma {{.*}} : vector<8xf32>
// CHECK-NOT:         linalg
// CHECK:             arith.maximumf {{.*}} : vector<2x8xf32>
// CHECK:             vector.transfer_write
// CHECK-NOT:         linalg
func.func @dynamic(%x: tensor<?x32xf32>, %w: tensor<32x64xf32>) -> tensor<?x64xf32>
    attributes {llmc.kernel = "matmul"} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %rows = tensor.dim %x, %c0 : tensor<?x32xf32>
  %room = tensor.empty(%rows) : tensor<?x64xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%room : tensor<?x64xf32>) -> tensor<?x64xf32>
  %y = linalg.matmul ins(%x, %w : tensor<?x32xf32>, tensor<32x64xf32>)
                     outs(%zeros : tensor<?x64xf32>) -> tensor<?x64xf32>
  %relu = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
                          iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<?x64xf32>) outs(%room : tensor<?x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %max = arith.maximumf %in, %zero : f32
    linalg.yield %max : f32
  } -> tensor<?x64xf32>
  return %relu : tensor<?x64xf32>
}

// Weights of f16 are widened in registers, a column of the tile at a time. Tiles cover everything
// exactly: there are no masks.
// CHECK-LABEL: func.func @narrow
// CHECK-NOT:     mask
// CHECK:         scf.for {{.*}} iter_args({{.*}}vector<2x8xf32>) {
// CHECK:           arith.extf {{.*}} : vector<8x1xf16> to vector<8x1xf32>
// CHECK-COUNT-2:   vector.fma {{.*}} : vector<8xf32>
// CHECK-NOT:     mask
func.func @narrow(%x: tensor<4x32xf32>, %w: tensor<64x32xf16>) -> tensor<4x64xf32>
    attributes {llmc.kernel = "matmul"} {
  %zero = arith.constant 0.0 : f32
  %room = tensor.empty() : tensor<4x64xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%room : tensor<4x64xf32>) -> tensor<4x64xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                                        affine_map<(m, n, k) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x32xf32>, tensor<64x32xf16>) outs(%zeros : tensor<4x64xf32>) {
  ^bb0(%a: f32, %b: f16, %sum: f32):
    %wide = arith.extf %b : f16 to f32
    %product = arith.mulf %a, %wide : f32
    %next = arith.addf %sum, %product : f32
    linalg.yield %next : f32
  } -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// A function that is no kernel is left alone, and one of another kind.
// CHECK-LABEL: func.func @no_kernel
// CHECK:         linalg.matmul
func.func @no_kernel(%x: tensor<4x32xf32>, %w: tensor<32x64xf32>, %y: tensor<4x64xf32>)
    -> tensor<4x64xf32> {
  %0 = linalg.matmul ins(%x, %w : tensor<4x32xf32>, tensor<32x64xf32>)
                     outs(%y : tensor<4x64xf32>) -> tensor<4x64xf32>
  return %0 : tensor<4x64xf32>
}

// CHECK-LABEL: func.func @other_kind
// CHECK:         linalg.matmul
func.func @other_kind(%x: tensor<4x32xf32>, %w: tensor<32x64xf32>, %y: tensor<4x64xf32>)
    -> tensor<4x64xf32> attributes {llmc.kernel = "elementwise"} {
  %0 = linalg.matmul ins(%x, %w : tensor<4x32xf32>, tensor<32x64xf32>)
                     outs(%y : tensor<4x64xf32>) -> tensor<4x64xf32>
  return %0 : tensor<4x64xf32>
}
