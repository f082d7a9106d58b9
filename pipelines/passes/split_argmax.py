"""`split-argmax`: finds the best token in two steps, the first of which many threads share."""

from dataclasses import dataclass
from math import inf
from typing import Annotated, ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith
from torch_mlir.extras import types as T

from llmc.dialects import ArgmaxOp
from llmc.dialects.argmax import equal, is_finite
from llmc.dialects.divisor import divisor
from llmc.dialects.index_notation import (
    constant,
    expand,
    index,
    loop_index,
    pointwise,
    reduce,
    size,
)
from llmc.pipelines.option_text import Range
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class SplitArgmax(Pass):
    """Replaces `llmc.argmax` by one for each of some columns and then one over what these give.

    A row is read as a matrix of at most `columns` columns, so that threads beside each other read
    elements beside each other. A row of which no such matrix can be made keeps its operation.
    """

    name: ClassVar[str] = "split-argmax"
    columns: Annotated[int, Range(2, 2**31 - 1)] = 256

    def apply(self, module: ir.Module) -> None:
        """Rewrites operation by operation."""
        for op in find(module.operation, "llmc.argmax"):
            total = op.operands[0].type.shape[1]
            width = divisor(total, min(self.columns, total))
            if 1 < width < total:
                with ir.InsertionPoint(op), op.location:
                    best = _find_best(op.opview, width)
                op.results[0].replace_all_uses_with(best)
                op.erase()


def _find_best(op: ArgmaxOp, columns: int) -> ir.Value:
    """The first place i64 `[R]` where a row has its maximum, -1 where that is not finite."""
    i64 = T.i64()
    nowhere = op.x.type.shape[1]
    matrix = expand(op.x, [[size(op.x, 0)], [nowhere // columns, columns]])
    highest = reduce("rmc->rc", arith.maximumf, -inf, matrix)
    largest = reduce("rc->r", arith.maximumf, -inf, highest)

    def first(value: ir.Value, highest: ir.Value, best: ir.Value) -> ir.Value:
        above = arith.muli(loop_index(2), index(columns))
        place = arith.index_cast(i64, arith.addi(above, loop_index(1)))
        found = arith.select(equal(value, highest), place, constant(nowhere, i64))
        return arith.minsi(best, found)

    def choose(place: ir.Value, highest: ir.Value, largest: ir.Value, best: ir.Value) -> ir.Value:
        found = arith.select(equal(highest, largest), place, constant(nowhere, i64))
        return arith.minsi(best, found)

    def check(place: ir.Value, value: ir.Value, _: ir.Value) -> ir.Value:
        return arith.select(is_finite(value), place, constant(-1, i64))

    places = reduce("rmc,rc->rc", first, nowhere, matrix, highest, element=i64)
    best = reduce("rc,rc,r->r", choose, nowhere, places, highest, largest, element=i64)
    return pointwise("r,r->r", check, best, largest)
