// RUN: python %S/Inputs/record_once.py %s | filecheck %s

// What is the same for every token is recorded in a command buffer that is not one-shot, by the
// first call after `reset`, or with tensors of other sizes. A call records what takes its arguments
// and what gives its results, and submits the three in order. Temporaries are kept.
// CHECK:       util.global private mutable @_decode.recorded : !hal.command_buffer
// CHECK:       util.global private mutable @_decode.size0 : index
// CHECK:       util.global private mutable @_decode.temporary0 : !hal.buffer
// CHECK-NOT:   @_decode.size1
// CHECK-LABEL: util.func private @_decode.record(%arg0: index)
// CHECK:         %[[ROOM:.+]] = hal.allocator.allocate<{{.+}}> affinity(%c-1_i64) type({{.+}}) usage({{.+}}) : !hal.buffer{%arg0}
// CHECK:         %[[CMD:.+]] = hal.command_buffer.create {{.+}} mode("None")
// CHECK-DAG:     %[[KEYS:.+]] = util.global.load @keys : !hal.buffer
// CHECK-DAG:     %[[SIZE:.+]] = util.global.load @keys__size : index
// CHECK:         hal.command_buffer.copy_buffer<%[[CMD]] : {{.+}}> source(%[[ROOM]] : !hal.buffer)[%c0{{.*}}] target(%[[KEYS]] : !hal.buffer)[%{{.+}}]
// CHECK-NEXT:    hal.command_buffer.execution_barrier<%[[CMD]]
// CHECK:         hal.command_buffer.copy_buffer<%[[CMD]]
// CHECK-NOT:     hal.command_buffer.copy_buffer
// CHECK:         hal.command_buffer.finalize<%[[CMD]]
// CHECK-NEXT:    util.global.store %arg0, @_decode.size0
// CHECK-NEXT:    util.global.store %[[ROOM]], @_decode.temporary0
// CHECK-NEXT:    util.global.store %[[CMD]], @_decode.recorded

// CHECK-LABEL: util.func private @_decode(%arg0: !hal.buffer, %arg1: index, %arg2: index
// CHECK:         %[[HELD:.+]] = util.global.load @_decode.recorded
// CHECK:         %[[NONE:.+]] = util.cmp.eq %[[HELD]], %{{.+}} : !hal.command_buffer
// CHECK:         %[[OLD:.+]] = util.global.load @_decode.size0
// CHECK-NEXT:    %[[OTHER:.+]] = arith.cmpi ne, %[[OLD]], %arg2
// CHECK-NEXT:    %[[STALE:.+]] = arith.ori %[[NONE]], %[[OTHER]]
// CHECK-NEXT:    scf.if %[[STALE]] {
// CHECK-NEXT:      util.call @_decode.record(%arg2)
// CHECK-NEXT:    }
// CHECK:         %[[WAIT:.+]] = util.global.load @keys__timepoint
// CHECK:         %[[RESULT:.+]] = hal.device.queue.alloca<{{.+}}> affinity(%c-1_i64) wait(%[[WAIT]]) signal(%[[READY:.+]]) pool
// CHECK-NOT:     hal.device.queue.alloca
// CHECK:         %[[KEPT:.+]] = util.global.load @_decode.temporary0
// CHECK-NEXT:    %[[JOIN:.+]] = hal.fence.join at([%[[READY]], %[[WAIT]]])
// CHECK:         %[[FIRST:.+]] = hal.command_buffer.create {{.+}} mode(OneShot)
// CHECK-NEXT:    hal.command_buffer.copy_buffer<%[[FIRST]] : {{.+}}> source(%arg0 : !hal.buffer)[%arg1] target(%[[KEPT]]
// CHECK-NEXT:    hal.command_buffer.execution_barrier<%[[FIRST]]
// CHECK:         hal.command_buffer.finalize<%[[FIRST]]
// CHECK:         %[[DONE:.+]] = hal.fence.create
// CHECK:         %[[LAST:.+]] = hal.command_buffer.create {{.+}} mode(OneShot)
// CHECK-NEXT:    hal.command_buffer.copy_buffer<%[[LAST]] : {{.+}} target(%[[RESULT]]
// CHECK-NEXT:    hal.command_buffer.execution_barrier<%[[LAST]]
// CHECK-NEXT:    hal.command_buffer.finalize<%[[LAST]]
// CHECK-NEXT:    %[[RECORDED:.+]] = util.global.load @_decode.recorded
// CHECK-NEXT:    %[[A:.+]] = hal.fence.create
// CHECK-NEXT:    %[[B:.+]] = hal.fence.create
// CHECK-NEXT:    hal.device.queue.execute<{{.+}}> affinity(%c-1_i64) wait(%[[JOIN]]) signal(%[[A]]) commands(%[[FIRST]])
// CHECK-NEXT:    hal.device.queue.execute<{{.+}}> affinity(%c-1_i64) wait(%[[A]]) signal(%[[B]]) commands(%[[RECORDED]])
// CHECK-NEXT:    hal.device.queue.execute<{{.+}}> affinity(%c-1_i64) wait(%[[B]]) signal(%[[DONE]]) commands(%[[LAST]])
// CHECK-NEXT:    util.global.store %[[DONE]], @keys__timepoint
// CHECK-NEXT:    util.return %[[RESULT]], %[[DONE]]

// CHECK-LABEL: util.func public @reset
// CHECK:         util.global.store %arg1, @keys__size
// CHECK-NEXT:    %[[NULL:.+]] = util.null : !hal.command_buffer
// CHECK-NEXT:    util.global.store %[[NULL]], @_decode.recorded
// CHECK-NEXT:    util.return
util.global private @device : !hal.device
util.global private mutable @keys : !hal.buffer
util.global private mutable @keys__size : index
util.global private mutable @keys__timepoint : !hal.fence
util.func private @_decode(%tokens: !hal.buffer, %offset: index, %batch: index, %past: i32) -> (!hal.buffer, !hal.fence) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c64 = arith.constant 64 : index
  %any = arith.constant -1 : i64
  %pool = arith.constant 0 : i64
  %type = hal.memory_type<"DeviceVisible|DeviceLocal"> : i32
  %zero = arith.constant 0 : i32
  %usage = hal.buffer_usage<"Transfer|DispatchStorage"> : i32
  %device = util.global.load immutable @device : !hal.device
  %last = util.global.load @keys__timepoint : !hal.fence
  %keys = util.global.load @keys : !hal.buffer
  %size = util.global.load @keys__size : index
  %has_result = hal.fence.create device(%device : !hal.device) flags("None") : !hal.fence
  %result = hal.device.queue.alloca<%device : !hal.device> affinity(%any) wait(%last) signal(%has_result) pool(%pool) type(%type) usage(%usage) flags("None") : !hal.buffer{%c64}
  %has_room = hal.fence.create device(%device : !hal.device) flags("None") : !hal.fence
  %room = hal.device.queue.alloca<%device : !hal.device> affinity(%any) wait(%last) signal(%has_room) pool(%pool) type(%type) usage(%usage) flags("None") : !hal.buffer{%batch}
  %ready = hal.fence.join at([%has_result, %has_room]) flags("None") -> !hal.fence
  %half = arith.shrui %size, %c4 : index
  %cmd = hal.command_buffer.create device(%device : !hal.device) mode(OneShot) categories("Transfer|Dispatch") affinity(%any) : !hal.command_buffer
  hal.command_buffer.copy_buffer<%cmd : !hal.command_buffer> source(%tokens : !hal.buffer)[%offset] target(%room : !hal.buffer)[%c0] length(%c4) flags("None")
  hal.command_buffer.execution_barrier<%cmd : !hal.command_buffer> source("Transfer") target("Transfer") flags("None")
  hal.command_buffer.copy_buffer<%cmd : !hal.command_buffer> source(%room : !hal.buffer)[%c0] target(%keys : !hal.buffer)[%half] length(%c4) flags("None")
  hal.command_buffer.execution_barrier<%cmd : !hal.command_buffer> source("Transfer") target("Transfer") flags("None")
  hal.command_buffer.copy_buffer<%cmd : !hal.command_buffer> source(%keys : !hal.buffer)[%half] target(%room : !hal.buffer)[%c4] length(%c4) flags("None")
  hal.command_buffer.fill_buffer<%cmd : !hal.command_buffer> target(%keys : !hal.buffer)[%c0, %c4] pattern(%zero : i32) flags("None")
  hal.command_buffer.execution_barrier<%cmd : !hal.command_buffer> source("Transfer") target("Transfer") flags("None")
  hal.command_buffer.copy_buffer<%cmd : !hal.command_buffer> source(%room : !hal.buffer)[%c4] target(%result : !hal.buffer)[%c0] length(%c4) flags("None")
  hal.command_buffer.execution_barrier<%cmd : !hal.command_buffer> source("Transfer") target("Transfer") flags("None")
  hal.command_buffer.finalize<%cmd : !hal.command_buffer>
  %ran = hal.fence.create device(%device : !hal.device) flags("None") : !hal.fence
  hal.device.queue.execute<%device : !hal.device> affinity(%any) wait(%ready) signal(%ran) commands(%cmd) flags("None")
  %done = hal.fence.create device(%device : !hal.device) flags("None") : !hal.fence
  hal.device.queue.dealloca<%device : !hal.device> affinity(%any) wait(%ran) signal(%done) buffer(%room : !hal.buffer) flags("None")
  util.global.store %done, @keys__timepoint : !hal.fence
  util.return %result, %done : !hal.buffer, !hal.fence
}
util.func public @reset(%cache: !hal.buffer, %size: index) {
  util.global.store %cache, @keys : !hal.buffer
  util.global.store %size, @keys__size : index
  util.return
}

// -----

// Nothing is recorded once where an argument is read in the midst of what a call does.
// CHECK-LABEL: util.func private @_decode(%arg0: i32)
// CHECK-COUNT-1: hal.command_buffer.create {{.+}} mode(OneShot)
// CHECK-COUNT-1: hal.device.queue.execute
// CHECK-LABEL: util.func public @reset
// CHECK-NOT:     @_decode
util.global private @device : !hal.device
util.global private mutable @keys : !hal.buffer
util.global private mutable @keys__timepoint : !hal.fence
util.func private @_decode(%past: i32) -> !hal.fence {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %any = arith.constant -1 : i64
  %zero = arith.constant 0 : i32
  %device = util.global.load immutable @device : !hal.device
  %last = util.global.load @keys__timepoint : !hal.fence
  %keys = util.global.load @keys : !hal.buffer
  %cmd = hal.command_buffer.create device(%device : !hal.device) mode(OneShot) categories("Transfer|Dispatch") affinity(%any) : !hal.command_buffer
  hal.command_buffer.fill_buffer<%cmd : !hal.command_buffer> target(%keys : !hal.buffer)[%c0, %c4] pattern(%zero : i32) flags("None")
  hal.command_buffer.execution_barrier<%cmd : !hal.command_buffer> source("Transfer") target("Transfer") flags("None")
  hal.command_buffer.fill_buffer<%cmd : !hal.command_buffer> target(%keys : !hal.buffer)[%c4, %c4] pattern(%past : i32) flags("None")
  hal.command_buffer.execution_barrier<%cmd : !hal.command_buffer> source("Transfer") target("Transfer") flags("None")
  hal.command_buffer.fill_buffer<%cmd : !hal.command_buffer> target(%keys : !hal.buffer)[%c0, %c4] pattern(%zero : i32) flags("None")
  hal.command_buffer.execution_barrier<%cmd : !hal.command_buffer> source("Transfer") target("Transfer") flags("None")
  hal.command_buffer.finalize<%cmd : !hal.command_buffer>
  %done = hal.fence.create device(%device : !hal.device) flags("None") : !hal.fence
  hal.device.queue.execute<%device : !hal.device> affinity(%any) wait(%last) signal(%done) commands(%cmd) flags("None")
  util.global.store %done, @keys__timepoint : !hal.fence
  util.return %done : !hal.fence
}
util.func public @reset(%cache: !hal.buffer) {
  util.global.store %cache, @keys : !hal.buffer
  util.return
}
