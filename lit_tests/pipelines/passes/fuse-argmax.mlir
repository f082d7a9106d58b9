// RUN: llmc-opt %s --fuse-argmax --split-input-file | filecheck %s
// RUN: llmc-opt %s --fuse-argmax --call-kernels --split-input-file | filecheck %s --check-prefix=KEPT

// A kernel whose workgroups cut one row into equal parts finds the best of it; both callers have
// the same. Who wants but the row calls the kernel as it was.
// CHECK-LABEL: func.func private @row_best(
// CHECK-SAME:    -> (tensor<1x4x16xf32>, tensor<1xi64>) attributes {llmc.kernel = "row"}
// CHECK:         %[[ROW:.*]] = scf.forall
// CHECK:         %[[NUMBERS:.*]] = tensor.collapse_shape %[[ROW]] {{\[\[}}0], [1, 2]]
// CHECK:         %[[BEST:.*]] = "llmc.argmax"(%[[NUMBERS]]) : (tensor<1x64xf32>) -> tensor<1xi64>
// CHECK:         return %[[ROW]], %[[BEST]]
// CHECK-LABEL: func.func private @row(
// CHECK-SAME:    -> tensor<1x4x16xf32> attributes {llmc.kernel = "row"}
// CHECK-LABEL: func.func @one
// CHECK:         %[[BOTH:.*]]:2 = call @row_best(%arg0)
// CHECK-NOT:     llmc.argmax
// CHECK:         %[[FLAT:.*]] = tensor.collapse_shape %[[BOTH]]#0
// CHECK:         return %[[FLAT]], %[[BOTH]]#1
// CHECK-LABEL: func.func @two
// CHECK:         call @row_best(%arg0)
// CHECK-NOT:     llmc.argmax
// CHECK-LABEL: func.func @row_alone
// CHECK:         call @row(%arg0)
// CHECK-NOT:   @row_best(

// What a kernel does itself is no dispatch of its own.
// KEPT-LABEL:  func.func private @row_best(
// KEPT:          llmc.argmax
func.func private @row(%x: tensor<1x4x16xf32>) -> tensor<1x4x16xf32> attributes {llmc.kernel = "row"} {
  %room = tensor.empty() : tensor<1x4x16xf32>
  %y = scf.forall (%i) = (0) to (4) step (2) shared_outs(%out = %room) -> (tensor<1x4x16xf32>) {
    %part = tensor.extract_slice %x[0, %i, 0] [1, 2, 16] [1, 1, 1] : tensor<1x4x16xf32> to tensor<1x2x16xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %part into %out[0, %i, 0] [1, 2, 16] [1, 1, 1] : tensor<1x2x16xf32> into tensor<1x4x16xf32>
    }
  }
  return %y : tensor<1x4x16xf32>
}
func.func @one(%x: tensor<1x4x16xf32>) -> (tensor<1x64xf32>, tensor<1xi64>) {
  %y = call @row(%x) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  %flat = tensor.collapse_shape %y [[0], [1, 2]] : tensor<1x4x16xf32> into tensor<1x64xf32>
  %best = "llmc.argmax"(%flat) : (tensor<1x64xf32>) -> tensor<1xi64>
  return %flat, %best : tensor<1x64xf32>, tensor<1xi64>
}
func.func @two(%x: tensor<1x4x16xf32>) -> tensor<1xi64> {
  %y = call @row(%x) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  %flat = tensor.collapse_shape %y [[0], [1, 2]] : tensor<1x4x16xf32> into tensor<1x64xf32>
  %best = "llmc.argmax"(%flat) : (tensor<1x64xf32>) -> tensor<1xi64>
  return %best : tensor<1xi64>
}
func.func @row_alone(%x: tensor<1x4x16xf32>) -> tensor<1x4x16xf32> {
  %y = call @row(%x) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  return %y : tensor<1x4x16xf32>
}

// -----

// Parts that are not alike, several rows, what no schedule has distributed and what is no kernel.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-4: llmc.argmax
// CHECK-NOT:   _best
func.func private @uneven(%x: tensor<1x3x16xf32>) -> tensor<1x3x16xf32> attributes {llmc.kernel = "uneven"} {
  %room = tensor.empty() : tensor<1x3x16xf32>
  %y = scf.forall (%i) = (0) to (3) step (2) shared_outs(%out = %room) -> (tensor<1x3x16xf32>) {
    %size = affine.min affine_map<(d0) -> (2, 3 - d0)>(%i)
    %part = tensor.extract_slice %x[0, %i, 0] [1, %size, 16] [1, 1, 1] : tensor<1x3x16xf32> to tensor<1x?x16xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %part into %out[0, %i, 0] [1, %size, 16] [1, 1, 1] : tensor<1x?x16xf32> into tensor<1x3x16xf32>
    }
  }
  return %y : tensor<1x3x16xf32>
}
func.func private @rows(%x: tensor<2x4x16xf32>) -> tensor<2x4x16xf32> attributes {llmc.kernel = "rows"} {
  %room = tensor.empty() : tensor<2x4x16xf32>
  %y = scf.forall (%i) = (0) to (4) step (2) shared_outs(%out = %room) -> (tensor<2x4x16xf32>) {
    %part = tensor.extract_slice %x[0, %i, 0] [2, 2, 16] [1, 1, 1] : tensor<2x4x16xf32> to tensor<2x2x16xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %part into %out[0, %i, 0] [2, 2, 16] [1, 1, 1] : tensor<2x2x16xf32> into tensor<2x4x16xf32>
    }
  }
  return %y : tensor<2x4x16xf32>
}
func.func private @whole(%x: tensor<1x4x16xf32>) -> tensor<1x4x16xf32> attributes {llmc.kernel = "whole"} {
  return %x : tensor<1x4x16xf32>
}
func.func private @layer(%x: tensor<1x4x16xf32>) -> tensor<1x4x16xf32> {
  return %x : tensor<1x4x16xf32>
}
func.func @others(%x: tensor<1x3x16xf32>, %y: tensor<2x4x16xf32>, %z: tensor<1x4x16xf32>) -> (tensor<1xi64>, tensor<2xi64>, tensor<1xi64>, tensor<1xi64>) {
  %0 = call @uneven(%x) : (tensor<1x3x16xf32>) -> tensor<1x3x16xf32>
  %1 = call @rows(%y) : (tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %2 = call @whole(%z) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  %3 = call @layer(%z) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  %4 = tensor.collapse_shape %0 [[0], [1, 2]] : tensor<1x3x16xf32> into tensor<1x48xf32>
  %5 = tensor.collapse_shape %1 [[0], [1, 2]] : tensor<2x4x16xf32> into tensor<2x64xf32>
  %6 = tensor.collapse_shape %2 [[0], [1, 2]] : tensor<1x4x16xf32> into tensor<1x64xf32>
  %7 = tensor.collapse_shape %3 [[0], [1, 2]] : tensor<1x4x16xf32> into tensor<1x64xf32>
  %8 = "llmc.argmax"(%4) : (tensor<1x48xf32>) -> tensor<1xi64>
  %9 = "llmc.argmax"(%5) : (tensor<2x64xf32>) -> tensor<2xi64>
  %10 = "llmc.argmax"(%6) : (tensor<1x64xf32>) -> tensor<1xi64>
  %11 = "llmc.argmax"(%7) : (tensor<1x64xf32>) -> tensor<1xi64>
  return %8, %9, %10, %11 : tensor<1xi64>, tensor<2xi64>, tensor<1xi64>, tensor<1xi64>
}

// -----

// A search of each panel is none of the row.
// CHECK-LABEL: func.func @panels
// CHECK:         call @row(
// CHECK:         "llmc.argmax"
// KEPT-LABEL:  func.func @panels
func.func private @row(%x: tensor<1x4x16xf32>) -> tensor<1x4x16xf32> attributes {llmc.kernel = "row"} {
  %room = tensor.empty() : tensor<1x4x16xf32>
  %y = scf.forall (%i) = (0) to (4) step (2) shared_outs(%out = %room) -> (tensor<1x4x16xf32>) {
    %part = tensor.extract_slice %x[0, %i, 0] [1, 2, 16] [1, 1, 1] : tensor<1x4x16xf32> to tensor<1x2x16xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %part into %out[0, %i, 0] [1, 2, 16] [1, 1, 1] : tensor<1x2x16xf32> into tensor<1x4x16xf32>
    }
  }
  return %y : tensor<1x4x16xf32>
}
func.func @panels(%x: tensor<1x4x16xf32>) -> tensor<4xi64> {
  %y = call @row(%x) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  %flat = tensor.collapse_shape %y [[0, 1], [2]] : tensor<1x4x16xf32> into tensor<4x16xf32>
  %best = "llmc.argmax"(%flat) : (tensor<4x16xf32>) -> tensor<4xi64>
  return %best : tensor<4xi64>
}
