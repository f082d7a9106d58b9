// RUN: llmc-opt %s --schedule='matvec{rows=2 lanes=8}' | filecheck %s

// Two rows at a time, of which 8 numbers are multiplied at once into partial sums, which are added
// up after the loop.
// CHECK-LABEL: func.func @kernel
// CHECK:         scf.for {{.*}} step %c2
// CHECK:           %[[SUMS:.+]] = scf.for {{.*}} step %c8 iter_args({{.*}}) -> (vector<1x2x8xf32>)
// CHECK:             %[[W:.+]] = vector.transfer_read {{.*}} : tensor<64x32xf16>, vector<2x8xf16>
// CHECK:             arith.extf {{.*}} : vector<1x2x8xf16> to vector<1x2x8xf32>
// CHECK:             arith.mulf
// CHECK:             arith.addf
// CHECK:           vector.extract %[[SUMS]][0, 0]
// CHECK-COUNT-2:   vector.reduction <add>
// CHECK-NOT:     linalg
func.func @kernel(%x: tensor<1x32xf32>, %w: tensor<64x32xf16>) -> tensor<1x64xf32>
    attributes {llmc.kernel = "matvec"} {
  %zero = arith.constant 0.0 : f32
  %room = tensor.empty() : tensor<1x64xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%room : tensor<1x64xf32>) -> tensor<1x64xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(t, n, k) -> (t, k)>, affine_map<(t, n, k) -> (n, k)>,
                                        affine_map<(t, n, k) -> (t, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<1x32xf32>, tensor<64x32xf16>) outs(%zeros : tensor<1x64xf32>) {
  ^bb0(%a: f32, %b: f16, %sum: f32):
    %wide = arith.extf %b : f16 to f32
    %product = arith.mulf %a, %wide : f32
    %next = arith.addf %sum, %product : f32
    linalg.yield %next : f32
  } -> tensor<1x64xf32>
  return %y : tensor<1x64xf32>
}

// The vector may have no row of its own.
// CHECK-LABEL: func.func @vector
// CHECK:         scf.for {{.*}} step %c2
// CHECK:           scf.for {{.*}} step %c8 {{.*}} -> (vector<2x8xf32>)
// CHECK:           vector.reduction <add>
func.func @vector(%x: tensor<32xf32>, %w: tensor<64x32xf32>, %y: tensor<64xf32>) -> tensor<64xf32>
    attributes {llmc.kernel = "matvec"} {
  %0 = linalg.matvec ins(%w, %x : tensor<64x32xf32>, tensor<32xf32>)
                     outs(%y : tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// What does not have the loops of a matrix times a vector is left as it is.
// CHECK-LABEL: func.func @other_loops
// CHECK:         linalg.generic
// CHECK-SAME:      iterator_types = ["parallel", "parallel", "parallel"]
func.func @other_loops(%x: tensor<4x5x6xf32>, %y: tensor<4x5x6xf32>) -> tensor<4x5x6xf32>
    attributes {llmc.kernel = "matvec"} {
  %0 = linalg.add ins(%x, %x : tensor<4x5x6xf32>, tensor<4x5x6xf32>)
                  outs(%y : tensor<4x5x6xf32>) -> tensor<4x5x6xf32>
  return %0 : tensor<4x5x6xf32>
}
