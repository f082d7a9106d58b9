"""Commands that are the same in every call of a function: recorded once, submitted by each call.

IREE 3.13 records anew what depends on a size that is no constant, as a KV cache's, and what it
records once itself learns its buffers only when it is submitted, of which CUDA makes no graph. So
this is done to its output, in the HAL dialect, where each command is an operation.
"""

from dataclasses import dataclass
from itertools import chain, groupby, pairwise

from iree.compiler import ir
from iree.compiler.dialects import arith, hal, util

from llmc.pipelines.dispatches import functions, operations

_CREATE = "hal.command_buffer.create"
_BARRIER = "hal.command_buffer.execution_barrier"
_ALLOCATE = "hal.device.queue.alloca"
_FREE = "hal.device.queue.dealloca"
_LOAD = "util.global.load"
_STORE = "util.global.store"
# What gives the same in every call where its operands are the same, beside arithmetic.
_SAME = (_LOAD, "hal.executable.lookup.function")

_REUSABLE = 0
"""The mode of a command buffer that may be submitted many times."""


def record_once(module: ir.Module, name: str) -> None:
    """Takes most commands out of function `name`, to be recorded where the KV cache is allocated.

    These are what lies between two barriers and touches neither arguments nor results, if it is
    the greater part. What a call needs for a time then lies in one place for all calls.
    """
    named = functions(module)
    function = named.get(f"_{name}", named.get(name))  # the former, where the module calls it too
    if function is None:
        return
    commands = _Commands.find(function)
    read = _globals(function, _LOAD)
    allocating = [each for each in named.values() if read & _globals(each, _STORE)]
    if commands and commands.are_worth_it and allocating and function not in allocating:
        with module.context, function.location:
            commands.split(allocating)


@dataclass(frozen=True)
class _Commands:
    """Those of the only command buffer of a function, of which `once` are the same in every call.

    `temporaries` are the buffers that the function allocates and frees.
    """

    function: ir.Operation
    create: ir.Operation
    finalize: ir.Operation
    execute: ir.Operation
    temporaries: list[ir.Operation]
    before: list[ir.Operation]
    once: list[ir.Operation]
    after: list[ir.Operation]

    @classmethod
    def find(cls, function: ir.Operation) -> "_Commands | None":
        """None where there are several buffers or blocks, or calls may overlap."""
        ops = list(operations(function))
        creates = [op for op in ops if op.name == _CREATE]
        is_straight = len(creates) == len(function.regions[0].blocks) == 1
        if not is_straight or not _waits_for_the_last_call(ops):
            return None
        (create,) = creates
        *commands, finalize, execute = (op for op in ops if create.result in op.operands)
        temporaries = _temporaries(ops)
        fixed = _fixed_values(ops, temporaries) | {create.result}
        groups = _split_at_barriers(commands)
        are_fixed = [all(fixed.issuperset(op.operands) for op in group) for group in groups]
        first, last = _longest_run(are_fixed)
        parts = groups[:first], groups[first:last], groups[last:]
        before, once, after = (list(chain.from_iterable(part)) for part in parts)
        return cls(function, create, finalize, execute, temporaries, before, once, after)

    @property
    def are_worth_it(self) -> bool:
        """Whether more is recorded once than is left, which then takes two buffers."""
        return len(self.once) > len(self.before) + len(self.after)

    def split(self, allocating: list[ir.Operation]) -> None:
        """Lets the functions `allocating` record the commands `once`, and this one submit them."""
        name = ir.StringAttr(self.function.attributes["sym_name"]).value
        for number, temporary in enumerate(self.temporaries):
            self._keep(temporary, f"{name}.temporary{number}")
        record, recorded = f"{name}.record", f"{name}.recorded"
        self._outline(record)
        self._declare(recorded, self.create.result.type, is_mutable=True)
        for function in allocating:
            with ir.InsertionPoint.at_block_terminator(_last_block(function)):
                call = util.CallOp([self.create.result.type], record, [])
                util.GlobalStoreOp(call.results[0], recorded)
        self._submit(recorded)

    def _declare(self, symbol: str, type_: ir.Type, is_mutable: bool = False) -> None:
        with ir.InsertionPoint(self.function):
            util.GlobalOp(
                symbol, ir.TypeAttr.get(type_), sym_visibility="private", is_mutable=is_mutable
            )

    def _keep(self, temporary: ir.Operation, symbol: str) -> None:
        """Allocates a temporary when the module is loaded, and for good."""
        self._declare(symbol, temporary.result.type)
        device, affinity, *_, memory, usage, size = temporary.operands
        with ir.InsertionPoint(self.function):
            initializer = util.InitializerOp(ir.TypeAttr.get(ir.FunctionType.get([], [])))
        with ir.InsertionPoint(initializer.regions[0].blocks.append()):
            copies = _Copies()
            allocator = hal.DeviceAllocatorOp(copies.of(device)).result
            rest = [copies.of(value) for value in (affinity, memory, usage, size)]
            util.GlobalStoreOp(hal.AllocatorAllocateOp(allocator, *rest).result, symbol)
            util.ReturnOp([])
        with ir.InsertionPoint(temporary):
            held = util.GlobalLoadOp(temporary.result.type, symbol, is_immutable=True).result
        frees = [op for op in _users(temporary.result) if op.name == _FREE]
        temporary.result.replace_all_uses_with(held)
        for op in (temporary, *frees):
            _skip(op)

    def _outline(self, name: str) -> None:
        """Adds a function that records the commands `once`."""
        type_ = ir.FunctionType.get([], [self.create.result.type])
        with ir.InsertionPoint(self.function):
            function = util.FuncOp(name, ir.TypeAttr.get(type_), sym_visibility="private")
        with ir.InsertionPoint(function.regions[0].blocks.append()):
            copies = _Copies()
            buffer = copies.of(self.create.result)
            modes = self.create.attributes["modes"].type
            buffer.owner.attributes["modes"] = ir.IntegerAttr.get(modes, _REUSABLE)
            for op in (*self.once, self.finalize):
                copies.add(op)
            util.ReturnOp([buffer])
        for op in self.once:
            op.erase()

    def _submit(self, recorded: str) -> None:
        """Submits what is before, what is recorded, and what is after."""
        device, affinity, ready, done, before = self.execute.operands
        flags = self.execute.attributes["flags"]
        with ir.InsertionPoint(self.execute):
            after = self.create.clone().operation.result
            for op in (*self.after, self.finalize.clone().operation):
                op.operands[0] = after
                op.move_before(self.execute)
            once = util.GlobalLoadOp(after.type, recorded).result
            signals = [done.owner.clone().operation.result for _ in range(2)]
            fences = pairwise([ready, *signals, done])
            for (wait, signal), buffer in zip(fences, (before, once, after), strict=True):
                hal.DeviceQueueExecuteOp(device, affinity, wait, signal, buffer, flags)
        self.execute.erase()


class _Copies:
    """Copies of operations and of all that these are computed from."""

    def __init__(self) -> None:
        self._values: dict[ir.Value, ir.Value] = {}

    def of(self, value: ir.Value) -> ir.Value:
        """The copy of `value`, which is made here unless it was before."""
        if value not in self._values:
            self.add(value.owner)
        return self._values[value]

    def add(self, op: ir.Operation) -> None:
        """Makes a copy here."""
        operands = [self.of(operand) for operand in op.operands]
        copy = op.clone().operation
        for number, operand in enumerate(operands):
            copy.operands[number] = operand
        self._values.update(zip(op.results, copy.results, strict=True))


def _waits_for_the_last_call(ops: list[ir.Operation]) -> bool:
    """Whether a fence is kept from call to call."""
    loaded, stored = (
        {_global(op) for op in ops if op.name == access and _moves_fence(op)}
        for access in (_LOAD, _STORE)
    )
    return bool(loaded & stored)


def _temporaries(ops: list[ir.Operation]) -> list[ir.Operation]:
    """What is allocated and freed, of constant size."""
    return [
        op
        for op in ops
        if op.name == _ALLOCATE
        and isinstance(op.operands[-1].owner.opview, arith.ConstantOp)
        and any(user.name == _FREE for user in _users(op.result))
    ]


def _fixed_values(ops: list[ir.Operation], temporaries: list[ir.Operation]) -> set[ir.Value]:
    """Values that are the same in every call, where the temporaries are."""
    fixed: set[ir.Value] = set()
    for op in ops:
        is_same = op.name.startswith("arith.") or op.name in _SAME
        if op in temporaries or (is_same and fixed.issuperset(op.operands)):
            fixed.update(op.results)
    return fixed


def _split_at_barriers(commands: list[ir.Operation]) -> list[list[ir.Operation]]:
    """Commands that may overlap, each group with the barrier behind it."""
    groups: list[list[ir.Operation]] = [[]]
    for op in commands:
        groups[-1].append(op)
        if op.name == _BARRIER:
            groups.append([])
    return groups


def _longest_run(are_in: list[bool]) -> tuple[int, int]:
    """The first and the one behind the last of most elements in a row that are."""
    runs, end = [(0, 0)], 0
    for is_in, run in groupby(are_in):
        first, end = end, end + len(list(run))
        runs += [(first, end)] * is_in
    return max(runs, key=lambda run: run[1] - run[0])


def _skip(op: ir.Operation) -> None:
    """Erases an operation of a queue; what waits for it waits for what it waits for."""
    _, _, wait, signal, *_ = op.operands
    op.erase()
    signal.replace_all_uses_with(wait)
    signal.owner.erase()


def _users(value: ir.Value) -> list[ir.Operation]:
    return [use.owner.operation for use in value.uses]


def _globals(function: ir.Operation, access: str) -> set[str]:
    """What `function` loads or stores, but fences."""
    ops = operations(function)
    return {_global(op) for op in ops if op.name == access and not _moves_fence(op)}


def _moves_fence(op: ir.Operation) -> bool:
    return any(str(value.type) == "!hal.fence" for value in (*op.operands, *op.results))


def _global(op: ir.Operation) -> str:
    return ir.FlatSymbolRefAttr(op.attributes["global"]).value


def _last_block(function: ir.Operation) -> ir.Block:
    (region,) = function.regions
    return region.blocks[len(region.blocks) - 1]
