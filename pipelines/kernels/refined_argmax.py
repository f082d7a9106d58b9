"""A kernel that finds the largest number of each row, and computes few of the others.

Which panels it computes hangs on what it has found before: linalg computes all or none.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import gcd, inf

from torch_mlir import ir
from torch_mlir.dialects import arith, math, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.argmax import equal
from llmc.dialects.index_notation import constant, index
from llmc.dialects.rough_products import LEAST_SQUARE
from llmc.pipelines.kernels.best_of_row import choose_best
from llmc.pipelines.kernels.counters import is_last_done
from llmc.pipelines.kernels.first_largest import first_places, places
from llmc.pipelines.kernels.kernel import Kernel, hoist_buffers, load_index, multiply_add
from llmc.pipelines.kernels.vectors import floats, load, read_bytes, total

# Buffers after the operands, and operands that the search itself reads, of quantised rows one more.
_AFTER = 5
_READ = 5
_LANES = 32
"""How many numbers of a row that is not quantised count together, at most."""

_NOWHERE = 2**31 - 1
"""A place behind all others."""


def refined_argmax(
    exact: Kernel, rows: ir.RankedTensorType, workgroups: int, is_quantized: bool
) -> Kernel:
    """`llmc.screened_argmax` of the result of `exact`, of type `rows [R, P, J]`.

    Workgroup (r, p) of `exact` computes a panel of J numbers, which of one row is workgroup (p, 0).
    Here each of `workgroups` looks through an equal share of the panels, row by row: first it
    computes the one, of all, where the rough number is largest, and then those of its share where a
    number may be as large as what it has found.

    Operands are those of `exact`, then `rough [R, N]`, i64 `first [R]`, the places where that is
    largest, and `values`, `metric`, `spread` and, where rows are quantised, as `is_quantized` says,
    `scales`, as the operation has them. Updated is i32 `done [1]`, which is 0 before and after.
    Results are i64 `best [R]`, what each workgroup found, f32 and i32 `[R, workgroups]`, and room
    for the rows.
    """
    count, panels, columns = rows.shape
    share = panels // workgroups
    read = _READ + is_quantized

    def build(x: ir.Value, _: ir.Value, extents: list[ir.Value], *buffers: ir.Value) -> None:
        given, (done, best, largest, where, room) = buffers[:-_AFTER], buffers[-_AFTER:]
        operands, (rough, first, values, metric, spread, *scales) = given[:-read], given[-read:]
        begin = arith.muli(x, index(share))
        nowhere = constant(panels * columns, T.i32())
        with _each_row(best) as row:
            search = _Search(row, room, rough, spread, _length(row, values, metric, *scales))

            def compute(panel: ir.Value) -> None:
                workgroup = (panel, index(0)) if count == 1 else (row, panel)
                exact.build(*workgroup, extents, *operands, room)

            found = search.best(_panel_of(first, row, columns), begin, share, nowhere, compute)
            for value, buffer in zip(found, (largest, where), strict=True):
                memref.store(value, buffer, [row, x])
        is_last = is_last_done(done, index(0), constant(workgroups - 1, done.type.element_type))
        with ir.InsertionPoint(scf.IfOp(is_last).then_block):
            with _each_row(best) as row:
                choose_best(largest, where, row, nowhere, best)
            scf.YieldOp([])
        hoist_buffers(ir.InsertionPoint.current.block)

    return Kernel(f"refined_{exact.name}", lambda _: (workgroups, 1), build)


@contextmanager
def _each_row(best: ir.Value) -> Iterator[ir.Value]:
    """Inserts into a loop over the rows of `best [R]`; the number of one."""
    loop = scf.ForOp(index(0), memref.dim(best, index(0)), index(1))
    with ir.InsertionPoint(loop.body):
        yield loop.induction_variable
        scf.YieldOp([])


class _Search:
    """Looks through the panels of a row: `room [R, P, J]` is for those that are computed.

    A number is at most `rough [R, N]` plus `spread [N]` times `length`.
    """

    def __init__(
        self, row: ir.Value, room: ir.Value, rough: ir.Value, spread: ir.Value, length: ir.Value
    ) -> None:
        self._row, self._room, self._rough = row, room, rough
        self._spread, self._length = spread, length
        self._columns = room.type.shape[-1]

    def best(
        self,
        first: ir.Value,
        begin: ir.Value,
        count: int,
        nowhere: ir.Value,
        compute: Callable[[ir.Value], None],
    ) -> list[ir.Value]:
        """The largest number of panel `first` and of `count` others from `begin` on; its place.

        `compute` writes what computes a panel. The place is `nowhere` where there is no number.
        """
        found = [constant(-inf, T.f32()), nowhere]
        # One loop for the first panel and for the others: so the code that computes is there once.
        loop = scf.ForOp(index(0), index(count + 1), index(1), found)
        with ir.InsertionPoint(loop.body):
            number, found = loop.induction_variable, list(loop.inner_iter_args)
            is_first = arith.cmpi(arith.CmpIPredicate.eq, number, index(0))
            own = arith.addi(begin, arith.subi(number, index(1)))
            panel = arith.select(is_first, first, own)
            choice = scf.IfOp(
                self._may_hold(panel, found[0]), [v.type for v in found], has_else=True
            )
            with ir.InsertionPoint(choice.then_block):
                compute(panel)
                scf.YieldOp(self._better(panel, *found))
            with ir.InsertionPoint(choice.else_block):
                scf.YieldOp(found)
            scf.YieldOp(list(choice.results))
        return list(loop.results)

    def _may_hold(self, panel: ir.Value, largest: ir.Value) -> ir.Value:
        """Whether a number of `panel` may be as large as `largest`, or be NaN."""
        at = arith.muli(panel, index(self._columns))
        rough = load(self._rough, [self._row, at], self._columns)
        spread = load(self._spread, [at], self._columns)
        length, least = (vector.broadcast(rough.type, value) for value in (self._length, largest))
        most = multiply_add(spread, length, rough)
        may = arith.cmpf(arith.CmpFPredicate.UGE, most, least)
        return vector.reduction(T.bool(), vector.CombiningKind.OR, may)

    def _better(self, panel: ir.Value, largest: ir.Value, place: ir.Value) -> list[ir.Value]:
        """The largest of `largest`, at `place`, and of the numbers of `panel`; its first place."""
        i32, kinds = place.type, vector.CombiningKind
        numbers = load(self._room, [self._row, panel, index(0)], self._columns)
        own = vector.reduction(largest.type, kinds.MAXIMUMF, numbers)
        both = arith.maximumf(largest, own)
        at = arith.muli(arith.index_cast(i32, panel), constant(self._columns, i32))
        type_ = places(numbers.type)
        own_places = arith.addi(first_places(numbers.type), vector.broadcast(type_, at))
        nowhere = vector.broadcast(type_, constant(_NOWHERE, i32))
        is_largest = equal(numbers, vector.broadcast(numbers.type, both))
        here = arith.select(is_largest, own_places, nowhere)
        before = arith.select(equal(largest, both), place, constant(_NOWHERE, i32))
        return [both, arith.minsi(before, vector.reduction(i32, kinds.MINSI, here))]


def _panel_of(first: ir.Value, row: ir.Value, columns: int) -> ir.Value:
    """The panel of a row's place in `first [R]`; panel 0 where that is -1, for no place."""
    place = arith.maxsi(load_index(first, row), index(0))
    return arith.divui(place, index(columns))


def _length(
    row: ir.Value, values: ir.Value, metric: ir.Value, scales: ir.Value | None = None
) -> ir.Value:
    """The length of a row of `values [R, K]`, each number being multiplied by its own of `metric`.

    Of i8 `values` a group has one of `scales [R, B]`.
    """
    f32 = T.f32()
    length = values.type.shape[1]
    lanes = gcd(length, _LANES) if scales is None else length // scales.type.shape[1]
    start = [constant(LEAST_SQUARE, f32)]
    loop = scf.ForOp(index(0), index(length // lanes), index(1), start)
    with ir.InsertionPoint(loop.body):
        group = loop.induction_variable
        at = arith.muli(group, index(lanes))
        numbers = _numbers(values, [row, at], lanes)
        measured = arith.mulf(numbers, load(metric, [at], lanes))
        share = total(arith.mulf(measured, measured))
        if scales is not None:
            scale = memref.load(scales, [row, group])
            share = arith.mulf(share, arith.mulf(scale, scale))
        scf.YieldOp([arith.addf(loop.inner_iter_args[0], share)])
    return math.sqrt(loop.results[0])


def _numbers(values: ir.Value, where: list[ir.Value], lanes: int) -> ir.Value:
    if isinstance(values.type.element_type, ir.FloatType):
        return load(values, where, lanes)
    return arith.sitofp(floats(lanes), read_bytes(values, where, lanes))
