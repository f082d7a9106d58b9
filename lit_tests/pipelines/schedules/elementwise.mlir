// RUN: llmc-opt %s --schedule='elementwise{lanes=8}' | filecheck %s

// Two operations become one pass over the rows, 8 elements at a time; what the first makes is never
// in memory. The rows' length is dynamic: the vectors are masked.
// CHECK-LABEL: func.func @two
// CHECK:         scf.for
// CHECK:           scf.for {{.*}} step %c8
// CHECK:             vector.create_mask
// CHECK:             %[[EXP:.+]] = math.exp {{.*}} : vector<1x8xf32>
// CHECK-NEXT:        %[[SUM:.+]] = arith.addf %[[EXP]]
// CHECK:             vector.transfer_write %[[SUM]]
// CHECK-NOT:     linalg
func.func @two(%x: tensor<4x?xf32>) -> tensor<4x?xf32> attributes {llmc.kernel = "elementwise"} {
  %c1 = arith.constant 1 : index
  %columns = tensor.dim %x, %c1 : tensor<4x?xf32>
  %room = tensor.empty(%columns) : tensor<4x?xf32>
  %e = linalg.exp ins(%x : tensor<4x?xf32>) outs(%room : tensor<4x?xf32>) -> tensor<4x?xf32>
  %y = linalg.add ins(%e, %x : tensor<4x?xf32>, tensor<4x?xf32>)
                  outs(%room : tensor<4x?xf32>) -> tensor<4x?xf32>
  return %y : tensor<4x?xf32>
}

// Other kernels stay.
// CHECK-LABEL: func.func @other
// CHECK:         linalg.exp
func.func @other(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = linalg.exp ins(%x : tensor<4x8xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// A look-up is vectorised too: 8 elements of the table are gathered at a time.
// CHECK-LABEL: func.func @look_up
// CHECK:         scf.for {{.*}} step %c8
// CHECK:           vector.gather %arg1{{.*}} into vector<1x8xf32>
// CHECK-NOT:     linalg
func.func @look_up(%ids: tensor<4xi64>, %table: tensor<32x16xf32>) -> tensor<4x16xf32>
    attributes {llmc.kernel = "elementwise"} {
  %room = tensor.empty() : tensor<4x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(t, c) -> (t)>, affine_map<(t, c) -> (t, c)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%ids : tensor<4xi64>) outs(%room : tensor<4x16xf32>) {
  ^bb0(%id: i64, %out: f32):
    %row = arith.index_cast %id : i64 to index
    %column = linalg.index 1 : index
    %element = tensor.extract %table[%row, %column] : tensor<32x16xf32>
    linalg.yield %element : f32
  } -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}
