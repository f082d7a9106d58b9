// RUN: llmc-opt %s --fuse-screened-argmax --allow-unregistered-dialect --split-input-file | filecheck %s

// Workgroups search four panels; a panel is computed where a number of it may be the largest. What
// is largest of the rough numbers is where each begins.
// CHECK:       "stream.executable"
// CHECK:         func.func @refined_panel_
// CHECK:           math.sqrt
// CHECK:           scf.for
// CHECK:             %[[MAY:.+]] = arith.cmpf uge
// CHECK:             %[[ANY:.+]] = vector.reduction <or>, %[[MAY]] : vector<16xi1> into i1
// CHECK:             scf.if %[[ANY]]
// CHECK:               memref.{{load|store|copy}}
// CHECK:               vector.reduction <maximumf>
// CHECK:           memref.atomic_rmw addi
// CHECK-LABEL: func.func @row
// CHECK:         %[[FIRST:.+]] = "llmc.argmax"(%arg1)
// CHECK-NOT:     call @panel
// CHECK:         "flow.dispatch"(%arg0, %arg1, %[[FIRST]], %arg2, %arg4, %arg5, %arg3,
func.func private @panel(%x: tensor<1x4x16xf32>) -> tensor<1x4x16xf32> attributes {llmc.kernel = "panel"} {
  %room = tensor.empty() : tensor<1x4x16xf32>
  %y = scf.forall (%i) in (4) shared_outs(%out = %room) -> (tensor<1x4x16xf32>) {
    %part = tensor.extract_slice %x[0, %i, 0] [1, 1, 16] [1, 1, 1] : tensor<1x4x16xf32> to tensor<1x1x16xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %part into %out[0, %i, 0] [1, 1, 16] [1, 1, 1] : tensor<1x1x16xf32> into tensor<1x4x16xf32>
    }
  }
  return %y : tensor<1x4x16xf32>
}
func.func @row(%x: tensor<1x4x16xf32>, %r: tensor<1x64xf32>, %v: tensor<1x64xi8>, %s: tensor<1x2xf32>, %m: tensor<64xf32>, %f: tensor<64xf32>) -> tensor<1xi64> {
  %y = call @panel(%x) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  %e = tensor.collapse_shape %y [[0], [1, 2]] : tensor<1x4x16xf32> into tensor<1x64xf32>
  %b = "llmc.screened_argmax"(%e, %r, %v, %m, %f, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>}
     : (tensor<1x64xf32>, tensor<1x64xf32>, tensor<1x64xi8>, tensor<64xf32>, tensor<64xf32>, tensor<1x2xf32>) -> tensor<1xi64>
  return %b : tensor<1xi64>
}

// -----

// The length of a row of floats needs no scales.
// CHECK:         func.func @refined_panel_
// CHECK-NOT:       arith.sitofp
// CHECK:           math.sqrt
// CHECK-LABEL: func.func @floats
// CHECK:         %[[FIRST:.+]] = "llmc.argmax"(%arg1)
// CHECK:         "flow.dispatch"(%arg0, %arg1, %[[FIRST]], %arg2, %arg3, %arg4,
func.func private @panel(%x: tensor<1x4x16xf32>) -> tensor<1x4x16xf32> attributes {llmc.kernel = "panel"} {
  %room = tensor.empty() : tensor<1x4x16xf32>
  %y = scf.forall (%i) in (4) shared_outs(%out = %room) -> (tensor<1x4x16xf32>) {
    %part = tensor.extract_slice %x[0, %i, 0] [1, 1, 16] [1, 1, 1] : tensor<1x4x16xf32> to tensor<1x1x16xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %part into %out[0, %i, 0] [1, 1, 16] [1, 1, 1] : tensor<1x1x16xf32> into tensor<1x4x16xf32>
    }
  }
  return %y : tensor<1x4x16xf32>
}
func.func @floats(%x: tensor<1x4x16xf32>, %r: tensor<1x64xf32>, %v: tensor<1x72xf32>, %m: tensor<72xf32>, %f: tensor<64xf32>) -> tensor<1xi64> {
  %y = call @panel(%x) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  %e = tensor.collapse_shape %y [[0], [1, 2]] : tensor<1x4x16xf32> into tensor<1x64xf32>
  %b = "llmc.screened_argmax"(%e, %r, %v, %m, %f) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>}
     : (tensor<1x64xf32>, tensor<1x64xf32>, tensor<1x72xf32>, tensor<72xf32>, tensor<64xf32>) -> tensor<1xi64>
  return %b : tensor<1xi64>
}

// -----

// What is no such kernel gives all numbers, of which the best is found; the rough ones go.
// CHECK-LABEL: func.func @others
// CHECK-NOT:     call @rough
// CHECK:         call @exact
// CHECK:         "llmc.argmax"
// CHECK-NOT:     call @rough
// CHECK-NOT:     screened
func.func private @exact(%x: tensor<1x4x16xf32>) -> tensor<1x4x16xf32> attributes {llmc.kernel = "whole"} {
  return %x : tensor<1x4x16xf32>
}
func.func private @rough(%x: tensor<1x4x16xf32>) -> tensor<1x4x16xf32> attributes {llmc.kernel = "whole"} {
  return %x : tensor<1x4x16xf32>
}
func.func @others(%x: tensor<1x4x16xf32>, %v: tensor<1x64xi8>, %s: tensor<1x2xf32>, %m: tensor<64xf32>, %f: tensor<64xf32>) -> tensor<1xi64> {
  %y = call @exact(%x) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  %z = call @rough(%x) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  %e = tensor.collapse_shape %y [[0], [1, 2]] : tensor<1x4x16xf32> into tensor<1x64xf32>
  %r = tensor.collapse_shape %z [[0], [1, 2]] : tensor<1x4x16xf32> into tensor<1x64xf32>
  %b = "llmc.screened_argmax"(%e, %r, %v, %m, %f, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>}
     : (tensor<1x64xf32>, tensor<1x64xf32>, tensor<1x64xi8>, tensor<64xf32>, tensor<64xf32>, tensor<1x2xf32>) -> tensor<1xi64>
  return %b : tensor<1xi64>
}

// -----

// Bounds are of f32 alone.
// CHECK-LABEL: func.func @narrow
// CHECK:         call @panel
// CHECK:         "llmc.argmax"
// CHECK-NOT:     flow.dispatch
func.func private @panel(%x: tensor<1x4x16xf16>) -> tensor<1x4x16xf16> attributes {llmc.kernel = "panel"} {
  %room = tensor.empty() : tensor<1x4x16xf16>
  %y = scf.forall (%i) in (4) shared_outs(%out = %room) -> (tensor<1x4x16xf16>) {
    %part = tensor.extract_slice %x[0, %i, 0] [1, 1, 16] [1, 1, 1] : tensor<1x4x16xf16> to tensor<1x1x16xf16>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %part into %out[0, %i, 0] [1, 1, 16] [1, 1, 1] : tensor<1x1x16xf16> into tensor<1x4x16xf16>
    }
  }
  return %y : tensor<1x4x16xf16>
}
func.func @narrow(%x: tensor<1x4x16xf16>, %r: tensor<1x64xf16>, %v: tensor<1x64xi8>, %s: tensor<1x2xf32>, %m: tensor<64xf32>, %f: tensor<64xf32>) -> tensor<1xi64> {
  %y = call @panel(%x) : (tensor<1x4x16xf16>) -> tensor<1x4x16xf16>
  %e = tensor.collapse_shape %y [[0], [1, 2]] : tensor<1x4x16xf16> into tensor<1x64xf16>
  %b = "llmc.screened_argmax"(%e, %r, %v, %m, %f, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>}
     : (tensor<1x64xf16>, tensor<1x64xf16>, tensor<1x64xi8>, tensor<64xf32>, tensor<64xf32>, tensor<1x2xf32>) -> tensor<1xi64>
  return %b : tensor<1xi64>
}

// -----

// Of several rows a workgroup looks through its panels row by row, and so does the last one through
// what all have found.
// CHECK:         func.func @refined_panel_
// CHECK:           scf.for %[[ROW:.+]] = %c0{{.*}} to %{{.+}} step %c1
// CHECK:             math.sqrt
// CHECK:             scf.for
// CHECK:               scf.if
// CHECK:             memref.store %{{.+}}, %{{.+}}[%[[ROW]], %{{.+}}] : memref<?x4xf32>
// CHECK:           memref.atomic_rmw addi
// CHECK:           scf.for %[[ROW:.+]] = %c0{{.*}} to %{{.+}} step %c1
// CHECK:             memref.store %{{.+}}, %{{.+}}[%[[ROW]]] : memref<?xi64>
// CHECK-LABEL: func.func @rows
// CHECK:         %[[FIRST:.+]] = "llmc.argmax"(%arg1) : (tensor<?x64xf32>) -> tensor<?xi64>
// CHECK-NOT:     call @panel
// CHECK:         "flow.dispatch"({{.*}}%arg0, %arg1, %[[FIRST]], %arg2, %arg4, %arg5, %arg3,
func.func private @panel(%x: tensor<?x4x16xf32>) -> tensor<?x4x16xf32> attributes {llmc.kernel = "panel"} {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x4x16xf32>
  %room = tensor.empty(%rows) : tensor<?x4x16xf32>
  %y = scf.forall (%t, %p) in (%rows, 4) shared_outs(%out = %room) -> (tensor<?x4x16xf32>) {
    %part = tensor.extract_slice %x[%t, %p, 0] [1, 1, 16] [1, 1, 1] : tensor<?x4x16xf32> to tensor<1x1x16xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %part into %out[%t, %p, 0] [1, 1, 16] [1, 1, 1] : tensor<1x1x16xf32> into tensor<?x4x16xf32>
    }
  }
  return %y : tensor<?x4x16xf32>
}
func.func @rows(%x: tensor<?x4x16xf32>, %r: tensor<?x64xf32>, %v: tensor<?x64xi8>, %s: tensor<?x2xf32>, %m: tensor<64xf32>, %f: tensor<64xf32>) -> tensor<?xi64> {
  %y = call @panel(%x) : (tensor<?x4x16xf32>) -> tensor<?x4x16xf32>
  %e = tensor.collapse_shape %y [[0], [1, 2]] : tensor<?x4x16xf32> into tensor<?x64xf32>
  %b = "llmc.screened_argmax"(%e, %r, %v, %m, %f, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>}
     : (tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xi8>, tensor<64xf32>, tensor<64xf32>, tensor<?x2xf32>) -> tensor<?xi64>
  return %b : tensor<?xi64>
}
