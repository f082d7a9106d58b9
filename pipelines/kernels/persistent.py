"""A kernel that runs for many dispatches: the phases of all layers, one after the other.

Its workgroups take tasks from a shared counter. Tasks are numbered in the order of their phases,
and one can be taken once all tasks of the phases before are done. A workgroup that waits too long
for that leaves, since the thread that it waits for may need its CPU; whoever does the last task of
a phase goes on with the next, so that all are done however few remain. Gupta et al., "A Study of
Persistent Threads Style GPU Programming for GPGPU Workloads", 2012.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf

from llmc.dialects.index_notation import index

COUNTERS = 48
"""How many counters the workgroups share, 32 bits each."""

# Each in a cache line of its own: the tasks taken, those done, the workgroups that have left.
_TAKEN, _DONE, _LEFT = 0, 16, 32

# How often a workgroup looks for a task before it leaves: some 20 microseconds.
_PATIENCE = 1000

_LESS, _EQUAL = arith.CmpIPredicate.ult, arith.CmpIPredicate.eq


@dataclass(frozen=True)
class Phase:
    """A grid of workgroups that becomes tasks of a persistent kernel.

    `grid()` builds the width and height of the grid, the same for all layers;
    `build(layer, x, y)` what workgroup (x, y) does for a layer.
    """

    grid: Callable[[], tuple[ir.Value, ir.Value]]
    build: Callable[[ir.Value, ir.Value, ir.Value], None]


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

    def run(layer: ir.Value, number: int, own: ir.Value) -> None:
        width, _ = grids[number]
        x, y = arith.remui(own, width), arith.divui(own, width)
        phases[number].build(arith.addi(layer, first), x, y)

    tasks.run_all(run)
    _leave(workgroups, counters)


class _Tasks:
    """The tasks of all layers; those of a layer's phase begin at the phase's of `starts`."""

    def __init__(self, starts: list[ir.Value], layers: ir.Value, counters: ir.Value) -> None:
        *self.starts, self.each = starts
        self.total = arith.muli(self.each, layers)
        self.counters = counters

    def run_all(self, run: Callable[[ir.Value, int, ir.Value], None]) -> None:
        """Runs what this workgroup is first to take: `run(layer, phase, workgroup of its grid)`."""
        loop = scf.WhileOp([ir.IndexType.get()], [])
        with ir.InsertionPoint(loop.before.blocks.append()):
            task = self._take()
            scf.ConditionOp(arith.cmpi(_LESS, task, self.total), [task])
        body = loop.after.blocks.append(ir.IndexType.get(), arg_locs=[ir.Location.current])
        with ir.InsertionPoint(body):
            (task,) = body.arguments
            layer, within = (op(task, self.each) for op in (arith.divui, arith.remui))
            self._choose(within, 0, lambda *chosen: run(layer, *chosen))
            _count(_DONE, self.counters)
            scf.YieldOp([])

    def _take(self) -> ir.Value:
        """The next task, once what it needs is done; as many as all where none is to be had."""
        types = [ir.IndexType.get()] * 2
        loop = scf.WhileOp(types, [index(0), self.total])
        locations = [ir.Location.current] * 2
        look = loop.before.blocks.append(*types, arg_locs=locations)
        with ir.InsertionPoint(look):
            looks, _ = look.arguments
            task = _count(_TAKEN, self.counters, by=0)
            is_left = arith.cmpi(_LESS, task, self.total)
            is_early = arith.cmpi(_LESS, _count(_DONE, self.counters, by=0), self._needs(task))
            taken = self._try_to_take(task, arith.andi(is_left, _not(is_early)))
            goes_on = arith.andi(is_left, arith.andi(_not(taken), _is_patient(looks)))
            scf.ConditionOp(goes_on, [looks, arith.select(taken, task, self.total)])
        again = loop.after.blocks.append(*types, arg_locs=locations)
        with ir.InsertionPoint(again):
            looks, none = again.arguments
            scf.YieldOp([arith.addi(looks, index(1)), none])
        return loop.results[1]

    def _needs(self, task: ir.Value) -> ir.Value:
        """How many tasks must be done before `task`."""
        within = arith.remui(task, self.each)
        start = self.starts[0]
        for later in self.starts[1:]:
            start = arith.select(arith.cmpi(_LESS, within, later), start, later)
        return arith.addi(arith.subi(task, within), start)

    def _try_to_take(self, task: ir.Value, can: ir.Value) -> ir.Value:
        """Whether `can` is true and this workgroup is the first to take `task`."""
        i1 = ir.IntegerType.get_signless(1)
        choice = scf.IfOp(can, [i1], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            scf.YieldOp([_exchange(_TAKEN, self.counters, task)])
        with ir.InsertionPoint(choice.else_block):
            scf.YieldOp([arith.constant(i1, 0)])
        return choice.results[0]

    def _choose(self, within: ir.Value, number: int, run: Callable[[int, ir.Value], None]) -> None:
        """Builds the phases from `number` on, of which that runs which `within` is a task of."""
        own = arith.subi(within, self.starts[number])
        if number == len(self.starts) - 1:
            run(number, own)
            return
        choice = scf.IfOp(arith.cmpi(_LESS, within, self.starts[number + 1]), has_else=True)
        with ir.InsertionPoint(choice.then_block):
            run(number, own)
            scf.YieldOp([])
        with ir.InsertionPoint(choice.else_block):
            self._choose(within, number + 1, run)
            scf.YieldOp([])


def _leave(workgroups: int, counters: ir.Value) -> None:
    """Clears the counters if this workgroup is the last."""
    is_last = arith.cmpi(_EQUAL, _count(_LEFT, counters), index(workgroups - 1))
    with ir.InsertionPoint(scf.IfOp(is_last).then_block):
        zero = _i32(0)
        for counter in (_TAKEN, _DONE, _LEFT):
            memref.store(zero, counters, [index(counter)])
        scf.YieldOp([])


def _count(counter: int, counters: ir.Value, by: int = 1) -> ir.Value:
    """Adds to a counter; returns, as an index, what it was. Orders memory: acquire and release."""
    old = memref.atomic_rmw(arith.AtomicRMWKind.addi, _i32(by), counters, [index(counter)])
    return arith.index_cast(ir.IndexType.get(), old)


def _exchange(counter: int, counters: ir.Value, expected: ir.Value) -> ir.Value:
    """Adds 1 to a counter if it is as `expected`; whether it was."""
    i32 = ir.IntegerType.get_signless(32)
    value = arith.index_cast(i32, expected)
    update = memref.GenericAtomicRMWOp(i32, counters, [index(counter)])
    block = update.regions[0].blocks.append(i32, arg_locs=[ir.Location.current])
    with ir.InsertionPoint(block):
        (old,) = block.arguments
        is_expected = arith.cmpi(_EQUAL, old, value)
        memref.AtomicYieldOp(arith.select(is_expected, arith.addi(old, _i32(1)), old))
    return arith.cmpi(_EQUAL, update.result, value)


def _is_patient(looks: ir.Value) -> ir.Value:
    return arith.cmpi(_LESS, looks, index(_PATIENCE))


def _not(value: ir.Value) -> ir.Value:
    return arith.xori(value, arith.constant(ir.IntegerType.get_signless(1), 1))


def _i32(value: int) -> ir.Value:
    return arith.constant(ir.IntegerType.get_signless(32), value)
