// RUN: llmc-opt %s --split-input-file --lower-llmc=ops=quantized_linear --store-blocks-as-bytes --outline-kernels --verify-diagnostics -o %t
// RUN: filecheck %s --input-file %t

// A second run changes nothing.
// RUN: llmc-opt %s --split-input-file --lower-llmc=ops=quantized_linear --store-blocks-as-bytes --outline-kernels --outline-kernels --verify-diagnostics -o %t.twice
// RUN: diff %t %t.twice

// A sum of products takes along the zeros it begins with, the elementwise operation that it alone
// reads, and those after it, whose strands meet again before anybody else reads them. Two kernels
// that are alike share a function.
// CHECK-LABEL: func.func @products
// CHECK-NEXT:    %[[A:.+]] = call @matmul_0(%arg1, %arg0, %arg2)
// CHECK-NEXT:    %[[B:.+]] = call @matmul_0(%arg1, %[[A]], %arg2)
// CHECK-NEXT:    return %[[B]]
// CHECK-LABEL: func.func private @matmul_0
// CHECK-SAME:    attributes {llmc.kernel = "matmul"}
// CHECK:         arith.extf
// CHECK:         linalg.matmul
// CHECK:         arith.addf
// CHECK:         linalg.exp
// CHECK:         %[[LAST:.+]] = linalg.mul
// CHECK:         return %[[LAST]]
#nk = affine_map<(n, k) -> (n, k)>
#k = affine_map<(n, k) -> (k)>
func.func @products(%x: tensor<8x16xf32>, %w: tensor<16x16xf16>, %b: tensor<16xf32>) -> tensor<8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %room = tensor.empty() : tensor<8x16xf32>
  %square = tensor.empty() : tensor<16x16xf32>
  %wide0 = linalg.generic {indexing_maps = [#nk, #nk], iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<16x16xf16>) outs(%square : tensor<16x16xf32>) {
  ^bb0(%in: f16, %out: f32):
    %f = arith.extf %in : f16 to f32
    linalg.yield %f : f32
  } -> tensor<16x16xf32>
  %zeros0 = linalg.fill ins(%zero : f32) outs(%room : tensor<8x16xf32>) -> tensor<8x16xf32>
  %y0 = linalg.matmul ins(%x, %wide0 : tensor<8x16xf32>, tensor<16x16xf32>)
                      outs(%zeros0 : tensor<8x16xf32>) -> tensor<8x16xf32>
  %biased0 = linalg.generic {indexing_maps = [#nk, #k, #nk], iterator_types = ["parallel", "parallel"]}
      ins(%y0, %b : tensor<8x16xf32>, tensor<16xf32>) outs(%room : tensor<8x16xf32>) {
  ^bb0(%in: f32, %bias: f32, %out: f32):
    %sum = arith.addf %in, %bias : f32
    linalg.yield %sum : f32
  } -> tensor<8x16xf32>
  %exp0 = linalg.exp ins(%biased0 : tensor<8x16xf32>) outs(%room : tensor<8x16xf32>) -> tensor<8x16xf32>
  %act0 = linalg.mul ins(%biased0, %exp0 : tensor<8x16xf32>, tensor<8x16xf32>)
                     outs(%room : tensor<8x16xf32>) -> tensor<8x16xf32>
  %wide1 = linalg.generic {indexing_maps = [#nk, #nk], iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<16x16xf16>) outs(%square : tensor<16x16xf32>) {
  ^bb0(%in: f16, %out: f32):
    %f = arith.extf %in : f16 to f32
    linalg.yield %f : f32
  } -> tensor<16x16xf32>
  %zeros1 = linalg.fill ins(%zero : f32) outs(%room : tensor<8x16xf32>) -> tensor<8x16xf32>
  %y1 = linalg.matmul ins(%act0, %wide1 : tensor<8x16xf32>, tensor<16x16xf32>)
                      outs(%zeros1 : tensor<8x16xf32>) -> tensor<8x16xf32>
  %biased1 = linalg.generic {indexing_maps = [#nk, #k, #nk], iterator_types = ["parallel", "parallel"]}
      ins(%y1, %b : tensor<8x16xf32>, tensor<16xf32>) outs(%room : tensor<8x16xf32>) {
  ^bb0(%in: f32, %bias: f32, %out: f32):
    %sum = arith.addf %in, %bias : f32
    linalg.yield %sum : f32
  } -> tensor<8x16xf32>
  %exp1 = linalg.exp ins(%biased1 : tensor<8x16xf32>) outs(%room : tensor<8x16xf32>) -> tensor<8x16xf32>
  %act1 = linalg.mul ins(%biased1, %exp1 : tensor<8x16xf32>, tensor<8x16xf32>)
                     outs(%room : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %act1 : tensor<8x16xf32>
}

// -----

// A constant that differs makes another kernel; a scalar that is no constant is passed.
// CHECK-LABEL: func.func @constants
// CHECK:         call @elementwise_0(%arg0)
// CHECK:         call @elementwise_1(
// CHECK:         call @elementwise_2({{.*}}, %arg1)
// CHECK-LABEL: func.func private @elementwise_0
// CHECK:         arith.constant 1.0
// CHECK-LABEL: func.func private @elementwise_1
// CHECK:         arith.constant 2.0
// CHECK-LABEL: func.func private @elementwise_2(%arg0: tensor<8xf32>, %arg1: f32)
#id = affine_map<(i) -> (i)>
func.func @constants(%x: tensor<8xf32>, %s: f32) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %room = tensor.empty() : tensor<8xf32>
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%room : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %in, %one : f32
    linalg.yield %sum : f32
  } -> tensor<8xf32>
  %b = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%a : tensor<8xf32>) outs(%room : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %in, %two : f32
    linalg.yield %sum : f32
  } -> tensor<8xf32>
  %c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%b : tensor<8xf32>) outs(%room : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %in, %s : f32
    linalg.yield %sum : f32
  } -> tensor<8xf32>
  return %a, %b, %c : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// A reduction takes along what spreads its result over the row again; a product of matrices does
// not, of which each tile would be computed again. One row makes it a matvec.
// CHECK-LABEL: func.func @spread
// CHECK-NEXT:    %[[R:.+]] = call @reduction_0(%arg0)
// CHECK-NEXT:    %[[M:.+]] = call @matvec_0(%[[R]], %arg1)
// CHECK-NEXT:    call @elementwise_0(%[[M]])
// CHECK-LABEL: func.func private @reduction_0
// CHECK-SAME:    attributes {llmc.kernel = "reduction"}
// CHECK:         linalg.reduce
// CHECK:         linalg.broadcast
// CHECK:         linalg.div
// CHECK-LABEL: func.func private @matvec_0
// CHECK-SAME:    attributes {llmc.kernel = "matvec"}
// CHECK-NOT:     linalg.broadcast
// CHECK:         return
// CHECK-LABEL: func.func private @elementwise_0
// CHECK:         linalg.broadcast
func.func @spread(%x: tensor<1x16xf32>, %w: tensor<16x8xf32>) -> tensor<1x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %few = tensor.empty() : tensor<1xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%few : tensor<1xf32>) -> tensor<1xf32>
  %sum = linalg.reduce {arith.addf} ins(%x : tensor<1x16xf32>) outs(%zeros : tensor<1xf32>) dimensions = [1]
  %room = tensor.empty() : tensor<1x16xf32>
  %row = linalg.broadcast ins(%sum : tensor<1xf32>) outs(%room : tensor<1x16xf32>) dimensions = [1]
  %scaled = linalg.div ins(%x, %row : tensor<1x16xf32>, tensor<1x16xf32>)
                       outs(%room : tensor<1x16xf32>) -> tensor<1x16xf32>
  %out = tensor.empty() : tensor<1x8xf32>
  %none = linalg.fill ins(%zero : f32) outs(%out : tensor<1x8xf32>) -> tensor<1x8xf32>
  %y = linalg.matmul ins(%scaled, %w : tensor<1x16xf32>, tensor<16x8xf32>)
                     outs(%none : tensor<1x8xf32>) -> tensor<1x8xf32>
  %wide = tensor.empty() : tensor<1x8x4xf32>
  %z = linalg.broadcast ins(%y : tensor<1x8xf32>) outs(%wide : tensor<1x8x4xf32>) dimensions = [2]
  return %z : tensor<1x8x4xf32>
}

// -----

// What is read in two ways that do not meet again ends a kernel.
// CHECK-LABEL: func.func @read_twice
// CHECK-NEXT:    %[[Y:.+]] = call @matmul_0
// CHECK-NEXT:    %[[E:.+]] = call @elementwise_0(%[[Y]])
// CHECK-NEXT:    %[[F:.+]] = call @elementwise_1(%[[Y]])
// CHECK-NEXT:    return %[[E]], %[[F]]
func.func @read_twice(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>, %y: tensor<8x16xf32>)
    -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %room = tensor.empty() : tensor<8x16xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x16xf32>)
                     outs(%y : tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = linalg.exp ins(%0 : tensor<8x16xf32>) outs(%room : tensor<8x16xf32>) -> tensor<8x16xf32>
  %2 = linalg.abs ins(%0 : tensor<8x16xf32>) outs(%room : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %1, %2 : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// Blocks of a quantised weight are taken apart in the kernel that multiplies.
// CHECK-LABEL: func.func @quantised
// CHECK-NEXT:    %[[Y:.+]] = call @matvec_q4_0(%arg1, %arg0)
// CHECK-NEXT:    return %[[Y]]
// CHECK-LABEL: func.func private @matvec_q4_0(%arg0: tensor<64x6x18xi8>, %arg1: tensor<1x192xf32>)
// CHECK-SAME:    attributes {llmc.kernel = "matvec_q4"}
func.func @quantised(%x: tensor<1x192xf32>, %w: tensor<64x6x!llmc.q4_0>) -> tensor<1x64xf32> {
  %y = "llmc.quantized_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
     : (tensor<1x192xf32>, tensor<64x6x!llmc.q4_0>) -> tensor<1x64xf32>
  return %y : tensor<1x64xf32>
}

// -----

// Left where they are: operations of llmc, calls, what has effects, what a loop holds, memory that
// is filled or moved without computing, and a kernel itself.
// CHECK-LABEL: func.func @left_alone
// CHECK-NOT:     call
// CHECK:         linalg.fill
// CHECK:         tensor.insert_slice
// CHECK:         "llmc.rms_norm"
// CHECK:         call @elsewhere
// CHECK:         cf.assert
// CHECK:         scf.for
// CHECK:           linalg.exp
// CHECK-LABEL: func.func private @kernel
// CHECK-NEXT:    linalg.exp
// CHECK-NOT:   func.func
func.func private @elsewhere(%x: tensor<4x8xf32>) -> tensor<4x8xf32>

func.func @left_alone(%x: tensor<1x8xf32>, %w: tensor<8xf32>, %n: index, %ok: i1) -> tensor<4x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %room = tensor.empty() : tensor<4x8xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%room : tensor<4x8xf32>) -> tensor<4x8xf32>
  %one = tensor.insert_slice %x into %zeros[0, 0] [1, 8] [1, 1] : tensor<1x8xf32> into tensor<4x8xf32>
  %norm = "llmc.rms_norm"(%one, %w) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5 : f64, offset = 0.0 : f64}
        : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %y = func.call @elsewhere(%norm) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %checked = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                             iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<4x8xf32>) outs(%room : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    cf.assert %ok, "it is"
    linalg.yield %in : f32
  } -> tensor<4x8xf32>
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%z = %checked) -> (tensor<4x8xf32>) {
    %e = linalg.exp ins(%z : tensor<4x8xf32>) outs(%z : tensor<4x8xf32>) -> tensor<4x8xf32>
    scf.yield %e : tensor<4x8xf32>
  }
  return %last : tensor<4x8xf32>
}

func.func private @kernel(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {llmc.kernel = "elementwise"} {
  %e = linalg.exp ins(%x : tensor<4x8xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %e : tensor<4x8xf32>
}

// -----

// Invalid operations are diagnosed as ever.
func.func @invalid(%x: tensor<4x8xf32>, %y: tensor<8x8xf32>, %z: tensor<5x8xf32>) -> tensor<5x8xf32> {
  // expected-error@+1 {{inferred input/output operand #2 has shape's dimension #0 to be 4, but found 5}}
  %0 = linalg.matmul ins(%x, %y : tensor<4x8xf32>, tensor<8x8xf32>)
                     outs(%z : tensor<5x8xf32>) -> tensor<5x8xf32>
  return %0 : tensor<5x8xf32>
}
