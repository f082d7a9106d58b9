"""The kernel of `llmc.nucleus`: searches the least number that is kept, from its first bits on.

Of floats that are not negative, the larger has the larger bits. A pass over the row, which stays in
the cache, finds the next of them: whether what is above a number with that bit still is enough.
"""

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import constant, index
from llmc.dialects.nucleus import border
from llmc.pipelines.kernels.first_largest import kernel_of_rows
from llmc.pipelines.kernels.kernel import Kernel
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.kernels.vectors import total

_BITS = 31
"""Of a float without its sign."""


def nucleus(x: ir.RankedTensorType, lanes: int) -> Kernel:
    """Operands `x [R, N]` and `share [1]`, result `[R, N]`."""

    def build(
        numbers: ir.VectorType,
        row: ir.Value,
        _extents: list[ir.Value],
        x: ir.Value,
        share: ir.Value,
        out: ir.Value,
    ) -> None:
        given = _Row(x, row, numbers)
        none = constant(0, T.i32())
        enough = border(given.sum_above(none), memref.load(share, [index(0)]))
        given.copy_above(_search(given, enough, none), out)

    return kernel_of_rows("nucleus", x, lanes, build)


def _search(row: "_Row", enough: ir.Value, none: ir.Value) -> ir.Value:
    """The bits of the largest number above which there is `enough`; `none`, if there is no such."""
    loop = scf.ForOp(index(0), index(_BITS), index(1), [none])
    with ir.InsertionPoint(loop.body):
        (found,) = loop.inner_iter_args
        place = arith.subi(index(_BITS - 1), loop.induction_variable)
        bit = arith.shli(constant(1, none.type), arith.index_cast(none.type, place))
        more = arith.ori(found, bit)
        is_enough = arith.cmpf(arith.CmpFPredicate.OGE, row.sum_above(more), enough)
        scf.yield_([arith.select(is_enough, more, found)])
    return loop.result


@dataclass(frozen=True)
class _Row:
    """A row of `x [R, N]`, in vectors of the type `numbers`; what is left is a shorter one."""

    x: ir.Value
    row: ir.Value
    numbers: ir.VectorType

    def sum_above(self, bits: ir.Value) -> ir.Value:
        """The sum of the numbers whose bits are above these."""
        loop = scf.ForOp(index(0), index(self._whole), self._step, [splat(0.0, self.numbers)])
        with ir.InsertionPoint(loop.body):
            found = self._above(bits, self.numbers, loop.induction_variable)
            scf.yield_([arith.addf(loop.inner_iter_args[0], found)])
        sum_ = total(loop.result)
        if self._left is None:
            return sum_
        return arith.addf(sum_, total(self._above(bits, self._left, index(self._whole))))

    def copy_above(self, bits: ir.Value, out: ir.Value) -> None:
        """Writes those numbers to the row of `out`, and 0 for the others."""
        for at in scf.for_(index(0), index(self._whole), self._step):
            vector.store(self._above(bits, self.numbers, at), out, [self.row, at])
            scf.yield_([])
        if self._left is not None:
            at = index(self._whole)
            vector.store(self._above(bits, self._left, at), out, [self.row, at])

    def _above(self, bits: ir.Value, type_: ir.VectorType, at: ir.Value) -> ir.Value:
        """A vector of the row, 0 where its numbers are not above."""
        read = vector.load(type_, self.x, [self.row, at])
        integers = ir.VectorType.get(type_.shape, bits.type)
        is_above = arith.cmpi(
            arith.CmpIPredicate.ugt,
            arith.bitcast(integers, read),
            vector.broadcast(integers, bits),
        )
        return arith.select(is_above, read, splat(0.0, type_))

    @property
    def _step(self) -> ir.Value:
        return index(self.numbers.shape[0])

    @property
    def _whole(self) -> int:
        """Where the last whole vector ends."""
        columns = self.x.type.shape[1]
        return columns - columns % self.numbers.shape[0]

    @property
    def _left(self) -> ir.VectorType | None:
        columns = self.x.type.shape[1] - self._whole
        return ir.VectorType.get([columns], self.numbers.element_type) if columns else None
