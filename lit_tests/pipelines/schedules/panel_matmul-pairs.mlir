// Pairs of bf16 are multiplied by one instruction, whose weights are interleaved for all rows. Sums stay
// in registers.
// RUN: llmc-opt %s --schedule='panel_matmul{rows=3 panels=2 unroll=1 ahead=8 chain=16 instruction=vdpbf16ps}' | filecheck %s
// CHECK-LABEL: func.func @any_rows
// CHECK-NOT:     linalg
// CHECK:         scf.for {{.*}} to %c32 step %c16 iter_args({{.*}}) -> (vector<3x2x16xf32>) {
// CHECK:           scf.for {{.*}} to %c16 step %c2 iter_args({{.*}}) -> (vector<3x2x16xf32>) {
// CHECK-COUNT-2:     vector.interleave {{.*}} : vector<16xbf16> -> vector<32xbf16>
// CHECK-COUNT-6:     llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"({{.*}}) : (vector<16xf32>, vector<32xbf16>, vector<32xbf16>) -> vector<16xf32>
// CHECK-NOT:         llvm.call_intrinsic
// CHECK:             scf.yield
// CHECK:           arith.addf {{.*}} : vector<3x2x16xf32>
// CHECK-NOT:     linalg

#x = affine_map<(t, p, j, k) -> (t, k)>
#w = affine_map<(t, p, j, k) -> (p, k, j)>
#y = affine_map<(t, p, j, k) -> (t, p, j)>
func.func @any_rows(%x: tensor<?x32xbf16>, %w: tensor<12x32x16xbf16>) -> tensor<?x12x16xf32>
    attributes {llmc.kernel = "panel_matmul"} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %rows = tensor.dim %x, %c0 : tensor<?x32xbf16>
  %room = tensor.empty(%rows) : tensor<?x12x16xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%room : tensor<?x12x16xf32>) -> tensor<?x12x16xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<?x32xbf16>, tensor<12x32x16xbf16>) outs(%zeros : tensor<?x12x16xf32>) {
  ^bb0(%a: bf16, %b: bf16, %sum: f32):
    %wide = arith.extf %a : bf16 to f32
    %weight = arith.extf %b : bf16 to f32
    %product = arith.mulf %wide, %weight : f32
    %total = arith.addf %sum, %product : f32
    linalg.yield %total : f32
  } -> tensor<?x12x16xf32>
  return %y : tensor<?x12x16xf32>
}
