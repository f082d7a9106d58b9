// Valid modules that no importer would write: what passes meet where they are not expected.
// Nothing but a module.

// -----
// Functions without bodies, without arguments, without results, without callers, with themselves.
func.func private @outside(tensor<1x4xf32>, index) -> tensor<1x4xf32>
func.func private @never_called(%x: tensor<1x?x4xf32>) -> tensor<1x?x4xf32> {
  %w = "llmc.parameter"() {sources = ["a", "b"]} : () -> tensor<4x4xf32>
  %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x?x4xf32>, tensor<4x4xf32>) -> tensor<1x?x4xf32>
  return %y : tensor<1x?x4xf32>
}
func.func private @itself.layer0(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %y = call @itself.layer0(%x) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  return %y : tensor<1x4xf32>
}
func.func private @nothing.layer0() {
  return
}
func.func @main(%tokens: tensor<1x4xf32>, %n: index) -> tensor<1x4xf32> {
  call @nothing.layer0() : () -> ()
  %y = call @outside(%tokens, %n) : (tensor<1x4xf32>, index) -> tensor<1x4xf32>
  %z = call @itself.layer0(%y) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  return %z : tensor<1x4xf32>
}

// -----
// Arguments that are no tensors, or strange ones.
func.func private @strange.layer0(%a: i32, %m: memref<4x?xf32>, %u: tensor<*xf32>, %s: tensor<f32>,
                                  %z: tensor<0x4xf32>, %c: tensor<2xcomplex<f32>>, %v: vector<4xf32>,
                                  %e: tensor<4xf32, "encoding">) -> (tensor<f32>, i32) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<4x4xf32>
  %n = "llmc.linear"(%z, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<0x4xf32>, tensor<4x4xf32>) -> tensor<0x4xf32>
  %q = arith.addf %n, %n : tensor<0x4xf32>
  %f = arith.addf %e, %e : tensor<4xf32, "encoding">
  return %s, %a : tensor<f32>, i32
}

// -----
// Weights with the same name and other shapes, with strange names, in public functions, unused.
func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x3xf32>) {
  %0 = "llmc.parameter"() {sources = ["w"]} : () -> tensor<4x4xf32>
  %1 = "llmc.parameter"() {sources = ["w"]} : () -> tensor<3x4xf32>
  %2 = "llmc.parameter"() {sources = ["a \22quoted\22 \0A name", " ", "\E2\82\AC", "main"]} : () -> tensor<4xf32>
  %3 = "llmc.parameter"() {sources = ["main"]} : () -> tensor<f32>
  %4 = "llmc.parameter"() {sources = ["ints"]} : () -> tensor<4xi32>
  %y = "llmc.linear"(%x, %0) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 1 : i64}
     : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %z = "llmc.linear"(%x, %1) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  return %y, %z : tensor<2x4xf32>, tensor<2x3xf32>
}

// -----
// A weight that is the input, or both operands.
func.func @main() -> tensor<4x4xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<4x4xf32>
  %v = "llmc.parameter"() {sources = ["v"]} : () -> tensor<4xf32>
  %y = "llmc.linear"(%w, %w, %v) {operandSegmentSizes = array<i32: 1, 1, 1>, transposed = 0 : i64}
     : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %n = "llmc.rms_norm"(%y, %v) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5 : f64, offset = 1.0 : f64}
     : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %z = "llmc.linear"(%n, %y) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 1 : i64}
     : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %w : tensor<4x4xf32>
}

// -----
// Attention with all of its sizes open, with itself, with narrow keys, and without columns.
func.func private @f.layer0(%q: tensor<?x?x?x?xf32>, %k: tensor<?x2x?x4xf16>, %h: tensor<1x2x3x4xf64>,
                            %none: tensor<1x1x0x4xf32>) -> tensor<1x2x3x4xf64> {
  %p = tensor.cast %q : tensor<?x?x?x?xf32> to tensor<?x4x?x4xf32>
  %0 = "llmc.attention"(%p, %k, %k) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<?x4x?x4xf32>, tensor<?x2x?x4xf16>, tensor<?x2x?x4xf16>) -> tensor<?x4x?x4xf32>
  %1 = "llmc.attention"(%h, %h, %h) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 9 : i64, softcap = 1.0}
     : (tensor<1x2x3x4xf64>, tensor<1x2x3x4xf64>, tensor<1x2x3x4xf64>) -> tensor<1x2x3x4xf64>
  %2 = "llmc.attention"(%none, %none, %none) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<1x1x0x4xf32>, tensor<1x1x0x4xf32>, tensor<1x1x0x4xf32>) -> tensor<1x1x0x4xf32>
  return %1 : tensor<1x2x3x4xf64>
}
func.func @f(%q: tensor<?x?x?x?xf32>, %k: tensor<?x2x?x4xf16>, %h: tensor<1x2x3x4xf64>, %none: tensor<1x1x0x4xf32>) {
  %0 = call @f.layer0(%q, %k, %h, %none)
     : (tensor<?x?x?x?xf32>, tensor<?x2x?x4xf16>, tensor<1x2x3x4xf64>, tensor<1x1x0x4xf32>) -> tensor<1x2x3x4xf64>
  return
}

// -----
// Operations in loops, branches and blocks.
func.func private @main.layer0(%x: tensor<1x?x4xf32>, %t: tensor<1x?x4xf32>) -> tensor<1x?x4xf32> {
  %0 = arith.addf %t, %t : tensor<1x?x4xf32>
  %1 = arith.addf %x, %0 : tensor<1x?x4xf32>
  return %1 : tensor<1x?x4xf32>
}
func.func @main(%x: tensor<1x?x4xf32>, %c: i1, %n: index) -> tensor<1x?x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<4x4xf32>
  %0 = scf.for %i = %c0 to %n step %c1 iter_args(%h = %x) -> tensor<1x?x4xf32> {
    %v = "llmc.parameter"() {sources = ["v"]} : () -> tensor<4x4xf32>
    %g = "llmc.parameter"() {sources = ["g"]} : () -> tensor<4xf32>
    %s = arith.addf %h, %x : tensor<1x?x4xf32>
    %m = "llmc.rms_norm"(%s, %g) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5 : f64, offset = 0.0 : f64}
       : (tensor<1x?x4xf32>, tensor<4xf32>) -> tensor<1x?x4xf32>
    %a = "llmc.linear"(%m, %v) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
       : (tensor<1x?x4xf32>, tensor<4x4xf32>) -> tensor<1x?x4xf32>
    %b = "llmc.linear"(%m, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
       : (tensor<1x?x4xf32>, tensor<4x4xf32>) -> tensor<1x?x4xf32>
    %y = scf.if %c -> tensor<1x?x4xf32> {
      %z = func.call @main.layer0(%a, %x) : (tensor<1x?x4xf32>, tensor<1x?x4xf32>) -> tensor<1x?x4xf32>
      scf.yield %z : tensor<1x?x4xf32>
    } else {
      %p = arith.mulf %a, %b : tensor<1x?x4xf32>
      scf.yield %p : tensor<1x?x4xf32>
    }
    scf.yield %y : tensor<1x?x4xf32>
  }
  %2 = func.call @main.layer0(%0, %x) : (tensor<1x?x4xf32>, tensor<1x?x4xf32>) -> tensor<1x?x4xf32>
  cf.cond_br %c, ^left(%2 : tensor<1x?x4xf32>), ^right
^left(%y: tensor<1x?x4xf32>):
  %l = "llmc.linear"(%y, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 1 : i64}
     : (tensor<1x?x4xf32>, tensor<4x4xf32>) -> tensor<1x?x4xf32>
  return %l : tensor<1x?x4xf32>
^right:
  %v = "llmc.parameter"() {sources = ["v"]} : () -> tensor<4x4xf32>
  %r = "llmc.linear"(%x, %v) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
     : (tensor<1x?x4xf32>, tensor<4x4xf32>) -> tensor<1x?x4xf32>
  cf.br ^left(%r : tensor<1x?x4xf32>)
^never:
  cf.br ^never
}

// -----
// Modules in modules, symbols that passes would like to make, and functions as values.
module @inner {
  func.func private @prefill.layer0(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
    %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<1x4xf32>
    return %w : tensor<1x4xf32>
  }
  func.func @prefill(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
    %y = call @prefill.layer0(%x) : (tensor<1x4xf32>) -> tensor<1x4xf32>
    return %y : tensor<1x4xf32>
  }
}
ml_program.global private mutable @layer0.0.keys(dense<0.0> : tensor<2xf32>) : tensor<2xf32>
ml_program.global private @w(dense<1> : tensor<4xi64>) : tensor<4xi64>
ml_program.global public @seen(#ml_program.extern : tensor<?xf32>) : tensor<?xf32>
func.func @reset() {
  return
}
func.func private @prefill.layer0(%x: tensor<1x?xi64>) -> tensor<1x?xi64> {
  return %x : tensor<1x?xi64>
}
func.func @prefill(%tokens: tensor<1x?xi64>, %positions: tensor<1x?xi64>) -> tensor<1x?xi64> {
  %f = func.constant @prefill.layer0 : (tensor<1x?xi64>) -> tensor<1x?xi64>
  %y = call_indirect %f(%tokens) : (tensor<1x?xi64>) -> tensor<1x?xi64>
  %z = func.call @prefill.layer0(%y) : (tensor<1x?xi64>) -> tensor<1x?xi64>
  %0 = ml_program.global_load @layer0.0.keys : tensor<2xf32>
  ml_program.global_store @layer0.0.keys = %0 : tensor<2xf32>
  return %z : tensor<1x?xi64>
}

// -----
// Attributes of ours with values that are not ours.
"ml_program.global"() {sym_name = "a", type = tensor<4xf32>, is_mutable, llmc.recipe = 3 : i64, llmc.kv_cache} : () -> ()
func.func private @main.layer0(%x: tensor<1x4xf32>) -> tensor<1x4xf32> attributes {llmc.layer_argument = "first"} {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<4xf32>
  return %x : tensor<1x4xf32>
}
func.func private @main.layer1(%x: tensor<1x4xf32>) -> tensor<1x4xf32> attributes {llmc.layer_argument = 7 : index, llmc.kernel} {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<4xf32>
  return %x : tensor<1x4xf32>
}
func.func @main(%x: tensor<1x4xf32> {llmc.dims = "?"}) -> (tensor<1x4xf32> {llmc.dims = 4 : i32}) attributes {llmc.shapes = [1, "two"], llmc.kernel = 3 : i8} {
  %y = call @main.layer0(%x) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %z = call @main.layer1(%y) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  return %z : tensor<1x4xf32>
}

// -----
// Generics on memrefs, with several results, with constant and added indices, that scatter a weight.
#id = affine_map<(d0, d1) -> (d0, d1)>
#turned = affine_map<(d0, d1) -> (d1, d0)>
#sum = affine_map<(d0, d1) -> (d0 + d1)>
#first = affine_map<(d0, d1) -> (0, d1)>
func.func @main(%m: memref<4x4xf32>, %x: tensor<4x4xf32>, %l: tensor<7xf32>, %s: f32) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<4x4xf32>
  %e = tensor.empty() : tensor<4x4xf32>
  linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%m : memref<4x4xf32>) {
  ^bb0(%o: f32):
    linalg.yield %s : f32
  }
  %r:2 = linalg.generic {indexing_maps = [#turned, #first, #sum, #id, #turned], iterator_types = ["parallel", "parallel"]}
      ins(%w, %x, %l : tensor<4x4xf32>, tensor<4x4xf32>, tensor<7xf32>) outs(%e, %e : tensor<4x4xf32>, tensor<4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32, %p: f32):
    %i = linalg.index 0 : index
    %g = tensor.extract %w[%i, %i] : tensor<4x4xf32>
    %h = arith.mulf %a, %g : f32
    %j = arith.addf %h, %c : f32
    linalg.yield %j, %b : f32, f32
  } -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %t = linalg.generic {indexing_maps = [#id, #turned], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<4x4xf32>) outs(%w : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4x4xf32>
  %k = tensor.insert_slice %t into %w[0, 0] [4, 4] [1, 1] : tensor<4x4xf32> into tensor<4x4xf32>
  %y = "llmc.linear"(%k, %t) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = arith.mulf %y, %r#0 : tensor<4x4xf32>
  return %z, %r#1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----
// Operations that this MLIR does not know, around those that it does.
"util.global"() {sym_name = "w", type = tensor<4x4xf32>} : () -> ()
"other.symbol"() ({
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<4x4xf32>
  "other.end"(%w) : (tensor<4x4xf32>) -> ()
}) {sym_name = "holder", uses = [@main, @holder::@main]} : () -> ()
func.func @main(%x: !other.type<4>, %y: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %v = "util.global.load"() {global = @w} : () -> tensor<4x4xf32>
  %w:2 = "other.op"(%x) ({
  ^bb0(%a: tensor<4x4xf32>):
    %b = "llmc.linear"(%y, %a) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    "other.end"(%b) : (tensor<2x4xf32>) -> ()
  }) : (!other.type<4>) -> (tensor<4x4xf32>, tensor<?x4xf32>)
  %z = "llmc.linear"(%y, %w#0) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %n = "llmc.rms_norm"(%z) {operandSegmentSizes = array<i32: 1, 0>, epsilon = 0.0 : f64, offset = 0.0 : f64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  "other.use"(%n, %w#1, %v) : (tensor<2x4xf32>, tensor<?x4xf32>, tensor<4x4xf32>) -> ()
  return %n : tensor<2x4xf32>
}

// -----
// Reshapes and slices that are no simple ones.
func.func @main(%x: tensor<?x?x6xf32>, %shape: tensor<3xi64>, %one: tensor<1xi32>, %n: index, %u: tensor<*xf32>) -> (tensor<?x?x?xf32>, tensor<f32>, tensor<*xf32>) {
  %0 = tensor.reshape %x(%shape) : (tensor<?x?x6xf32>, tensor<3xi64>) -> tensor<?x?x?xf32>
  %1 = tensor.extract_slice %x[%n, 0, 5] [1, 1, 1] [1, 1, 1] : tensor<?x?x6xf32> to tensor<f32>
  %2 = tensor.extract_slice %x[%n, %n, 0] [%n, 1, 3] [2, %n, 2] : tensor<?x?x6xf32> to tensor<?x3xf32>
  %3 = "llmc.parameter"() {sources = ["w"]} : () -> tensor<6xf32>
  %4 = "llmc.rms_norm"(%x, %3) {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5 : f64, offset = 0.0 : f64} : (tensor<?x?x6xf32>, tensor<6xf32>) -> tensor<?x?x6xf32>
  %5 = tensor.extract_slice %4[0, %n, 0] [1, 1, 6] [1, 1, 1] : tensor<?x?x6xf32> to tensor<6xf32>
  %6 = tensor.reshape %5(%one) : (tensor<6xf32>, tensor<1xi32>) -> tensor<?xf32>
  %c6 = arith.constant dense<6> : tensor<1xi32>
  %7 = tensor.reshape %u(%c6) : (tensor<*xf32>, tensor<1xi32>) -> tensor<6xf32>
  %8 = tensor.extract_slice %4[0, 0, 0] [1, 0, 6] [1, 1, 1] : tensor<?x?x6xf32> to tensor<1x0x6xf32>
  %c = arith.constant dense<> : tensor<0xi32>
  %9 = tensor.reshape %1(%c) : (tensor<f32>, tensor<0xi32>) -> tensor<f32>
  return %0, %9, %u : tensor<?x?x?xf32>, tensor<f32>, tensor<*xf32>
}

// -----
// Cosines of what are no positions, half of what attention needs of a cache.
func.func private @main.layer0(%layer: index, %cache: tensor<1x?x1x?x4xf32>, %s: tensor<?xi64>, %q: tensor<?x1x?x4xf32>) -> tensor<?x1x?x4xf32> attributes {llmc.layer_argument = 0 : index} {
  %1 = "llmc.cache_read"(%cache, %layer, %layer, %layer, %layer) : (tensor<1x?x1x?x4xf32>, index, index, index, index) -> tensor<?x1x?x4xf32>
  %2 = "llmc.attention"(%q, %1, %1, %layer, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<?x1x?x4xf32>, tensor<?x1x?x4xf32>, tensor<?x1x?x4xf32>, index, tensor<?xi64>) -> tensor<?x1x?x4xf32>
  %3 = "llmc.attention"(%q, %1, %1, %layer) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}
     : (tensor<?x1x?x4xf32>, tensor<?x1x?x4xf32>, tensor<?x1x?x4xf32>, index) -> tensor<?x1x?x4xf32>
  return %3 : tensor<?x1x?x4xf32>
}
func.func @main(%ids: tensor<i64>, %p: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %f = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %c = math.cos %p : tensor<2x3xf32>
  %d = math.cos %f : tensor<3xf32>
  %t = arith.constant false
  cf.assert %t, "never"
  return %c : tensor<2x3xf32>
}
