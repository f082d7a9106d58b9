// RUN: llmc-opt %s --dispatch-kernels --split-input-file --verify-diagnostics | filecheck %s

// The grid becomes workgroups, the tensors buffers, what comes before the grid every workgroup's.
// CHECK-NOT:   @double(
// CHECK-LABEL: "stream.executable"()
// CHECK:         "stream.executable.export"()
// CHECK:         ^bb0(%[[LENGTH:.*]]: index, %{{.*}}: index):
// CHECK:           %[[WIDTH:.*]] = arith.ceildivui %[[LENGTH]], %c16
// CHECK:           "stream.return"(%[[WIDTH]], %c1{{.*}}, %c1{{.*}})
// CHECK:         func.func @double_Dxf32_Dxf32
// CHECK:           %[[IN:.*]] = "stream.binding.subspan"{{.*}} memref<?xf32>
// CHECK:           %[[OUT:.*]] = "stream.binding.subspan"{{.*}} memref<?xf32>
// CHECK:           %[[START:.*]] = arith.muli %{{.*}}, %c16
// CHECK:           scf.for
// CHECK:             memref.load %[[IN]]
// CHECK:             memref.store %{{.*}}, %[[OUT]]
// CHECK-NOT:     @double(
// CHECK-LABEL: func.func @caller
// CHECK:         "flow.dispatch"
// CHECK-SAME:    entry_points = [@double_Dxf32_Dxf32::@double_Dxf32_Dxf32]
func.func private @double(%x: tensor<?xf32>) -> tensor<?xf32> attributes {llmc.kernel = "double"} {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %room = tensor.empty(%n) : tensor<?xf32>
  %y = scf.forall (%i) = (0) to (%n) step (16) shared_outs(%out = %room) -> (tensor<?xf32>) {
    %size = affine.min affine_map<(d0)[s0] -> (16, s0 - d0)>(%i)[%n]
    %part = tensor.extract_slice %x[%i] [%size] [1] : tensor<?xf32> to tensor<?xf32>
    %into = tensor.extract_slice %out[%i] [%size] [1] : tensor<?xf32> to tensor<?xf32>
    %twice = linalg.add ins(%part, %part : tensor<?xf32>, tensor<?xf32>) outs(%into : tensor<?xf32>) -> tensor<?xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %twice into %out[%i] [%size] [1] : tensor<?xf32> into tensor<?xf32>
    }
  }
  return %y : tensor<?xf32>
}
func.func @caller(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = call @double(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}

// -----

// A grid in the grid is the width of the workgroups' grid. What stands around it is each one's.
// CHECK-LABEL: "stream.executable"()
// CHECK:           "stream.return"(%c2{{.*}}, %c3{{.*}}, %c1{{.*}})
// CHECK:         func.func @both_3xf32_3x4xf32
// CHECK:           %[[X:.*]] = "stream.dispatch.workgroup.id"() {dimension = 0 : index}
// CHECK:           %[[Y:.*]] = "stream.dispatch.workgroup.id"() {dimension = 1 : index}
// CHECK:           %[[COLUMN:.*]] = arith.muli %[[X]], %c2
// CHECK:           %[[ROW:.*]] = arith.muli %[[Y]], %c1
// CHECK:           memref.load %{{.*}}[%[[ROW]]]
// CHECK-NOT:       memref.alloca
// CHECK:           memref.store
func.func private @both(%x: tensor<3xf32>) -> tensor<3x4xf32> attributes {llmc.kernel = "both"} {
  %room = tensor.empty() : tensor<3x4xf32>
  %y = scf.forall (%i) in (3) shared_outs(%out = %room) -> (tensor<3x4xf32>) {
    %number = tensor.extract %x[%i] : tensor<3xf32>
    %own = tensor.empty() : tensor<1x4xf32>
    %row = scf.forall (%j) = (0) to (4) step (2) shared_outs(%into = %own) -> (tensor<1x4xf32>) {
      %part = tensor.extract_slice %into[0, %j] [1, 2] [1, 1] : tensor<1x4xf32> to tensor<1x2xf32>
      %filled = linalg.fill ins(%number : f32) outs(%part : tensor<1x2xf32>) -> tensor<1x2xf32>
      scf.forall.in_parallel {
        tensor.parallel_insert_slice %filled into %into[0, %j] [1, 2] [1, 1] : tensor<1x2xf32> into tensor<1x4xf32>
      }
    }
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %row into %out[%i, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<3x4xf32>
    }
  }
  return %y : tensor<3x4xf32>
}
func.func @calls_both(%x: tensor<3xf32>) -> tensor<3x4xf32> {
  %y = call @both(%x) : (tensor<3xf32>) -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// -----

// What no schedule has distributed stays.
// CHECK-LABEL: func.func private @plain
// CHECK-LABEL: func.func @calls_plain
// CHECK:         call @plain
func.func private @plain(%x: tensor<4xf32>) -> tensor<4xf32> attributes {llmc.kernel = "plain"} {
  return %x : tensor<4xf32>
}
func.func @calls_plain(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = call @plain(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// expected-error@+1 {{a scheduled kernel returns what its grid computes}}
func.func private @other(%x: tensor<4xf32>) -> tensor<4xf32> attributes {llmc.kernel = "other"} {
  %room = tensor.empty() : tensor<4xf32>
  %y = scf.forall (%i) in (4) shared_outs(%out = %room) -> (tensor<4xf32>) {
    %part = tensor.extract_slice %x[%i] [1] [1] : tensor<4xf32> to tensor<1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %part into %out[%i] [1] [1] : tensor<1xf32> into tensor<4xf32>
    }
  }
  return %x : tensor<4xf32>
}
func.func @calls_other(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = call @other(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// One that nothing calls is gone.
// CHECK-NOT: @unused
func.func private @unused(%x: tensor<4xf32>) -> tensor<4xf32> attributes {llmc.kernel = "unused"} {
  %room = tensor.empty() : tensor<4xf32>
  %y = scf.forall (%i) in (4) shared_outs(%out = %room) -> (tensor<4xf32>) {
    %part = tensor.extract_slice %x[%i] [1] [1] : tensor<4xf32> to tensor<1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %part into %out[%i] [1] [1] : tensor<1xf32> into tensor<4xf32>
    }
  }
  return %y : tensor<4xf32>
}

// -----

// Each workgroup finds the best of its part once it has computed it; the last to be done compares
// what they found, and leaves the counter as it was.
// CHECK-LABEL: "util.global"() {initial_value = dense<0> : tensor<1xi32>, is_mutable, sym_name = "argmax.done"
// CHECK:         func.func @row_best_1x4x16xf32_1xi32_1x4x16xf32_1xi64_1x2xf32_1x2xi32
// CHECK:           %[[X:.*]] = "stream.dispatch.workgroup.id"() {dimension = 0 : index}
// CHECK:           memref.copy
// CHECK:           %[[BEGIN:.*]] = arith.muli %[[X]], %c32
// CHECK:           "stream.binding.subspan"{{.*}} memref<1x64xf32>
// CHECK:           %[[END:.*]] = arith.addi %[[BEGIN]], %c32
// CHECK:           scf.for %{{.*}} = %[[BEGIN]] to %[[END]]
// CHECK:             arith.maximumf {{.*}} vector<32xf32>
// CHECK:           memref.store %{{.*}}, %{{.*}}[%{{.*}}, %[[X]]] : memref<1x2xf32>
// CHECK:           memref.store %{{.*}}, %{{.*}}[%{{.*}}, %[[X]]] : memref<1x2xi32>
// CHECK:           %[[BEFORE:.*]] = memref.atomic_rmw addi
// CHECK:           %[[LAST:.*]] = arith.cmpi eq, %[[BEFORE]], %c1_i32
// CHECK:           scf.if %[[LAST]]
// CHECK:             memref.store %c0_i32
// CHECK:           scf.if %[[LAST]]
// CHECK:             memref.store %{{.*}} : memref<1xi64>
// CHECK-LABEL: func.func @calls_row_best
// CHECK:         %[[OUT:.*]]:5 = "flow.dispatch"
// CHECK:         "util.global.store"(%[[OUT]]#4) {global = @argmax.done}
// CHECK:         return %[[OUT]]#0, %[[OUT]]#1
func.func private @row_best(%x: tensor<1x4x16xf32>) -> (tensor<1x4x16xf32>, tensor<1xi64>) attributes {llmc.kernel = "row"} {
  %room = tensor.empty() : tensor<1x4x16xf32>
  %y = scf.forall (%i) = (0) to (4) step (2) shared_outs(%out = %room) -> (tensor<1x4x16xf32>) {
    %part = tensor.extract_slice %x[0, %i, 0] [1, 2, 16] [1, 1, 1] : tensor<1x4x16xf32> to tensor<1x2x16xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %part into %out[0, %i, 0] [1, 2, 16] [1, 1, 1] : tensor<1x2x16xf32> into tensor<1x4x16xf32>
    }
  }
  %flat = tensor.collapse_shape %y [[0], [1, 2]] : tensor<1x4x16xf32> into tensor<1x64xf32>
  %best = "llmc.argmax"(%flat) : (tensor<1x64xf32>) -> tensor<1xi64>
  return %y, %best : tensor<1x4x16xf32>, tensor<1xi64>
}
func.func @calls_row_best(%x: tensor<1x4x16xf32>) -> (tensor<1x4x16xf32>, tensor<1xi64>) {
  %y, %best = call @row_best(%x) : (tensor<1x4x16xf32>) -> (tensor<1x4x16xf32>, tensor<1xi64>)
  return %y, %best : tensor<1x4x16xf32>, tensor<1xi64>
}

// -----

// expected-error@+1 {{a kernel that finds the best of a row cuts the row into equal parts}}
func.func private @rows_best(%x: tensor<2x4x4xf32>) -> (tensor<2x4x4xf32>, tensor<2xi64>) attributes {llmc.kernel = "row"} {
  %room = tensor.empty() : tensor<2x4x4xf32>
  %y = scf.forall (%i) in (4) shared_outs(%out = %room) -> (tensor<2x4x4xf32>) {
    %part = tensor.extract_slice %x[0, %i, 0] [2, 1, 4] [1, 1, 1] : tensor<2x4x4xf32> to tensor<2x1x4xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %part into %out[0, %i, 0] [2, 1, 4] [1, 1, 1] : tensor<2x1x4xf32> into tensor<2x4x4xf32>
    }
  }
  %flat = tensor.collapse_shape %y [[0], [1, 2]] : tensor<2x4x4xf32> into tensor<2x16xf32>
  %best = "llmc.argmax"(%flat) : (tensor<2x16xf32>) -> tensor<2xi64>
  return %y, %best : tensor<2x4x4xf32>, tensor<2xi64>
}
func.func @calls_rows_best(%x: tensor<2x4x4xf32>) -> (tensor<2x4x4xf32>, tensor<2xi64>) {
  %y, %best = call @rows_best(%x) : (tensor<2x4x4xf32>) -> (tensor<2x4x4xf32>, tensor<2xi64>)
  return %y, %best : tensor<2x4x4xf32>, tensor<2xi64>
}

// -----

// A grid may be as wide as an argument says.
// CHECK-LABEL: func.func @calls_wide(
// CHECK-SAME:      %{{.*}}: tensor<16xf32>, %[[N:.*]]: index)
// CHECK:         "flow.dispatch"(%[[N]]
func.func private @wide(%x: tensor<16xf32>, %n: index) -> tensor<16xf32> attributes {llmc.kernel = "row"} {
  %room = tensor.empty() : tensor<16xf32>
  %y = scf.forall (%i) in (%n) shared_outs(%out = %room) -> (tensor<16xf32>) {
    %part = tensor.extract_slice %x[%i] [1] [1] : tensor<16xf32> to tensor<1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %part into %out[%i] [1] [1] : tensor<1xf32> into tensor<16xf32>
    }
  }
  return %y : tensor<16xf32>
}
func.func @calls_wide(%x: tensor<16xf32>, %n: index) -> tensor<16xf32> {
  %y = call @wide(%x, %n) : (tensor<16xf32>, index) -> tensor<16xf32>
  return %y : tensor<16xf32>
}
