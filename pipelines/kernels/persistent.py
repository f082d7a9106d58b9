"""A kernel that runs for many dispatches: the phases of all layers, one after the other.

Its workgroups take tasks, numbered in the order of their phases, from a shared counter. Whoever has
taken one asks memory for what it will read first, and waits until all tasks of the phases before
are done. A workgroup that waits too long puts its task back and leaves, since the thread that it
waits for may need its CPU; whoever does the last task of a phase goes on with the next, so that all
are done however few remain. What the tasks do is the code of kernels that schedules made; that
workgroups wait for each other, neither IREE nor the transform dialect can say.

Gupta et al., "A Study of Persistent Threads Style GPU Programming for GPGPU Workloads", 2012.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import index
from llmc.pipelines.kernels.kernel import div_rem

COUNTERS = 16
"""How many counters the workgroups share, 64 bits each."""

# Each in a cache line of its own: the tasks, and the workgroups that have left.
_TASKS, _LEFT = 0, 8

# Tasks taken are counted in the lower half of a counter and those done in the upper half, so that
# one operation does both: each costs the time in which a line goes from cache to cache.
_HALF = 32
_TAKE, _TAKE_AFTER_DONE = 1, 1 + (1 << _HALF)

# How often a workgroup looks whether its task can begin before it leaves: for half a millisecond to
# two. That is longer than a task takes: who waits for one shall not leave the others to one thread.
_PATIENCE = 100_000

_Workgroup: TypeAlias = Callable[[ir.Value, ir.Value, ir.Value], None]
"""`(layer, x, y)`."""

_Task: TypeAlias = Callable[[ir.Value, int, ir.Value], None]
"""`(layer, phase, workgroup of its grid)`."""

_LESS, _EQUAL = arith.CmpIPredicate.ult, arith.CmpIPredicate.eq


@dataclass(frozen=True)
class Phase:
    """A grid of workgroups that becomes tasks of a persistent kernel.

    `grid()` builds the width and height of the grid, the same for all layers;
    `ask(layer, x, y)` what workgroup (x, y) asks memory for of what it reads for a layer, before it
    may begin; and `build(layer, x, y)` what it does then.
    """

    grid: Callable[[], tuple[ir.Value, ir.Value]]
    ask: _Workgroup
    build: _Workgroup


def run_phases(
    phases: list[Phase],
    first: ir.Value,
    layers: ir.Value,
    workgroups: int,
    counters: ir.Value,
) -> None:
    """Builds the phases of the layers `first` to `first + layers - 1`, in order.

    `counters [COUNTERS]` are 0 before and after; `workgroups` is how many run this code.
    """
    grids = [phase.grid() for phase in phases]
    extents = [arith.muli(width, height) for width, height in grids]
    starts = list(accumulate(extents, arith.addi, initial=index(0)))
    tasks = _Tasks(starts, layers, counters)

    def run(workgroups: list[_Workgroup], layer: ir.Value, number: int, own: ir.Value) -> None:
        width, _ = grids[number]
        x, y = arith.remui(own, width), arith.divui(own, width)
        workgroups[number](arith.addi(layer, first), x, y)

    asks, builds = [phase.ask for phase in phases], [phase.build for phase in phases]
    tasks.run_all(partial(run, asks), partial(run, builds))
    _leave(workgroups, counters)


class _Tasks:
    """The tasks of all layers; those of a layer's phase begin at the phase's of `starts`."""

    def __init__(self, starts: list[ir.Value], layers: ir.Value, counters: ir.Value) -> None:
        *self.starts, self.each = starts
        self.total = arith.muli(self.each, layers)
        self.counters = counters

    def run_all(self, ask: _Task, run: _Task) -> None:
        """Runs what this workgroup is first to take, and has it ask before it waits."""
        types, locations = [T.index()], [ir.Location.current]
        loop = scf.WhileOp(types, [self._take(_TAKE)])
        look = loop.before.blocks.append(*types, arg_locs=locations)
        with ir.InsertionPoint(look):
            (task,) = look.arguments
            with ir.InsertionPoint(scf.IfOp(self._exists(task)).then_block):
                self._choose(task, ask)
                scf.YieldOp([])
            scf.ConditionOp(self._can_begin(task), [task])
        body = loop.after.blocks.append(*types, arg_locs=locations)
        with ir.InsertionPoint(body):
            (task,) = body.arguments
            self._choose(task, run)
            scf.YieldOp([self._take(_TAKE_AFTER_DONE)])

    def _take(self, how: int) -> ir.Value:
        """The next task; there may be none of that number."""
        taken = arith.trunci(T.i32(), _count(_TASKS, self.counters, how))
        return arith.index_castui(T.index(), taken)

    def _can_begin(self, task: ir.Value) -> ir.Value:
        """Waits for what `task` needs. False where there is no such task, or it was put back."""
        needed, exists = self._needs(task), self._exists(task)
        types, locations = [T.index(), T.bool()], [ir.Location.current] * 2
        loop = scf.WhileOp(types, [index(0)])
        look = loop.before.blocks.append(types[0], arg_locs=locations[:1])
        with ir.InsertionPoint(look):
            (looks,) = look.arguments
            done = arith.shrui(_count(_TASKS, self.counters, 0), _i64(_HALF))
            is_early = arith.cmpi(_LESS, arith.index_cast(T.index(), done), needed)
            waits = arith.andi(exists, is_early)
            is_impatient = arith.cmpi(_LESS, index(_PATIENCE), looks)
            leaves = self._try_to_put_back(task, arith.andi(waits, is_impatient))
            can_begin = arith.andi(exists, _not(is_early))
            scf.ConditionOp(arith.andi(waits, _not(leaves)), [looks, can_begin])
        again = loop.after.blocks.append(*types, arg_locs=locations)
        with ir.InsertionPoint(again):
            scf.YieldOp([arith.addi(again.arguments[0], index(1))])
        return loop.results[1]

    def _exists(self, task: ir.Value) -> ir.Value:
        return arith.cmpi(_LESS, task, self.total)

    def _needs(self, task: ir.Value) -> ir.Value:
        """How many tasks must be done before `task`."""
        within = arith.remui(task, self.each)
        start = self.starts[0]
        for later in self.starts[1:]:
            start = arith.select(arith.cmpi(_LESS, within, later), start, later)
        return arith.addi(arith.subi(task, within), start)

    def _try_to_put_back(self, task: ir.Value, may: ir.Value) -> ir.Value:
        """Whether `may` is true and nobody has taken a task after `task`, which is free again."""
        choice = scf.IfOp(may, [T.bool()], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            scf.YieldOp([_decrement(_TASKS, self.counters, arith.addi(task, index(1)))])
        with ir.InsertionPoint(choice.else_block):
            scf.YieldOp([arith.constant(T.bool(), 0)])
        return choice.results[0]

    def _choose(self, task: ir.Value, run: _Task) -> None:
        """Builds `run` for all phases, of which that runs which `task` is of."""
        layer, within = div_rem(task, self.each)
        self._choose_from(0, within, partial(run, layer))

    def _choose_from(
        self, number: int, within: ir.Value, run: Callable[[int, ir.Value], None]
    ) -> None:
        own = arith.subi(within, self.starts[number])
        if number == len(self.starts) - 1:
            run(number, own)
            return
        choice = scf.IfOp(arith.cmpi(_LESS, within, self.starts[number + 1]), has_else=True)
        with ir.InsertionPoint(choice.then_block):
            run(number, own)
            scf.YieldOp([])
        with ir.InsertionPoint(choice.else_block):
            self._choose_from(number + 1, within, run)
            scf.YieldOp([])


def _leave(workgroups: int, counters: ir.Value) -> None:
    """Clears the counters if this workgroup is the last."""
    is_last = arith.cmpi(_EQUAL, _count(_LEFT, counters, 1), _i64(workgroups - 1))
    with ir.InsertionPoint(scf.IfOp(is_last).then_block):
        for counter in (_TASKS, _LEFT):
            memref.store(_i64(0), counters, [index(counter)])
        scf.YieldOp([])


def _count(counter: int, counters: ir.Value, by: int) -> ir.Value:
    """Adds to a counter; returns what it was. Orders memory: acquire and release."""
    return memref.atomic_rmw(arith.AtomicRMWKind.addi, _i64(by), counters, [index(counter)])


def _decrement(counter: int, counters: ir.Value, expected: ir.Value) -> ir.Value:
    """Takes 1 from a counter if its lower half is as `expected`; whether it was."""
    i64 = T.i64()
    value = arith.index_castui(T.i32(), expected)
    update = memref.GenericAtomicRMWOp(i64, counters, [index(counter)])
    block = update.regions[0].blocks.append(i64, arg_locs=[ir.Location.current])
    with ir.InsertionPoint(block):
        (old,) = block.arguments
        is_expected = arith.cmpi(_EQUAL, arith.trunci(T.i32(), old), value)
        memref.AtomicYieldOp(arith.select(is_expected, arith.subi(old, _i64(1)), old))
    return arith.cmpi(_EQUAL, arith.trunci(T.i32(), update.result), value)


def _not(value: ir.Value) -> ir.Value:
    return arith.xori(value, arith.constant(T.bool(), 1))


def _i64(value: int) -> ir.Value:
    return arith.constant(T.i64(), value)
