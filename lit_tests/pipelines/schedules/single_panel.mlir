// RUN: llmc-opt %s --schedule='single_panel{unroll=1 ahead=8 chain=16}' | filecheck %s

// A workgroup has one panel. What is made of both parts of a weight, number by number, is made of a row
// of each in registers.
// CHECK-LABEL: func.func @parts
// CHECK-NOT:     linalg
// CHECK:         scf.forall {{.*}} in (12)
// CHECK:           scf.for {{.*}} to %c32 step %c16 iter_args({{.*}}) -> (vector<16xf32>) {
// CHECK:             scf.for {{.*}} to %c16 step %c1 iter_args({{.*}}) -> (vector<16xf32>) {
// CHECK:               memref.prefetch
// CHECK:               vector.transfer_read %arg1{{.*}} vector<16xi8>
// CHECK:               memref.prefetch
// CHECK:               vector.transfer_read %arg2{{.*}} vector<16xi8>
// CHECK:               arith.bitcast {{.*}} : vector<16xi16> to vector<16xf16>
// CHECK:               arith.extf {{.*}} to vector<16xf32>
// CHECK:               arith.addf {{.*}} : vector<16xf32>
// CHECK-NOT:     linalg
#x = affine_map<(t, p, j, k) -> (t, k)>
#w = affine_map<(t, p, j, k) -> (p, k, j)>
#y = affine_map<(t, p, j, k) -> (t, p, j)>
func.func @parts(%x: tensor<1x32xf32>, %high: tensor<12x32x16xi8>, %low: tensor<12x32x16xi8>) -> tensor<1x12x16xf32>
    attributes {llmc.kernel = "single_panel"} {
  %zero = arith.constant 0.0 : f32
  %room = tensor.empty() : tensor<1x12x16xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%room : tensor<1x12x16xf32>) -> tensor<1x12x16xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #w, #y],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %high, %low : tensor<1x32xf32>, tensor<12x32x16xi8>, tensor<12x32x16xi8>) outs(%zeros : tensor<1x12x16xf32>) {
  ^bb0(%a: f32, %h: i8, %l: i8, %sum: f32):
    %eight = arith.constant 8 : i16
    %wide = arith.extui %h : i8 to i16
    %moved = arith.shli %wide, %eight : i16
    %rest = arith.extui %l : i8 to i16
    %bits = arith.ori %moved, %rest : i16
    %half = arith.bitcast %bits : i16 to f16
    %b = arith.extf %half : f16 to f32
    %product = arith.mulf %a, %b fastmath<contract> : f32
    %next = arith.addf %sum, %product fastmath<contract> : f32
    linalg.yield %next : f32
  } -> tensor<1x12x16xf32>
  return %y : tensor<1x12x16xf32>
}
