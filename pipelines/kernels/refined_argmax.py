"""A kernel that finds the largest number of a row of which it computes few."""

from math import inf

from torch_mlir import ir
from torch_mlir.dialects import arith, math, memref, scf, vector

from llmc.dialects.argmax import equal
from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.best_of_row import choose_best
from llmc.pipelines.kernels.counters import is_last_done
from llmc.pipelines.kernels.kernel import Kernel, hoist_buffers, load_index, multiply_add
from llmc.pipelines.kernels.vectors import floats, load, read_bytes, total

# Buffers after the operands.
_AFTER = 5


def refined_argmax(exact: Kernel, row: ir.RankedTensorType, workgroups: int) -> Kernel:
    """What `llmc.screened_argmax` says of the result of `exact`, `row [1, P, J]`.

    A workgroup of `exact` computes one panel of J numbers; each of the `workgroups` looks through
    an equal part of all. First it computes the panel where the rough numbers are largest, and then
    those where one may be as large as the largest that it has found. Operands are those of the
    kernel, `rough [1, N]`, i64 `first [1]`, where that is largest, and the `values`, `scales`,
    `metric` and `spread` of the operation; then i32 `done [1]` that is updated, 0 before and after.
    Results are i64 `best [1]`, for the workgroups f32 and i32 `[workgroups]`, and room for the row.
    """
    _, panels, columns = row.shape
    share = panels // workgroups

    def build(x: ir.Value, _: ir.Value, extents: list[ir.Value], *buffers: ir.Value) -> None:
        *operands, rough, first, values, scales, metric, spread = buffers[:-_AFTER]
        done, best, largest, places, room = buffers[-_AFTER:]
        search = _Search(room, rough, spread, _length(values, scales, metric), columns)
        begin = arith.muli(x, index(share))
        nowhere = constant(panels * columns, ir.IntegerType.get_signless(32))
        found = [constant(-inf, ir.F32Type.get()), nowhere]
        # One code computes a panel, whichever it is.
        loop = scf.ForOp(index(0), index(share + 1), index(1), found)
        with ir.InsertionPoint(loop.body):
            number, found = loop.induction_variable, list(loop.inner_iter_args)
            is_first = arith.cmpi(arith.CmpIPredicate.eq, number, index(0))
            own = arith.addi(begin, arith.subi(number, index(1)))
            panel = arith.select(is_first, _panel_of(first, columns), own)
            choice = scf.IfOp(
                search.may_hold(panel, found[0]), [v.type for v in found], has_else=True
            )
            with ir.InsertionPoint(choice.then_block):
                exact.build(panel, index(0), extents, *operands, room)
                scf.YieldOp(search.better(panel, *found))
            with ir.InsertionPoint(choice.else_block):
                scf.YieldOp(found)
            scf.YieldOp(list(choice.results))
        for value, buffer in zip(loop.results, (largest, places), strict=True):
            memref.store(value, buffer, [x])
        is_last = is_last_done(done, index(0), constant(workgroups - 1, done.type.element_type))
        with ir.InsertionPoint(scf.IfOp(is_last).then_block):
            choose_best(largest, places, nowhere, best)
            scf.YieldOp([])
        hoist_buffers(ir.InsertionPoint.current.block)

    return Kernel(f"refined_{exact.name}", lambda _: (workgroups, 1), build)


class _Search:
    """Panels of a row: `room [1, P, J]` for its numbers, and what is known of them before."""

    def __init__(
        self, room: ir.Value, rough: ir.Value, spread: ir.Value, length: ir.Value, columns: int
    ) -> None:
        self._room, self._rough, self._spread = room, rough, spread
        self._length, self._columns = length, columns

    def may_hold(self, panel: ir.Value, largest: ir.Value) -> ir.Value:
        """Whether a number of `panel` may be as large as `largest`, or be none."""
        at = arith.muli(panel, index(self._columns))
        rough = load(self._rough, [index(0), at], self._columns)
        spread = load(self._spread, [at], self._columns)
        length, least = (vector.broadcast(rough.type, value) for value in (self._length, largest))
        most = multiply_add(spread, length, rough)
        may = arith.cmpf(arith.CmpFPredicate.UGE, most, least)
        return vector.reduction(ir.IntegerType.get_signless(1), vector.CombiningKind.OR, may)

    def better(self, panel: ir.Value, largest: ir.Value, place: ir.Value) -> list[ir.Value]:
        """The larger of `largest` and the numbers of `panel`, and the first place of these."""
        i32, kinds = place.type, vector.CombiningKind
        numbers = load(self._room, [index(0), panel, index(0)], self._columns)
        own = vector.reduction(largest.type, kinds.MAXIMUMF, numbers)
        both = arith.maximumf(largest, own)
        at = arith.muli(arith.index_cast(i32, panel), constant(self._columns, i32))
        steps = [ir.IntegerAttr.get(i32, number) for number in range(self._columns)]
        type_ = ir.VectorType.get([self._columns], i32)
        places = arith.addi(
            arith.ConstantOp(type_, ir.DenseElementsAttr.get(steps, type_)),
            vector.broadcast(type_, at),
        )
        nowhere = vector.broadcast(type_, constant(2**31 - 1, i32))
        here = arith.select(equal(numbers, vector.broadcast(numbers.type, both)), places, nowhere)
        before = arith.select(equal(largest, both), place, constant(2**31 - 1, i32))
        return [both, arith.minsi(before, vector.reduction(i32, kinds.MINSI, here))]


def _panel_of(first: ir.Value, columns: int) -> ir.Value:
    """The panel that `first` says, the first one where it says that there is none."""
    place = arith.maxsi(load_index(first, index(0)), index(0))
    return arith.divui(place, index(columns))


def _length(values: ir.Value, scales: ir.Value, metric: ir.Value) -> ir.Value:
    """The length of a row, integers i8 `[1, K]`, each times its `metric [K]` and its group's scale.

    `scales` are f32 `[1, B]`.
    """
    f32 = ir.F32Type.get()
    groups = scales.type.shape[1]
    lanes = values.type.shape[1] // groups
    loop = scf.ForOp(index(0), index(groups), index(1), [constant(0.0, f32)])
    with ir.InsertionPoint(loop.body):
        group = loop.induction_variable
        at = arith.muli(group, index(lanes))
        numbers = arith.sitofp(floats(lanes), read_bytes(values, [index(0), at], lanes))
        measured = arith.mulf(numbers, load(metric, [at], lanes))
        scale = memref.load(scales, [index(0), group])
        share = arith.mulf(total(arith.mulf(measured, measured)), arith.mulf(scale, scale))
        scf.YieldOp([arith.addf(loop.inner_iter_args[0], share)])
    return math.sqrt(loop.results[0])
