"""What the parts of a head's columns give to attention, and how they become one.

No dispatch of its own combines them: each part leaves its sums in memory and counts itself, and
the one that finds all others counted adds up.
"""

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, math, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.attention import HIDDEN
from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.counters import is_last_done
from llmc.pipelines.kernels.kernel import multiply_add
from llmc.pipelines.kernels.online_softmax import LEAST, OnlineSoftmax, logarithm
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.kernels.vectors import floats, load, width_of

# Into how many parts the columns of all heads together are cut at most.
PARTS = 32


def room_type(groups: int | None, sharing: int, channels: int) -> ir.RankedTensorType:
    """Room for the parts of `groups` key heads of all sequences; None where dynamic.

    For each query head the sums of `channels` values, then the peak and the sum of weights.
    """
    size = ir.ShapedType.get_dynamic_size() if groups is None else PARTS + groups
    return ir.RankedTensorType.get([size, sharing, channels + 2], T.f32())


def room_size(groups: ir.Value) -> ir.Value:
    """The first extent of `room_type` where it is dynamic."""
    return arith.addi(groups, index(PARTS))


@dataclass(frozen=True)
class Parts:
    """Part `part` of `count` of key head `group`; of `count` > 1 there are `PARTS` at most.

    `room` is as `room_type` says; `done [PARTS]` counts the parts of each key head. With
    `logarithms`, that of the sum of its scores' exponentials follows each row of the result.
    """

    room: ir.Value
    done: ir.Value
    group: ir.Value
    part: ir.Value
    count: ir.Value
    logarithms: bool = False

    @property
    def _channels(self) -> int:
        return self.room.type.shape[2] - 2

    def put(self, softmax: OnlineSoftmax, row: ir.Value, head: ir.Value, lanes: int) -> None:
        """Leaves what row `row` of `softmax` has seen as that of query head `head` of the key's."""
        channels = index(self._channels)
        where = [self._place(self.part), head]
        lanes = width_of(lanes, self._channels)
        for e in scf.for_(index(0), channels, index(lanes)):
            vector.store(load(softmax.sums, [row, e], lanes), self.room, [*where, e])
            scf.yield_([])
        memref.store(softmax.peak(row), self.room, [*where, channels])
        after = index(self._channels + 1)
        memref.store(softmax.total(row), self.room, [*where, after])

    def combine(self, out: ir.Value, row: ir.Value, first: ir.Value, lanes: int) -> None:
        """Once for all parts: writes row `row` of `out [B, H * E]` from query head `first` on."""
        scales = memref.alloca(ir.MemRefType.get([PARTS], T.f32()), [], [])
        width = self._channels + self.logarithms
        branch = scf.IfOp(self._is_last_done())
        with ir.InsertionPoint(branch.then_block):
            for head in scf.for_(index(0), index(self.room.type.shape[1])):
                peak, total = self._weigh(head, scales)
                at = arith.muli(arith.addi(first, head), index(width))
                norm = arith.divf(constant(1.0, total.type), total)
                self._add(head, scales, norm, out, row, at, width_of(lanes, self._channels))
                if self.logarithms:
                    where = [row, arith.addi(at, index(self._channels))]
                    memref.store(logarithm(peak, total), out, where)
                scf.yield_([])
            scf.yield_([])

    def _place(self, part: ir.Value) -> ir.Value:
        return arith.addi(arith.muli(self.group, self.count), part)

    def _is_last_done(self) -> ir.Value:
        """Counts this part; whether all others were counted before."""
        i1 = T.bool()
        several = arith.cmpi(arith.CmpIPredicate.ugt, self.count, index(1))
        branch = scf.IfOp(several, [i1], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            scf.yield_([self._count()])
        with ir.InsertionPoint(branch.else_block):
            scf.yield_([constant(1, i1)])
        return branch.results[0]

    def _count(self) -> ir.Value:
        i32 = self.done.type.element_type
        others = arith.subi(arith.index_cast(i32, self.count), constant(1, i32))
        return is_last_done(self.done, self.group, others)

    def _weigh(self, head: ir.Value, scales: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Fills `scales` by what each part's sums shrink; returns the peak and total of weights."""
        f32 = T.f32()
        peak, sum_ = index(self._channels), index(self._channels + 1)
        loop = scf.ForOp(index(0), self.count, index(1), [constant(HIDDEN, f32)])
        with ir.InsertionPoint(loop.body):
            found = memref.load(self.room, [self._place(loop.induction_variable), head, peak])
            scf.yield_([arith.maximumf(loop.inner_iter_args[0], found)])
        highest = loop.results[0]
        loop = scf.ForOp(index(0), self.count, index(1), [constant(0.0, f32)])
        with ir.InsertionPoint(loop.body):
            part = loop.induction_variable
            where = [self._place(part), head]
            scale = math.exp2(arith.subf(memref.load(self.room, [*where, peak]), highest))
            memref.store(scale, scales, [part])
            weights = memref.load(self.room, [*where, sum_])
            scf.yield_([multiply_add(weights, scale, loop.inner_iter_args[0])])
        # A row that sees no column becomes 0, not 0/0.
        return highest, arith.maximumf(loop.results[0], constant(LEAST, f32))

    def _add(
        self,
        head: ir.Value,
        scales: ir.Value,
        norm: ir.Value,
        out: ir.Value,
        row: ir.Value,
        at: ir.Value,
        lanes: int,
    ) -> None:
        type_ = floats(lanes)
        for e in scf.for_(index(0), index(self._channels), index(lanes)):
            loop = scf.ForOp(index(0), self.count, index(1), [splat(0.0, floats(lanes))])
            with ir.InsertionPoint(loop.body):
                part = loop.induction_variable
                scale = vector.broadcast(type_, memref.load(scales, [part]))
                sums = load(self.room, [self._place(part), head, e], lanes)
                scf.yield_([multiply_add(scale, sums, loop.inner_iter_args[0])])
            mixed = arith.mulf(loop.results[0], vector.broadcast(type_, norm))
            vector.store(mixed, out, [row, arith.addi(at, e)])
            scf.yield_([])
