"""Commands that are the same in every call of a function: recorded once, submitted by each call.

IREE 3.13 records anew what depends on a size that is no constant, as a KV cache's, and what it
records once itself learns its buffers only when it is submitted, of which CUDA makes no graph. So
this is done to its output, in the HAL dialect, where each command is an operation.
"""

from dataclasses import dataclass
from itertools import chain, groupby, pairwise

from iree.compiler import ir
from iree.compiler.dialects import arith, hal, scf, util

from llmc.pipelines.clones import clone_with
from llmc.pipelines.dispatches import functions
from llmc.pipelines.walks import walk

_CREATE = "hal.command_buffer.create"
_BARRIER = "hal.command_buffer.execution_barrier"
_ALLOCATE = "hal.device.queue.alloca"
_FREE = "hal.device.queue.dealloca"
_LOAD = "util.global.load"
_STORE = "util.global.store"
# What gives the same in every call where its operands are the same, beside arithmetic.
_SAME = (_LOAD, "hal.executable.lookup.function", "util.align")

_REUSABLE = 0
"""The mode of a command buffer that may be submitted many times."""


def record_once(module: ir.Module, name: str) -> None:
    """Takes most commands out of function `name`, and records them when their buffers are new.

    These are what lies between two barriers and touches neither arguments nor results, if it is
    the greater part. They are recorded by the first call after the KV cache was allocated, and
    again where the arguments have other sizes. What a call needs for a time lies in one place
    until then.
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

    `temporaries` are the buffers that the function allocates and frees, and `sizes` the arguments
    that `once` depends on.
    """

    function: ir.Operation
    create: ir.Operation
    finalize: ir.Operation
    execute: ir.Operation
    sizes: list[ir.Value]
    temporaries: list[ir.Operation]
    before: list[ir.Operation]
    once: list[ir.Operation]
    after: list[ir.Operation]

    @classmethod
    def find(cls, function: ir.Operation) -> "_Commands | None":
        """None where there are several buffers or blocks, or calls may overlap."""
        ops = list(walk(function))
        creates = [op for op in ops if op.name == _CREATE]
        is_straight = len(creates) == len(function.regions[0].blocks) == 1
        if not is_straight or not _waits_for_the_last_call(ops):
            return None
        (create,) = creates
        *commands, finalize, execute = (op for op in ops if create.result in op.operands)
        sizes = [each for each in create.block.arguments if isinstance(each.type, ir.IndexType)]
        fixed = _fixed_values(ops, sizes) | {create.result}
        temporaries = [op for op in ops if op.name == _ALLOCATE and op.result in fixed]
        groups = _split_at_barriers(commands)
        are_fixed = [all(fixed.issuperset(op.operands) for op in group) for group in groups]
        first, last = _longest_run(are_fixed)
        parts = groups[:first], groups[first:last], groups[last:]
        before, once, after = (list(chain.from_iterable(part)) for part in parts)
        read = _sources(once)
        sizes = [size for size in sizes if size in read]
        return cls(function, create, finalize, execute, sizes, temporaries, before, once, after)

    @property
    def are_worth_it(self) -> bool:
        """Whether more is recorded once than is left, which then takes two buffers."""
        return len(self.once) > len(self.before) + len(self.after)

    def split(self, allocating: list[ir.Operation]) -> None:
        """Lets the function submit `once` as another records it, until one of `allocating` runs."""
        name = ir.StringAttr(self.function.attributes["sym_name"]).value
        recorded = self._declare(f"{name}.recorded", self.create.result)
        sizes = [self._declare(f"{name}.size{at}", size) for at, size in enumerate(self.sizes)]
        temporaries = [
            self._declare(f"{name}.temporary{at}", temporary.result)
            for at, temporary in enumerate(self.temporaries)
        ]
        record = self._outline(f"{name}.record", [*sizes, *temporaries, recorded])
        for function in allocating:
            with ir.InsertionPoint.at_block_terminator(_last_block(function)):
                util.GlobalStoreOp(util.NullOp(self.create.result.type).result, recorded)
        self._record_where_stale(record, recorded, sizes)
        for temporary, symbol in zip(self.temporaries, temporaries, strict=True):
            _keep(temporary, symbol)
        self._submit(recorded)

    def _declare(self, symbol: str, value: ir.Value) -> str:
        """Adds a global for `value`; its name."""
        type_ = ir.TypeAttr.get(value.type)
        with ir.InsertionPoint(self.function):
            util.GlobalOp(symbol, type_, sym_visibility="private", is_mutable=True)
        return symbol

    def _outline(self, name: str, kept: list[str]) -> str:
        """Adds a function that takes the sizes, allocates the temporaries and records `once`.

        All of them it keeps in the globals `kept`. Returns its name.
        """
        type_ = ir.FunctionType.get([size.type for size in self.sizes], [])
        with ir.InsertionPoint(self.function):
            function = util.FuncOp(name, ir.TypeAttr.get(type_), sym_visibility="private")
        places = [ir.Location.current] * len(self.sizes)
        block = function.regions[0].blocks.append(*type_.inputs, arg_locs=places)
        with ir.InsertionPoint(block):
            copies = _Copies(dict(zip(self.sizes, block.arguments, strict=True)))
            for temporary in self.temporaries:
                device, affinity, _, _, _, *room = temporary.operands
                allocator = hal.DeviceAllocatorOp(copies.of(device)).result
                rest = [copies.of(value) for value in (affinity, *room)]
                copies.values[temporary.result] = hal.AllocatorAllocateOp(allocator, *rest).result
            buffer = copies.of(self.create.result)
            modes = self.create.attributes["modes"].type
            buffer.owner.attributes["modes"] = ir.IntegerAttr.get(modes, _REUSABLE)
            for op in (*self.once, self.finalize):
                copies.add(op)
            made = [*self.sizes, *(each.result for each in self.temporaries), self.create.result]
            for value, symbol in zip(made, kept, strict=True):
                util.GlobalStoreOp(copies.of(value), symbol)
            util.ReturnOp([])
        for op in self.once:
            op.erase()
        return name

    def _record_where_stale(self, record: str, recorded: str, sizes: list[str]) -> None:
        """Calls `record` where there is nothing recorded, or for other sizes."""
        type_ = self.create.result.type
        with ir.InsertionPoint.at_block_begin(self.create.block):
            held, none = util.GlobalLoadOp(type_, recorded).result, util.NullOp(type_).result
            is_stale = util.CmpEQOp(held, none).result
            for size, symbol in zip(self.sizes, sizes, strict=True):
                old = util.GlobalLoadOp(size.type, symbol).result
                is_stale = arith.ori(is_stale, arith.cmpi(arith.CmpIPredicate.ne, old, size))
            branch = scf.IfOp(is_stale)
            with ir.InsertionPoint(branch.then_block):
                util.CallOp([], record, self.sizes)
                scf.YieldOp([])

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


@dataclass(frozen=True)
class _Copies:
    """Copies of operations and of all that these are computed from; `values` are those so far."""

    values: dict[ir.Value, ir.Value]

    def of(self, value: ir.Value) -> ir.Value:
        """The copy of `value`, which is made here unless it was before."""
        if value not in self.values:
            self.add(value.owner)
        return self.values[value]

    def add(self, op: ir.Operation) -> None:
        """Makes a copy here."""
        for operand in op.operands:
            self.of(operand)
        clone_with(op, self.values)


def _waits_for_the_last_call(ops: list[ir.Operation]) -> bool:
    """Whether a fence is kept from call to call."""
    loaded, stored = (
        {_global(op) for op in ops if op.name == access and _moves_fence(op)}
        for access in (_LOAD, _STORE)
    )
    return bool(loaded & stored)


def _fixed_values(ops: list[ir.Operation], sizes: list[ir.Value]) -> set[ir.Value]:
    """Values that are the same in every call with these sizes, where the globals are.

    Buffers that are freed again are among them, for they may be kept.
    """
    fixed = set(sizes)
    for op in ops:
        is_same = op.name.startswith("arith.") or op.name in _SAME
        if is_same and fixed.issuperset(op.operands):
            fixed.update(op.results)
        elif op.name == _ALLOCATE and op.operands[-1] in fixed:
            fixed.update(op.results if _frees(op) else ())
    return fixed


def _keep(temporary: ir.Operation, symbol: str) -> None:
    """Puts what a global holds in the place of a temporary."""
    with ir.InsertionPoint(temporary):
        held = util.GlobalLoadOp(temporary.result.type, symbol).result
    frees = _frees(temporary)
    temporary.result.replace_all_uses_with(held)
    for op in (temporary, *frees):
        _skip(op)


def _frees(allocation: ir.Operation) -> list[ir.Operation]:
    users = [use.owner.operation for use in allocation.result.uses]
    return [user for user in users if user.name == _FREE]


def _sources(ops: list[ir.Operation]) -> set[ir.Value]:
    """All that the operands of `ops` are computed from."""
    found: set[ir.Value] = set()
    waiting = [operand for op in ops for operand in op.operands]
    while waiting:
        value = waiting.pop()
        if value not in found and not isinstance(value.owner, ir.Block):
            waiting += value.owner.operands
        found.add(value)
    return found


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


def _globals(function: ir.Operation, access: str) -> set[str]:
    """What `function` loads or stores, but fences."""
    ops = walk(function)
    return {_global(op) for op in ops if op.name == access and not _moves_fence(op)}


def _moves_fence(op: ir.Operation) -> bool:
    return any(str(value.type) == "!hal.fence" for value in (*op.operands, *op.results))


def _global(op: ir.Operation) -> str:
    return ir.FlatSymbolRefAttr(op.attributes["global"]).value


def _last_block(function: ir.Operation) -> ir.Block:
    (region,) = function.regions
    return region.blocks[len(region.blocks) - 1]
