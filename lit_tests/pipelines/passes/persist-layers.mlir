// RUN: llmc-opt %s --persist-layers --allow-unregistered-dialect --split-input-file --verify-diagnostics | filecheck %s
// RUN: llmc-opt %s --persist-layers=workgroups=8 --allow-unregistered-dialect --split-input-file --verify-diagnostics | filecheck %s --check-prefix=FEW
// RUN: not llmc-opt %s --persist-layers=workgroups=0 --allow-unregistered-dialect 2>&1 | filecheck %s --check-prefix=NONE
// NONE: error: option 'workgroups' of pass 'persist-layers' must be from 1 to 1048576, not 0

// Two layers become one dispatch, whose phases are the two dispatches of a layer. The kernel takes
// a task from a counter, waits for what it needs or puts it back, and takes the next in the moment
// in which it counts this one as done. What lies on its stack lies there once. Its hidden state and its counters are written in place. It is told the first layer and how
// many they are: a layer that does not follow is another dispatch of the same kernel.
// CHECK-LABEL: "util.global"() {initial_value = dense<0> : tensor<16xi64>, is_mutable, sym_name = "persistent.counters"
// CHECK-NOT:     sym_name = "double"
// CHECK:         "stream.return"(%c64, %c1{{.*}}, %c1{{.*}})
// FEW:           "stream.return"(%c8, %c1{{.*}}, %c1{{.*}})
// CHECK:         func.func @decode.layer0_{{.*}}(%[[PAST:.*]]: index, %[[FIRST:.*]]: index, %[[COUNT:.*]]: index, %[[WEIGHT:.*]]: !stream.binding, %[[HIDDEN:.*]]: !stream.binding, %{{.*}}: !stream.binding, %[[ROOM:.*]]: !stream.binding)
// CHECK:           memref.alloca
// CHECK:           %[[WIDTH:.*]] = arith.addi %[[PAST]], %c1
// CHECK:           arith.muli %{{.*}}, %[[COUNT]]
// CHECK:           %[[TAKE:.*]] = arith.constant 1 : i64
// CHECK:           memref.atomic_rmw addi %[[TAKE]]
// CHECK:           scf.while
// CHECK:             scf.while
// CHECK:               %[[LOOK:.*]] = arith.constant 0 : i64
// CHECK:               memref.atomic_rmw addi %[[LOOK]]
// CHECK:               memref.generic_atomic_rmw
// CHECK:             arith.divui
// CHECK:             scf.if
// CHECK:               "stream.binding.subspan"(%[[HIDDEN]]
// CHECK:               "stream.binding.subspan"(%[[ROOM]]
// CHECK:               memref.load
// CHECK:             } else {
// CHECK:               %[[LAYER:.*]] = arith.addi %{{.*}}, %[[FIRST]]
// CHECK-NOT:           memref.alloca
// CHECK:               "stream.binding.subspan"(%[[ROOM]]
// CHECK:               %[[STACKED:.*]] = "stream.binding.subspan"(%[[WEIGHT]]
// CHECK:               "stream.binding.subspan"(%[[HIDDEN]]
// CHECK:               memref.load %[[STACKED]][%[[LAYER]]]
// CHECK:             }
// CHECK:             %[[AGAIN:.*]] = arith.constant 4294967297 : i64
// CHECK:             memref.atomic_rmw addi %[[AGAIN]]
// CHECK-NOT:     "stream.executable"
// CHECK-NOT:     func.func private
// CHECK-LABEL: func.func @decode(
// CHECK-NOT:     call
// CHECK:         %[[OUT:.*]]:3 = "flow.dispatch"(%arg1, %c2{{.*}}, %c2{{[^,]*}}, %arg1, %c2{{.*}}, %c2{{[^,]*}}, %{{.*}}, %arg0, %{{.*}}) {entry_points = [@[[KERNEL:[^:]*]]::
// CHECK-SAME:    tied_operands = [-1 : index, 4 : index, 5 : index]
// CHECK:         "util.global.store"(%[[OUT]]#2) {global = @persistent.counters}
// CHECK:         %[[LAST:.*]]:3 = "flow.dispatch"(%arg1, %c5{{.*}}, %c1{{[^,]*}}, %arg1, {{.*}}, %[[OUT]]#1, %{{.*}}) {entry_points = [@[[KERNEL]]::
// CHECK:         return %[[LAST]]#1
"stream.executable"() ({
  "stream.executable.export"() ({
  ^bb0(%past: index):
    %c1 = arith.constant 1 : index
    %width = arith.addi %past, %c1 : index
    "stream.return"(%width, %c1, %c1) : (index, index, index) -> ()
  }) {function_ref = @double, sym_name = "double"} : () -> ()
  builtin.module {
    func.func @double(%past: index, %in: !stream.binding, %out: !stream.binding) {
      %c0 = arith.constant 0 : index
      %x = "stream.binding.subspan"(%in, %c0) : (!stream.binding, index) -> memref<4xf32>
      %y = "stream.binding.subspan"(%out, %c0) : (!stream.binding, index) -> memref<4xf32>
      %i = "stream.dispatch.workgroup.id"() {dimension = 0 : index} : () -> index
      %a = memref.load %x[%i] : memref<4xf32>
      %b = arith.addf %a, %a : f32
      memref.store %b, %y[%i] : memref<4xf32>
      return
    }
  }
  "stream.executable.end"() : () -> ()
}) {sym_name = "double", sym_visibility = "private"} : () -> ()
"stream.executable"() ({
  "stream.executable.export"() ({
  ^bb0(%layer: index):
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    "stream.return"(%c3, %c1, %c1) : (index, index, index) -> ()
  }) {function_ref = @weigh, sym_name = "weigh"} : () -> ()
  builtin.module {
    func.func @weigh(%layer: index, %in: !stream.binding, %weight: !stream.binding, %out: !stream.binding) {
      %c0 = arith.constant 0 : index
      %x = "stream.binding.subspan"(%in, %c0) : (!stream.binding, index) -> memref<4xf32>
      %w = "stream.binding.subspan"(%weight, %c0) : (!stream.binding, index) -> memref<9xf32>
      %y = "stream.binding.subspan"(%out, %c0) : (!stream.binding, index) -> memref<1x4xf32>
      %i = "stream.dispatch.workgroup.id"() {dimension = 0 : index} : () -> index
      %room = memref.alloca() : memref<16384xf32>
      %a = memref.load %x[%i] : memref<4xf32>
      %b = memref.load %w[%layer] : memref<9xf32>
      %c = arith.mulf %a, %b : f32
      memref.store %c, %y[%c0, %i] : memref<1x4xf32>
      return
    }
  }
  "stream.executable.end"() : () -> ()
}) {sym_name = "weigh", sym_visibility = "private"} : () -> ()
"util.global"() {sym_name = "weight", sym_visibility = "private", type = tensor<9xf32>} : () -> ()
func.func private @decode.layer0(%x: tensor<1x4xf32>, %layer: index, %past: index) -> tensor<1x4xf32> attributes {llmc.layer_argument = 1 : index} {
  %w = "util.global.load"() {global = @weight} : () -> tensor<9xf32>
  %a = tensor.collapse_shape %x [[0, 1]] : tensor<1x4xf32> into tensor<4xf32>
  %b = "flow.dispatch"(%past, %past, %a) {entry_points = [@double::@double], operandSegmentSizes = array<i32: 1, 2, 0, 0>, tied_operands = [-1 : index]} : (index, index, tensor<4xf32>) -> tensor<4xf32>
  %c = "flow.dispatch"(%layer, %layer, %b, %w) {entry_points = [@weigh::@weigh], operandSegmentSizes = array<i32: 1, 3, 0, 0>, tied_operands = [-1 : index]} : (index, index, tensor<4xf32>, tensor<9xf32>) -> tensor<1x4xf32>
  return %c : tensor<1x4xf32>
}
func.func @decode(%x: tensor<1x4xf32>, %past: index) -> tensor<1x4xf32> {
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c5 = arith.constant 5 : index
  %a = call @decode.layer0(%x, %c2, %past) : (tensor<1x4xf32>, index, index) -> tensor<1x4xf32>
  %b = call @decode.layer0(%a, %c3, %past) : (tensor<1x4xf32>, index, index) -> tensor<1x4xf32>
  %c = call @decode.layer0(%b, %c5, %past) : (tensor<1x4xf32>, index, index) -> tensor<1x4xf32>
  return %c : tensor<1x4xf32>
}

// So are one that is told something else, and one before it whose result others read, too.
// CHECK-LABEL: func.func @told(
// CHECK:         %[[A:.*]]:3 = "flow.dispatch"(%arg1, %c2{{.*}}, %c1{{[^,]*}}, %arg1,
// CHECK:         %[[B:.*]]:3 = "flow.dispatch"(%arg2, %c3{{.*}}, %c1{{[^,]*}}, %arg2, {{.*}}, %[[A]]#1,
// CHECK:         %[[C:.*]]:3 = "flow.dispatch"(%arg2, %c4{{.*}}, %c1{{[^,]*}}, %arg2, {{.*}}, %[[B]]#1,
// CHECK:         return %[[B]]#1, %[[C]]#1
func.func @told(%x: tensor<1x4xf32>, %past: index, %later: index) -> (tensor<1x4xf32>, tensor<1x4xf32>) {
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %a = call @decode.layer0(%x, %c2, %past) : (tensor<1x4xf32>, index, index) -> tensor<1x4xf32>
  %b = call @decode.layer0(%a, %c3, %later) : (tensor<1x4xf32>, index, index) -> tensor<1x4xf32>
  %c = call @decode.layer0(%b, %c4, %later) : (tensor<1x4xf32>, index, index) -> tensor<1x4xf32>
  return %b, %c : tensor<1x4xf32>, tensor<1x4xf32>
}

// -----

// What a kernel asks memory for is asked for before the wait, if that needs nothing that others
// write; the rest of it is in its place.
// CHECK:       func.func @asks.layer0_{{.*}}index, %[[PLACES:[^:]*]]: !stream.binding,
// CHECK:         scf.while
// CHECK:           scf.if
// CHECK:             "stream.binding.subspan"(%[[PLACES]]
// CHECK:             memref.load
// CHECK:             scf.for
// CHECK:               memref.prefetch
// CHECK-NOT:         memref.prefetch
// CHECK:           scf.while
// CHECK:             memref.generic_atomic_rmw
// CHECK-NOT:       memref.prefetch
// CHECK:           memref.store
// CHECK:           scf.for
// CHECK:             memref.prefetch
// CHECK:           memref.store
// CHECK-NOT:       memref.prefetch
"stream.executable"() ({
  "stream.executable.export"() ({
    %c1 = arith.constant 1 : index
    "stream.return"(%c1, %c1, %c1) : (index, index, index) -> ()
  }) {function_ref = @ask, sym_name = "ask"} : () -> ()
  builtin.module {
    func.func @ask(%in: !stream.binding, %places: !stream.binding, %weight: !stream.binding, %out: !stream.binding) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %x = "stream.binding.subspan"(%in, %c0) : (!stream.binding, index) -> memref<4xindex>
      %p = "stream.binding.subspan"(%places, %c0) : (!stream.binding, index) -> memref<4xindex>
      %w = "stream.binding.subspan"(%weight, %c0) : (!stream.binding, index) -> memref<64xindex>
      %y = "stream.binding.subspan"(%out, %c0) : (!stream.binding, index) -> memref<4xindex>
      %i = "stream.dispatch.workgroup.id"() {dimension = 0 : index} : () -> index
      %begin = memref.load %p[%i] : memref<4xindex>
      scf.for %k = %c0 to %c4 step %c1 {
        %at = arith.addi %begin, %k : index
        memref.prefetch %w[%at], read, locality<2>, data : memref<64xindex>
      }
      %a = memref.load %x[%i] : memref<4xindex>
      memref.store %a, %y[%i] : memref<4xindex>
      return
    }
  }
  "stream.executable.end"() : () -> ()
}) {sym_name = "ask", sym_visibility = "private"} : () -> ()
"util.global"() {sym_name = "weight", sym_visibility = "private", type = tensor<64xindex>} : () -> ()
"util.global"() {sym_name = "places", sym_visibility = "private", type = tensor<4xindex>} : () -> ()
func.func private @asks.layer0(%x: tensor<4xindex>, %layer: index) -> tensor<4xindex> attributes {llmc.layer_argument = 1 : index} {
  %p = "util.global.load"() {global = @places} : () -> tensor<4xindex>
  %w = "util.global.load"() {global = @weight} : () -> tensor<64xindex>
  %a = "flow.dispatch"(%x, %p, %w) {entry_points = [@ask::@ask], operandSegmentSizes = array<i32: 0, 3, 0, 0>, tied_operands = [-1 : index]} : (tensor<4xindex>, tensor<4xindex>, tensor<64xindex>) -> tensor<4xindex>
  %b = "flow.dispatch"(%a, %a, %w) {entry_points = [@ask::@ask], operandSegmentSizes = array<i32: 0, 3, 0, 0>, tied_operands = [-1 : index]} : (tensor<4xindex>, tensor<4xindex>, tensor<64xindex>) -> tensor<4xindex>
  return %b : tensor<4xindex>
}
func.func @asks(%x: tensor<4xindex>) -> tensor<4xindex> {
  %c0 = arith.constant 0 : index
  %a = call @asks.layer0(%x, %c0) : (tensor<4xindex>, index) -> tensor<4xindex>
  return %a : tensor<4xindex>
}

// -----

// What phases give each other lies in one tensor, of whole lines of the cache.
// CHECK-LABEL: func.func @give.layer0_
// CHECK-SAME:    (%[[FIRST:.*]]: index, %[[COUNT:.*]]: index, %[[HIDDEN:.*]]: !stream.binding, %[[COUNTERS:.*]]: !stream.binding, %[[ROOM:.*]]: !stream.binding)
// CHECK:           "stream.binding.subspan"(%[[HIDDEN]], %c0
// CHECK:           "stream.binding.subspan"(%[[ROOM]], %c0
// CHECK:           "stream.binding.subspan"(%[[ROOM]], %c0
// CHECK:           "stream.binding.subspan"(%[[ROOM]], %c128
// CHECK:           "stream.binding.subspan"(%[[ROOM]], %c128
// CHECK:           "stream.binding.subspan"(%[[HIDDEN]], %c0
// CHECK-LABEL: func.func @give(
// CHECK:         "flow.dispatch"({{.*}} -> (tensor<256xi8>, tensor<20xf32>, tensor<16xi64>)
"stream.executable"() ({
  "stream.executable.export"() ({
  ^bb0:
    %c1 = arith.constant 1 : index
    "stream.return"(%c1, %c1, %c1) : (index, index, index) -> ()
  }) {function_ref = @copy, sym_name = "copy"} : () -> ()
  builtin.module {
    func.func @copy(%in: !stream.binding, %out: !stream.binding) {
      %c0 = arith.constant 0 : index
      %x = "stream.binding.subspan"(%in, %c0) : (!stream.binding, index) -> memref<20xf32>
      %y = "stream.binding.subspan"(%out, %c0) : (!stream.binding, index) -> memref<20xf32>
      %a = memref.load %x[%c0] : memref<20xf32>
      memref.store %a, %y[%c0] : memref<20xf32>
      return
    }
  }
  "stream.executable.end"() : () -> ()
}) {sym_name = "copy", sym_visibility = "private"} : () -> ()
func.func private @give.layer0(%x: tensor<20xf32>, %layer: index) -> tensor<20xf32> attributes {llmc.layer_argument = 1 : index} {
  %a = "flow.dispatch"(%x) {entry_points = [@copy::@copy], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]} : (tensor<20xf32>) -> tensor<20xf32>
  %b = "flow.dispatch"(%a) {entry_points = [@copy::@copy], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]} : (tensor<20xf32>) -> tensor<20xf32>
  %c = "flow.dispatch"(%b) {entry_points = [@copy::@copy], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]} : (tensor<20xf32>) -> tensor<20xf32>
  return %c : tensor<20xf32>
}
func.func @give(%x: tensor<20xf32>) -> tensor<20xf32> {
  %c0 = arith.constant 0 : index
  %a = call @give.layer0(%x, %c0) : (tensor<20xf32>, index) -> tensor<20xf32>
  return %a : tensor<20xf32>
}

// -----

// There may be as many rows as sequences, which are known before the first dispatch. IREE is not to
// see that they stay as many.
// CHECK-LABEL: func.func @rows(
// CHECK-NOT:     call
// CHECK:         %[[N:.*]] = tensor.dim %arg0
// CHECK:         %[[BYTES:.*]] = arith.muli %c16, %[[N]]
// CHECK:         %[[LINES:.*]] = arith.ceildivui %[[BYTES]], %c64
// CHECK:         arith.muli %[[LINES]], %c64
// CHECK:         %[[SAME:.*]] = "util.optimization_barrier"(%{{.*}})
// CHECK:         "flow.dispatch"({{.*}}%[[N]]{{.*}}, %[[SAME]]) {
// CHECK-SAME:    -> (tensor<?xi8>, tensor<?x4xf32>
"stream.executable"() ({
  "stream.executable.export"() ({
  ^bb0(%n: index, %m: index):
    %c1 = arith.constant 1 : index
    "stream.return"(%n, %c1, %c1) : (index, index, index) -> ()
  }) {function_ref = @copy, sym_name = "copy"} : () -> ()
  builtin.module {
    func.func @copy(%n: index, %m: index, %in: !stream.binding, %out: !stream.binding) {
      %c0 = arith.constant 0 : index
      %x = "stream.binding.subspan"(%in, %c0, %n) : (!stream.binding, index, index) -> memref<?x4xf32>
      %y = "stream.binding.subspan"(%out, %c0, %m) : (!stream.binding, index, index) -> memref<?x4xf32>
      %i = "stream.dispatch.workgroup.id"() {dimension = 0 : index} : () -> index
      %a = memref.load %x[%i, %c0] : memref<?x4xf32>
      memref.store %a, %y[%i, %c0] : memref<?x4xf32>
      return
    }
  }
  "stream.executable.end"() : () -> ()
}) {sym_name = "copy", sym_visibility = "private"} : () -> ()
func.func private @rows.layer0(%x: tensor<?x4xf32>, %layer: index) -> tensor<?x4xf32> attributes {llmc.layer_argument = 1 : index} {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x4xf32>
  %a = "flow.dispatch"(%n, %n, %n, %n, %x, %n, %n) {entry_points = [@copy::@copy], operandSegmentSizes = array<i32: 2, 3, 1, 1>, tied_operands = [-1 : index]} : (index, index, index, index, tensor<?x4xf32>, index, index) -> tensor<?x4xf32>
  %b = "flow.dispatch"(%n, %n, %n, %n, %a, %n, %n) {entry_points = [@copy::@copy], operandSegmentSizes = array<i32: 2, 3, 1, 1>, tied_operands = [-1 : index]} : (index, index, index, index, tensor<?x4xf32>, index, index) -> tensor<?x4xf32>
  return %b : tensor<?x4xf32>
}
func.func @rows(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %c0 = arith.constant 0 : index
  %a = call @rows.layer0(%x, %c0) : (tensor<?x4xf32>, index) -> tensor<?x4xf32>
  return %a : tensor<?x4xf32>
}

// -----

// What a dispatch alone knows, or the tokens of a prompt, whose tasks take longer than others wait.
// CHECK-LABEL: func.func @tokens(
// CHECK:         call @tokens.layer0
// CHECK-LABEL: func.func @counted(
// CHECK:         call @counted.layer0
"stream.executable"() ({
  "stream.executable.export"() ({
    %c1 = arith.constant 1 : index
    "stream.return"(%c1, %c1, %c1) : (index, index, index) -> ()
  }) {function_ref = @some, sym_name = "some"} : () -> ()
  builtin.module {
    func.func @some(%in: !stream.binding, %out: !stream.binding) {
      return
    }
  }
  "stream.executable.end"() : () -> ()
}) {sym_name = "some", sym_visibility = "private"} : () -> ()
func.func private @tokens.layer0(%x: tensor<1x?xf32>, %layer: index) -> tensor<1x?xf32> attributes {llmc.layer_argument = 1 : index} {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<1x?xf32>
  %a = "flow.dispatch"(%x, %n, %n) {entry_points = [@some::@some], operandSegmentSizes = array<i32: 0, 1, 1, 1>, tied_operands = [-1 : index]} : (tensor<1x?xf32>, index, index) -> tensor<1x?xf32>
  %b = "flow.dispatch"(%a, %n, %n) {entry_points = [@some::@some], operandSegmentSizes = array<i32: 0, 1, 1, 1>, tied_operands = [-1 : index]} : (tensor<1x?xf32>, index, index) -> tensor<1x?xf32>
  return %b : tensor<1x?xf32>
}
func.func @tokens(%x: tensor<1x?xf32>) -> tensor<1x?xf32> {
  %c0 = arith.constant 0 : index
  %a = call @tokens.layer0(%x, %c0) : (tensor<1x?xf32>, index) -> tensor<1x?xf32>
  return %a : tensor<1x?xf32>
}
func.func private @counted.layer0(%x: tensor<?x4xf32>, %layer: index) -> tensor<?x4xf32> attributes {llmc.layer_argument = 1 : index} {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x4xf32>
  %a = "flow.dispatch"(%x, %n, %n) {entry_points = [@some::@some], operandSegmentSizes = array<i32: 0, 1, 1, 1>, tied_operands = [-1 : index]} : (tensor<?x4xf32>, index, index) -> tensor<?x4xf32>
  %m = tensor.dim %a, %c0 : tensor<?x4xf32>
  %b = "flow.dispatch"(%a, %m, %m) {entry_points = [@some::@some], operandSegmentSizes = array<i32: 0, 1, 1, 1>, tied_operands = [-1 : index]} : (tensor<?x4xf32>, index, index) -> tensor<?x4xf32>
  return %b : tensor<?x4xf32>
}
func.func @counted(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %c0 = arith.constant 0 : index
  %a = call @counted.layer0(%x, %c0) : (tensor<?x4xf32>, index) -> tensor<?x4xf32>
  return %a : tensor<?x4xf32>
}

// -----

// The last phase reads what it would write over, in which order nobody knows.
// CHECK-LABEL: func.func @in_place(
// CHECK:         call @in_place.layer0
"stream.executable"() ({
  "stream.executable.export"() ({
    %c1 = arith.constant 1 : index
    "stream.return"(%c1, %c1, %c1) : (index, index, index) -> ()
  }) {function_ref = @double, sym_name = "double"} : () -> ()
  builtin.module {
    func.func @double(%in: !stream.binding, %out: !stream.binding) {
      return
    }
  }
  "stream.executable.end"() : () -> ()
}) {sym_name = "double", sym_visibility = "private"} : () -> ()
func.func private @in_place.layer0(%x: tensor<4xf32>, %layer: index) -> tensor<4xf32> attributes {llmc.layer_argument = 1 : index} {
  %a = "flow.dispatch"(%x) {entry_points = [@double::@double], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]} : (tensor<4xf32>) -> tensor<4xf32>
  return %a : tensor<4xf32>
}
func.func @in_place(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %a = call @in_place.layer0(%x, %c0) : (tensor<4xf32>, index) -> tensor<4xf32>
  return %a : tensor<4xf32>
}

// -----

// What is no kernel cannot be a phase.
// CHECK-LABEL: func.func @computes(
// CHECK:         call @computes.layer0
"stream.executable"() ({
  "stream.executable.export"() ({
    %c1 = arith.constant 1 : index
    "stream.return"(%c1, %c1, %c1) : (index, index, index) -> ()
  }) {function_ref = @double, sym_name = "double"} : () -> ()
  builtin.module {
    func.func @double(%in: !stream.binding, %out: !stream.binding) {
      return
    }
  }
  "stream.executable.end"() : () -> ()
}) {sym_name = "double", sym_visibility = "private"} : () -> ()
func.func private @computes.layer0(%x: tensor<4xf32>, %layer: index) -> tensor<4xf32> attributes {llmc.layer_argument = 1 : index} {
  %a = "flow.dispatch"(%x) {entry_points = [@double::@double], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]} : (tensor<4xf32>) -> tensor<4xf32>
  %b = arith.addf %a, %a : tensor<4xf32>
  %c = "flow.dispatch"(%b) {entry_points = [@double::@double], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]} : (tensor<4xf32>) -> tensor<4xf32>
  return %c : tensor<4xf32>
}
func.func @computes(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %a = call @computes.layer0(%x, %c0) : (tensor<4xf32>, index) -> tensor<4xf32>
  return %a : tensor<4xf32>
}

// -----

// The begin of a row is where the row is, unlike a later part of it, if anyone reads that, and the
// begins of several.
// CHECK-LABEL: func.func @begin(
// CHECK-NOT:     call
// CHECK:         "flow.dispatch"
// CHECK-LABEL: func.func @later_part(
// CHECK:         call @later_part.layer0
// CHECK-LABEL: func.func @columns(
// CHECK:         call @columns.layer0
"stream.executable"() ({
  "stream.executable.export"() ({
    %c1 = arith.constant 1 : index
    "stream.return"(%c1, %c1, %c1) : (index, index, index) -> ()
  }) {function_ref = @double, sym_name = "double"} : () -> ()
  builtin.module {
    func.func @double(%in: !stream.binding, %out: !stream.binding) {
      return
    }
  }
  "stream.executable.end"() : () -> ()
}) {sym_name = "double", sym_visibility = "private"} : () -> ()
func.func private @begin.layer0(%x: tensor<1x4xf32>, %layer: index) -> tensor<1x4xf32> attributes {llmc.layer_argument = 1 : index} {
  %a = "flow.dispatch"(%x) {entry_points = [@double::@double], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]} : (tensor<1x4xf32>) -> tensor<1x6xf32>
  %b = tensor.extract_slice %a[0, 0] [1, 4] [1, 1] : tensor<1x6xf32> to tensor<4xf32>
  %part = tensor.extract_slice %a[0, 2] [1, 4] [1, 1] : tensor<1x6xf32> to tensor<4xf32>
  %unread = tensor.expand_shape %part [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  %c = "flow.dispatch"(%b) {entry_points = [@double::@double], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]} : (tensor<4xf32>) -> tensor<1x4xf32>
  return %c : tensor<1x4xf32>
}
func.func @begin(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %c0 = arith.constant 0 : index
  %a = call @begin.layer0(%x, %c0) : (tensor<1x4xf32>, index) -> tensor<1x4xf32>
  return %a : tensor<1x4xf32>
}
func.func private @later_part.layer0(%x: tensor<1x4xf32>, %layer: index) -> tensor<1x4xf32> attributes {llmc.layer_argument = 1 : index} {
  %a = "flow.dispatch"(%x) {entry_points = [@double::@double], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]} : (tensor<1x4xf32>) -> tensor<1x6xf32>
  %b = tensor.extract_slice %a[0, 2] [1, 4] [1, 1] : tensor<1x6xf32> to tensor<4xf32>
  %c = "flow.dispatch"(%b) {entry_points = [@double::@double], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]} : (tensor<4xf32>) -> tensor<1x4xf32>
  return %c : tensor<1x4xf32>
}
func.func @later_part(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %c0 = arith.constant 0 : index
  %a = call @later_part.layer0(%x, %c0) : (tensor<1x4xf32>, index) -> tensor<1x4xf32>
  return %a : tensor<1x4xf32>
}
func.func private @columns.layer0(%x: tensor<2x2xf32>, %layer: index) -> tensor<2x2xf32> attributes {llmc.layer_argument = 1 : index} {
  %a = "flow.dispatch"(%x) {entry_points = [@double::@double], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]} : (tensor<2x2xf32>) -> tensor<2x3xf32>
  %b = tensor.extract_slice %a[0, 0] [2, 2] [1, 1] : tensor<2x3xf32> to tensor<2x2xf32>
  %c = "flow.dispatch"(%b) {entry_points = [@double::@double], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %c : tensor<2x2xf32>
}
func.func @columns(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %c0 = arith.constant 0 : index
  %a = call @columns.layer0(%x, %c0) : (tensor<2x2xf32>, index) -> tensor<2x2xf32>
  return %a : tensor<2x2xf32>
}

// -----

// What only looks like a dispatch of a kernel of ours is no phase.
// CHECK-LABEL: func.func @unfinished(
// CHECK:         call @unfinished.layer0
// CHECK-LABEL: func.func @of_no_executable(
// CHECK:         call @of_no_executable.layer0
// CHECK-LABEL: func.func @of_an_empty_one(
// CHECK:         call @of_an_empty_one.layer0
func.func private @unfinished.layer0(%x: tensor<4xf32>, %layer: index) -> tensor<4xf32> attributes {llmc.layer_argument = 1 : index} {
  %a = "flow.dispatch"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %a : tensor<4xf32>
}
func.func @unfinished(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %a = call @unfinished.layer0(%x, %c0) : (tensor<4xf32>, index) -> tensor<4xf32>
  return %a : tensor<4xf32>
}
func.func private @of_no_executable.layer0(%x: tensor<4xf32>, %layer: index) -> tensor<4xf32> attributes {llmc.layer_argument = 1 : index} {
  %a = "flow.dispatch"(%x) {entry_points = [@unfinished::@unfinished], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]} : (tensor<4xf32>) -> tensor<4xf32>
  return %a : tensor<4xf32>
}
func.func @of_no_executable(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %a = call @of_no_executable.layer0(%x, %c0) : (tensor<4xf32>, index) -> tensor<4xf32>
  return %a : tensor<4xf32>
}
"stream.executable"() ({}) {sym_name = "empty", sym_visibility = "private"} : () -> ()
func.func private @of_an_empty_one.layer0(%x: tensor<4xf32>, %layer: index) -> tensor<4xf32> attributes {llmc.layer_argument = 1 : index} {
  %a = "flow.dispatch"(%x) {entry_points = [@empty::@empty], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]} : (tensor<4xf32>) -> tensor<4xf32>
  return %a : tensor<4xf32>
}
func.func @of_an_empty_one(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %a = call @of_an_empty_one.layer0(%x, %c0) : (tensor<4xf32>, index) -> tensor<4xf32>
  return %a : tensor<4xf32>
}

// -----

"stream.executable"() ({
  "stream.executable.export"() ({
    %c1 = arith.constant 1 : index
    "stream.return"(%c1, %c1, %c1) : (index, index, index) -> ()
  }) {function_ref = @double, sym_name = "double"} : () -> ()
  builtin.module {
    func.func @double(%in: !stream.binding, %out: !stream.binding) {
      return
    }
  }
  "stream.executable.end"() : () -> ()
}) {sym_name = "double", sym_visibility = "private"} : () -> ()
// expected-error@+1 {{'llmc.layer_argument' must be the number of an argument of type index}}
func.func private @misnumbered.layer0(%x: tensor<4xf32>, %layer: index) -> tensor<4xf32> attributes {llmc.layer_argument = 0 : index} {
  %a = "flow.dispatch"(%x) {entry_points = [@double::@double], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "flow.dispatch"(%a) {entry_points = [@double::@double], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}
func.func @misnumbered(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %a = call @misnumbered.layer0(%x, %c0) : (tensor<4xf32>, index) -> tensor<4xf32>
  return %a : tensor<4xf32>
}

// -----

// Layers are apart where a global is written between them. A layer stays as it is that reads what a
// dispatch has overwritten, or overwrites a global without a store.
// CHECK-LABEL: func.func private @stale.layer0(
// CHECK-LABEL: func.func private @unstored.layer0(
// CHECK-LABEL: func.func @decode(
// CHECK:         "flow.dispatch"(%c2{{.*}}, %c1{{[^,]*}},
// CHECK:         "util.global.store"(%arg1) {global = @weight}
// CHECK:         "flow.dispatch"(%c3{{.*}}, %c1{{[^,]*}},
"stream.executable"() ({
  "stream.executable.export"() ({
    %c1 = arith.constant 1 : index
    "stream.return"(%c1, %c1, %c1) : (index, index, index) -> ()
  }) {function_ref = @add, sym_name = "add"} : () -> ()
  builtin.module {
    func.func @add(%in: !stream.binding, %weight: !stream.binding, %out: !stream.binding) {
      return
    }
  }
  "stream.executable.end"() : () -> ()
}) {sym_name = "add", sym_visibility = "private"} : () -> ()
"stream.executable"() ({
  "stream.executable.export"() ({
    %c1 = arith.constant 1 : index
    "stream.return"(%c1, %c1, %c1) : (index, index, index) -> ()
  }) {function_ref = @bump, sym_name = "bump"} : () -> ()
  builtin.module {
    func.func @bump(%in: !stream.binding) {
      return
    }
  }
  "stream.executable.end"() : () -> ()
}) {sym_name = "bump", sym_visibility = "private"} : () -> ()
"util.global"() {is_mutable, sym_name = "weight", sym_visibility = "private", type = tensor<4xf32>} : () -> ()
func.func private @stale.layer0(%x: tensor<4xf32>, %layer: index) -> tensor<4xf32> attributes {llmc.layer_argument = 1 : index} {
  %old = "util.global.load"() {global = @weight} : () -> tensor<4xf32>
  %new = "flow.dispatch"(%old) {entry_points = [@bump::@bump], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [0 : index]} : (tensor<4xf32>) -> tensor<4xf32>
  %a = "flow.dispatch"(%x, %old) {entry_points = [@add::@add], operandSegmentSizes = array<i32: 0, 2, 0, 0>, tied_operands = [-1 : index]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = "flow.dispatch"(%a, %new) {entry_points = [@add::@add], operandSegmentSizes = array<i32: 0, 2, 0, 0>, tied_operands = [-1 : index]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  "util.global.store"(%new) {global = @weight} : (tensor<4xf32>) -> ()
  return %b : tensor<4xf32>
}
func.func private @unstored.layer0(%x: tensor<4xf32>, %layer: index) -> tensor<4xf32> attributes {llmc.layer_argument = 1 : index} {
  %old = "util.global.load"() {global = @weight} : () -> tensor<4xf32>
  %new = "flow.dispatch"(%old) {entry_points = [@bump::@bump], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [0 : index]} : (tensor<4xf32>) -> tensor<4xf32>
  %a = "flow.dispatch"(%x, %new) {entry_points = [@add::@add], operandSegmentSizes = array<i32: 0, 2, 0, 0>, tied_operands = [-1 : index]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = "flow.dispatch"(%a, %new) {entry_points = [@add::@add], operandSegmentSizes = array<i32: 0, 2, 0, 0>, tied_operands = [-1 : index]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}
func.func private @decode.layer0(%x: tensor<4xf32>, %layer: index) -> tensor<4xf32> attributes {llmc.layer_argument = 1 : index} {
  %weight = "util.global.load"() {global = @weight} : () -> tensor<4xf32>
  %a = "flow.dispatch"(%x, %weight) {entry_points = [@add::@add], operandSegmentSizes = array<i32: 0, 2, 0, 0>, tied_operands = [-1 : index]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = "flow.dispatch"(%a, %weight) {entry_points = [@add::@add], operandSegmentSizes = array<i32: 0, 2, 0, 0>, tied_operands = [-1 : index]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}
func.func @decode(%x: tensor<4xf32>, %new: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %s = call @stale.layer0(%x, %c0) : (tensor<4xf32>, index) -> tensor<4xf32>
  %u = call @unstored.layer0(%s, %c0) : (tensor<4xf32>, index) -> tensor<4xf32>
  %a = call @decode.layer0(%u, %c2) : (tensor<4xf32>, index) -> tensor<4xf32>
  "util.global.store"(%new) {global = @weight} : (tensor<4xf32>) -> ()
  %b = call @decode.layer0(%a, %c3) : (tensor<4xf32>, index) -> tensor<4xf32>
  return %b : tensor<4xf32>
}
