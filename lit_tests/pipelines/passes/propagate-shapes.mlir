// RUN: llmc-opt %s --split-input-file --propagate-shapes --verify-diagnostics -o %t
// RUN: filecheck %s --input-file %t
// RUN: llmc-opt %s --split-input-file --propagate-shapes='tokens=128 past=1000 batch=3 sequences=4 capacity=1024' --verify-diagnostics -o %t
// RUN: filecheck %s --input-file %t --check-prefix=BOUND

// The interface of a model's variant gives the symbols; a layer has those that all of its calls
// pass. An operation without a dynamic result is left as it is.
// CHECK-LABEL: func.func private @layer
// CHECK-SAME:    llmc.argument_shapes = [{{\[}}"1", "tokens", "8"], [], []]
// CHECK-SAME:    llmc.peak_bytes = "32*tokens"
// CHECK:         ml_program.global_load @keys
// CHECK-SAME:      llmc.shape = ["2", "sequences", "1", "capacity", "8"]
// CHECK:         tensor.expand_shape
// CHECK-SAME:      llmc.shape = ["1", "1", "tokens", "8"]
// CHECK:         "llmc.cache_append"
// CHECK-SAME:      llmc.shape = ["2", "sequences", "1", "capacity", "8"]
// CHECK:         "llmc.cache_read"
// CHECK-SAME:      llmc.shape = ["1", "1", "past + tokens", "8"]
// CHECK-NEXT:    arith.constant dense<0> : tensor<1xi64>
// CHECK:         "llmc.attention"
// CHECK-SAME:      llmc.shape = ["1", "1", "tokens", "8"]

// Half as many rows are left, rounded up. Call and function have the fuller of two moments.
// CHECK-LABEL: func.func @prefill
// CHECK-SAME:    llmc.argument_shapes = [{{\[}}"1", "tokens"], ["1"], [], []]
// CHECK-SAME:    llmc.peak_bytes = "64*tokens"
// CHECK:         linalg.generic
// CHECK-SAME:      llmc.shape = ["1", "tokens", "8"]
// CHECK:         call @layer
// CHECK-SAME:      llmc.shape = ["1", "tokens", "8"]
// CHECK:         tensor.extract_slice
// CHECK-SAME:      llmc.shape = ["ceiling(tokens/2)", "8"]

// CHECK-LABEL: func.func @reset
// CHECK:         llmc.shape = ["2", "sequences", "1", "capacity", "8"]

// BOUND-LABEL: func.func private @layer
// BOUND-SAME:    llmc.peak_bytes_bound = 4096 : i64
// BOUND:         "llmc.cache_read"
// BOUND-SAME:      llmc.shape_bound = array<i64: 1, 1, 1128, 8>
// BOUND-LABEL: func.func @prefill
// BOUND:         tensor.extract_slice
// BOUND-SAME:      llmc.shape_bound = array<i64: 64, 8>
ml_program.global private mutable @keys : tensor<2x?x1x?x8xf32>

func.func private @layer(%x: tensor<1x?x8xf32>, %past: index, %layer: index) -> tensor<1x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %tokens = tensor.dim %x, %c1 : tensor<1x?x8xf32>
  %columns = arith.addi %past, %tokens : index
  %cache = ml_program.global_load @keys : tensor<2x?x1x?x8xf32>
  %rows = tensor.expand_shape %x [[0, 1], [2], [3]] output_shape [1, 1, %tokens, 8]
        : tensor<1x?x8xf32> into tensor<1x1x?x8xf32>
  %new = "llmc.cache_append"(%cache, %rows, %layer, %c0, %past)
       : (tensor<2x?x1x?x8xf32>, tensor<1x1x?x8xf32>, index, index, index) -> tensor<2x?x1x?x8xf32>
  ml_program.global_store @keys = %new : tensor<2x?x1x?x8xf32>
  %held = "llmc.cache_read"(%new, %layer, %c0, %c1, %columns)
        : (tensor<2x?x1x?x8xf32>, index, index, index, index) -> tensor<1x1x?x8xf32>
  %start = arith.constant dense<0> : tensor<1xi64>
  %o = "llmc.attention"(%rows, %held, %held, %past, %start)
     {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.25 : f64, window = 0 : i64,
      softcap = 0.0 : f64}
     : (tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, index, tensor<1xi64>)
     -> tensor<1x1x?x8xf32>
  %y = tensor.collapse_shape %o [[0, 1], [2], [3]] : tensor<1x1x?x8xf32> into tensor<1x?x8xf32>
  return %y : tensor<1x?x8xf32>
}

func.func @prefill(%ids: tensor<1x?xi64>, %start: tensor<1xi64>, %sequence: i64, %past: i64)
    -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %held = arith.index_cast %past : i64 to index
  %tokens = tensor.dim %ids, %c1 : tensor<1x?xi64>
  %room = tensor.empty(%tokens) : tensor<1x?x8xf32>
  %x = linalg.generic {indexing_maps = [affine_map<(b, t, c) -> (b, t)>, affine_map<(b, t, c) -> (b, t, c)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%ids : tensor<1x?xi64>) outs(%room : tensor<1x?x8xf32>) {
  ^bb0(%id: i64, %out: f32):
    %f = arith.sitofp %id : i64 to f32
    linalg.yield %f : f32
  } -> tensor<1x?x8xf32>
  %y = func.call @layer(%x, %held, %c0) : (tensor<1x?x8xf32>, index, index) -> tensor<1x?x8xf32>
  %z = func.call @layer(%y, %held, %c1) : (tensor<1x?x8xf32>, index, index) -> tensor<1x?x8xf32>
  %half = arith.ceildivui %tokens, %c2 : index
  %s = tensor.extract_slice %z[0, 0, 0] [1, %half, 8] [1, 1, 1] : tensor<1x?x8xf32> to tensor<?x8xf32>
  return %s : tensor<?x8xf32>
}

func.func @reset(%sequences: i64, %capacity: i64) {
  %s = arith.index_cast %sequences : i64 to index
  %c = arith.index_cast %capacity : i64 to index
  %cache = "llmc.cache_allocate"(%s, %c) : (index, index) -> tensor<2x?x1x?x8xf32>
  ml_program.global_store @keys = %cache : tensor<2x?x1x?x8xf32>
  return
}

// -----

// Rows of several sequences are as many as the batch.
// CHECK-LABEL: func.func @decode_batch
// CHECK:         "llmc.embedding"
// CHECK-SAME:      llmc.shape = ["batch", "1", "8"]
// BOUND-LABEL: func.func @decode_batch
// BOUND:         "llmc.embedding"
// BOUND-SAME:      llmc.shape_bound = array<i64: 3, 1, 8>
func.func @decode_batch(%ids: tensor<?x1xi64>, %start: tensor<?xi64>, %sequence: i64, %past: i64) -> tensor<?x1x8xf32> {
  %table = "llmc.parameter"() {sources = ["table"]} : () -> tensor<5x8xf32>
  %x = "llmc.embedding"(%ids, %table) : (tensor<?x1xi64>, tensor<5x8xf32>) -> tensor<?x1x8xf32>
  return %x : tensor<?x1x8xf32>
}

// -----

// So are those that are taken by number, and what is added up of two for each.
// CHECK-LABEL: func.func @taken
// CHECK:         "llmc.take_rows"
// CHECK-SAME:      llmc.shape = ["arg0_dim0", "2", "4"]
// CHECK:         "llmc.combine_grouped_experts"
// CHECK-SAME:      llmc.shape = ["arg3_dim0", "6"]
func.func @taken(%ids: tensor<?xi32>, %x: tensor<7x2x4xi8>, %y: tensor<?x6xf32>, %weights: tensor<?x2xf32>) -> (tensor<?x2x4xi8>, tensor<?x6xf32>) {
  %taken = "llmc.take_rows"(%ids, %x) {top_k = 1 : i64} : (tensor<?xi32>, tensor<7x2x4xi8>) -> tensor<?x2x4xi8>
  %sums = "llmc.combine_grouped_experts"(%y, %ids, %weights) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<?x6xf32>, tensor<?xi32>, tensor<?x2xf32>) -> tensor<?x6xf32>
  return %taken, %sums : tensor<?x2x4xi8>, tensor<?x6xf32>
}

// -----

// An operation writes over its destination once nobody reads that again; a view takes no memory.
// CHECK-LABEL: func.func @in_place
// CHECK-SAME:    llmc.peak_bytes = "400"
func.func @in_place(%x: tensor<100xf32>) -> tensor<10x10xf32> {
  %room = tensor.empty() : tensor<100xf32>
  %a = linalg.exp ins(%x : tensor<100xf32>) outs(%room : tensor<100xf32>) -> tensor<100xf32>
  %b = linalg.add ins(%x, %x : tensor<100xf32>, tensor<100xf32>) outs(%a : tensor<100xf32>) -> tensor<100xf32>
  %c = tensor.expand_shape %b [[0, 1]] output_shape [10, 10] : tensor<100xf32> into tensor<10x10xf32>
  return %c : tensor<10x10xf32>
}

// A destination that is read again is not written over, nor is an argument.
// CHECK-LABEL: func.func @copied
// CHECK-SAME:    llmc.peak_bytes = "800"
func.func @copied(%x: tensor<100xf32>) -> (tensor<100xf32>, tensor<100xf32>) {
  %a = linalg.exp ins(%x : tensor<100xf32>) outs(%x : tensor<100xf32>) -> tensor<100xf32>
  %b = linalg.add ins(%x, %x : tensor<100xf32>, tensor<100xf32>) outs(%a : tensor<100xf32>) -> tensor<100xf32>
  return %a, %b : tensor<100xf32>, tensor<100xf32>
}

// What is no longer needed is given back: of a, b and c never more than two are there, the larger
// of which are 400 and 800 bytes.
// CHECK-LABEL: func.func @given_back
// CHECK-SAME:    llmc.peak_bytes = "1200"
func.func @given_back(%x: tensor<100xf32>) -> tensor<100xf16> {
  %room = tensor.empty() : tensor<100xf32>
  %wide = tensor.empty() : tensor<100xf64>
  %narrow = tensor.empty() : tensor<100xf16>
  %a = linalg.exp ins(%x : tensor<100xf32>) outs(%room : tensor<100xf32>) -> tensor<100xf32>
  %b = linalg.copy ins(%a : tensor<100xf32>) outs(%wide : tensor<100xf64>) -> tensor<100xf64>
  %c = linalg.copy ins(%b : tensor<100xf64>) outs(%narrow : tensor<100xf16>) -> tensor<100xf16>
  return %c : tensor<100xf16>
}

// -----

// In a loop what goes round is written over in place; what a round makes for itself is added.
// CHECK-LABEL: func.func @loop
// CHECK-SAME:    llmc.argument_shapes = [{{\[}}"arg0_dim0"], []]
// CHECK-SAME:    llmc.peak_bytes = "8*arg0_dim0"
// CHECK:         scf.for
// CHECK:         llmc.shape = ["arg0_dim0"]
func.func @loop(%x: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %d = tensor.dim %x, %c0 : tensor<?xf32>
  %room = tensor.empty(%d) : tensor<?xf32>
  %first = linalg.exp ins(%x : tensor<?xf32>) outs(%room : tensor<?xf32>) -> tensor<?xf32>
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%y = %first) -> (tensor<?xf32>) {
    %own = tensor.empty(%d) : tensor<?xf32>
    %e = linalg.exp ins(%y : tensor<?xf32>) outs(%own : tensor<?xf32>) -> tensor<?xf32>
    %z = linalg.add ins(%e, %y : tensor<?xf32>, tensor<?xf32>) outs(%y : tensor<?xf32>) -> tensor<?xf32>
    scf.yield %z : tensor<?xf32>
  }
  return %last : tensor<?xf32>
}

// What grows from round to round is as large as nobody knows, and so is what depends on data.
// CHECK-LABEL: func.func @unknown
// CHECK-SAME:    llmc.peak_bytes = "4*(arg0_dim0 + 2*n[[B:[0-9]+]])"
// CHECK:         tensor.empty
// CHECK-SAME:      llmc.shape = ["n[[A:[0-9]+]]"]
// CHECK:         tensor.concat
// CHECK-SAME:      llmc.shape = ["arg0_dim0 + n[[B]]"]
// CHECK:         llmc.shape = ["n[[B]]"]
func.func @unknown(%x: tensor<?xf32>, %n: index) -> (tensor<?xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %number = tensor.extract %x[%c0] : tensor<?xf32>
  %whole = arith.fptosi %number : f32 to i64
  %size = arith.index_cast %whole : i64 to index
  %room = tensor.empty(%size) : tensor<?xf32>
  %grown = scf.for %i = %c0 to %n step %c1 iter_args(%y = %x) -> (tensor<?xf32>) {
    %z = tensor.concat dim(0) %y, %x : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    scf.yield %z : tensor<?xf32>
  }
  return %room, %grown : tensor<?xf32>, tensor<?xf32>
}

// What a round takes from another that grows grows with it, though the first round leaves it as it
// was; so does what both branches agree on in the first round alone.
// CHECK-LABEL: func.func @follows
// CHECK:         scf.if
// CHECK:         llmc.shape = ["n[[R:[0-9]+]]"]
// CHECK:         llmc.shape = [{{\[}}"n[[P:[0-9]+]]"], ["n[[Q:[0-9]+]]"]]
func.func @follows(%x: tensor<?xf32>, %n: index, %is: i1) -> (tensor<?xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %last:2 = scf.for %i = %c0 to %n step %c1 iter_args(%p = %x, %q = %x) -> (tensor<?xf32>, tensor<?xf32>) {
    %either = scf.if %is -> tensor<?xf32> {
      scf.yield %q : tensor<?xf32>
    } else {
      scf.yield %x : tensor<?xf32>
    }
    %z = tensor.concat dim(0) %q, %x : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    scf.yield %either, %z : tensor<?xf32>, tensor<?xf32>
  }
  return %last#0, %last#1 : tensor<?xf32>, tensor<?xf32>
}

// -----

// Calls that pass different extents leave those of the callee open.
// CHECK-LABEL: func.func private @twice
// CHECK-SAME:    llmc.argument_shapes = [{{\[}}"n0"]]
// CHECK-SAME:    llmc.peak_bytes = "4*n0"
// CHECK-LABEL: func.func @caller
// CHECK-SAME:    llmc.peak_bytes = "4*(arg0_dim0 + arg0_dim1)"
// CHECK:         call @twice{{.*}}llmc.shape = ["arg0_dim0"]
// CHECK:         call @twice{{.*}}llmc.shape = ["arg0_dim1"]
func.func private @twice(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : tensor<?xf32>
  %room = tensor.empty(%d) : tensor<?xf32>
  %y = linalg.add ins(%x, %x : tensor<?xf32>, tensor<?xf32>) outs(%room : tensor<?xf32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}

func.func @caller(%x: tensor<?x?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %d0 = tensor.dim %x, %c0 : tensor<?x?xf32>
  %d1 = tensor.dim %x, %c1 : tensor<?x?xf32>
  %a = tensor.extract_slice %x[0, 0] [%d0, 1] [1, 1] : tensor<?x?xf32> to tensor<?xf32>
  %b = tensor.extract_slice %x[0, 0] [1, %d1] [1, 1] : tensor<?x?xf32> to tensor<?xf32>
  %p = func.call @twice(%a) : (tensor<?xf32>) -> tensor<?xf32>
  %q = func.call @twice(%b) : (tensor<?xf32>) -> tensor<?xf32>
  return %p, %q : tensor<?xf32>, tensor<?xf32>
}

// -----

// A kernel has the symbols that its callers pass, as every private function has.
// CHECK-LABEL: func.func private @kernel
// CHECK-SAME:    llmc.argument_shapes = [{{\[}}"tokens"]]
func.func private @kernel(%x: tensor<?xf32>) -> tensor<?xf32> attributes {llmc.kernel = "elementwise"} {
  return %x : tensor<?xf32>
}

func.func @prefill(%ids: tensor<1x?xi64>, %start: tensor<1xi64>, %sequence: i64, %past: i64) -> tensor<?xf32> {
  %c1 = arith.constant 1 : index
  %tokens = tensor.dim %ids, %c1 : tensor<1x?xi64>
  %room = tensor.empty(%tokens) : tensor<?xf32>
  %y = func.call @kernel(%room) : (tensor<?xf32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}

// -----

// One loop over extents that can never be equal.
func.func @contradiction(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %d = tensor.dim %x, %c0 : tensor<?xf32>
  %more = arith.addi %d, %c1 : index
  %room = tensor.empty(%more) : tensor<?xf32>
  // expected-error@+1 {{extents that must be equal are arg0_dim0 and arg0_dim0 + 1}}
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
                       iterator_types = ["parallel"]}
      ins(%x : tensor<?xf32>) outs(%room : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<?xf32>
  return %y : tensor<?xf32>
}

// -----

func.func @wrong_cast() -> tensor<4xf32> {
  %c3 = arith.constant 3 : index
  %room = tensor.empty(%c3) : tensor<?xf32>
  // expected-error@+1 {{extents that must be equal are 4 and 3}}
  %y = tensor.cast %room : tensor<?xf32> to tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// The largest logits of each sequence, as many as are asked for.
// CHECK-LABEL: func.func @top_k
// CHECK:         llmc.top_k{{.*}}llmc.shape = [{{\[}}"batch", "count"], ["batch", "count"]]
func.func @top_k(%logits: tensor<?x10xf32>, %count: i64) -> (tensor<?x?xf32>, tensor<?x?xi64>) {
  %k = arith.index_cast %count : i64 to index
  %values, %tokens = "llmc.top_k"(%logits, %k)
    : (tensor<?x10xf32>, index) -> (tensor<?x?xf32>, tensor<?x?xi64>)
  return %values, %tokens : tensor<?x?xf32>, tensor<?x?xi64>
}

// -----

// Numbers that Python cannot read are not known.
// CHECK-LABEL: func.func @of_four_bits
// BOUND-LABEL: func.func @of_four_bits
func.func @of_four_bits() -> tensor<2xi4> {
  %a = arith.constant dense<[1, 2]> : tensor<2xi4>
  return %a : tensor<2xi4>
}
