// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(remove-dead-parameters)' | filecheck %s

// Weights that nothing reads go, with what only they were read for; so do globals that nothing
// loads, with what is stored to them. A public global may be read from elsewhere.
// CHECK-NOT:   @unread
// CHECK-NOT:   @stored
// CHECK:       ml_program.global private mutable @read
// CHECK-NEXT:  ml_program.global public mutable @outside
// CHECK-NOT:   @unread
// CHECK-LABEL: func.func @reset
// CHECK-NEXT:    %[[ROOM:.+]] = "llmc.cache_allocate"
// CHECK-NEXT:    ml_program.global_store @read = %[[ROOM]]
// CHECK-NEXT:    ml_program.global_store @outside
// CHECK-NEXT:    return
ml_program.global private @unread(#ml_program.extern : tensor<6xf32>) : tensor<6xf32> {llmc.recipe = ["w"]}
ml_program.global private mutable @stored : tensor<2x?x2x?x8xf32>
ml_program.global private mutable @read : tensor<2x?x2x?x8xf32>
ml_program.global public mutable @outside : tensor<2x?x2x?x8xf32>
func.func @reset(%n: index) {
  %a = "llmc.cache_allocate"(%n, %n) : (index, index) -> tensor<2x?x2x?x8xf32>
  ml_program.global_store @stored = %a : tensor<2x?x2x?x8xf32>
  %b = "llmc.cache_allocate"(%n, %n) : (index, index) -> tensor<2x?x2x?x8xf32>
  ml_program.global_store @read = %b : tensor<2x?x2x?x8xf32>
  ml_program.global_store @outside = %b : tensor<2x?x2x?x8xf32>
  return
}

// CHECK-LABEL: func.func @decode
// CHECK-NOT:     llmc.parameter
// CHECK-NOT:     tensor.concat
// CHECK:         ml_program.global_load @read
func.func @decode() -> tensor<2x?x2x?x8xf32> {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<6xf32>
  %c = tensor.concat dim(0) %w, %w : (tensor<6xf32>, tensor<6xf32>) -> tensor<12xf32>
  %unread = ml_program.global_load @unread : tensor<6xf32>
  %k = ml_program.global_load @read : tensor<2x?x2x?x8xf32>
  return %k : tensor<2x?x2x?x8xf32>
}

// -----

// What a layer does not read, its callers need not compute or be given in their turn; the argument
// that numbers the layer stays, and says so. A result that no call uses is not returned.
// CHECK-LABEL: func.func private @inner(%arg0: i32, %arg1: index) -> i32 attributes {llmc.layer_argument = 1 : index}
// CHECK-NEXT:    return %arg0 : i32
func.func private @inner(%dead: tensor<4xf32>, %a: i32, %layer: index) -> (tensor<4xf32>, i32)
    attributes {llmc.layer_argument = 2 : index} {
  %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<4xf32>
  return %w, %a : tensor<4xf32>, i32
}
// CHECK-LABEL: func.func private @outer(%arg0: i32 {llmc.kept}) -> i32
// CHECK:         %[[R:.+]] = call @inner(%arg0, %{{.+}}) : (i32, index) -> i32
// CHECK-NEXT:    return %[[R]] : i32
func.func private @outer(%dead: tensor<4xf32> {llmc.gone}, %a: i32 {llmc.kept}) -> i32 {
  %c0 = arith.constant 0 : index
  %r:2 = call @inner(%dead, %a, %c0) : (tensor<4xf32>, i32, index) -> (tensor<4xf32>, i32)
  return %r#1 : i32
}
// CHECK-LABEL: func.func @trunk(%arg0: tensor<4xf32>, %arg1: i32) -> i32
// CHECK-NEXT:    call @outer(%arg1) : (i32) -> i32
func.func @trunk(%x: tensor<4xf32>, %a: i32) -> i32 {
  %r = call @outer(%x, %a) : (tensor<4xf32>, i32) -> i32
  return %r : i32
}

// -----

// A function that is a value, that is not called, or whose body is elsewhere keeps its type.
// CHECK-LABEL: func.func private @value(%arg0: i32) {
func.func private @value(%dead: i32) {
  return
}
// CHECK-LABEL: func.func private @uncalled(%arg0: i32) -> i32 {
func.func private @uncalled(%dead: i32) -> i32 {
  %c = arith.constant 1 : i32
  return %c : i32
}
// CHECK: func.func private @declared(i32) -> i32
func.func private @declared(i32) -> i32
// CHECK-LABEL: func.func @trunk
// CHECK:         call @value(%arg0)
// CHECK:         call @declared(%arg0)
func.func @trunk(%a: i32) -> ((i32) -> ()) {
  call @value(%a) : (i32) -> ()
  %d = call @declared(%a) : (i32) -> i32
  %f = func.constant @value : (i32) -> ()
  return %f : (i32) -> ()
}

// -----

func.func @invalid() {
  // expected-error@+1 {{attribute 'sources' must name a parameter}}
  %w = "llmc.parameter"() {sources = []} : () -> tensor<6xf32>
  return
}

// -----

// A module within the module has globals of its own.
// CHECK-LABEL: module @inner
// CHECK:         ml_program.global private mutable @state
module @inner {
  ml_program.global private mutable @state(dense<1.0> : tensor<4xf32>) : tensor<4xf32>
  func.func @read() -> tensor<4xf32> {
    %x = ml_program.global_load @state : tensor<4xf32>
    return %x : tensor<4xf32>
  }
}
