"""`pair-halves`: computes both halves of a linear layer's row in one loop, for what joins them."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg

from llmc.dialects import LinearOp
from llmc.dialects.index_notation import collapse, expand, filled, slice_of
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.row_halves import halves_of
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class PairHalves(Pass):
    """Lowers an `llmc.linear` of one row that is read in two halves to one loop with two results.

    So `fuse-gate-up` leaves the factors of a gated MLP. What joins the halves element by element
    IREE then makes part of the kernel.
    """

    name: ClassVar[str] = "pair-halves"

    def apply(self, module: ir.Module) -> None:
        """Rewrites operation by operation."""
        for op in find(module.operation, "llmc.linear"):
            halves = halves_of(op.results[0]) if _is_plain_row(op.opview) else None
            if halves:
                with ir.InsertionPoint(op), op.location:
                    results = _multiply(op.opview)
                for half, result in zip(halves, results, strict=True):
                    half.replace_all_uses_with(result)
                    half.owner.erase()
                op.erase()


def _is_plain_row(linear: LinearOp) -> bool:
    is_plain = linear.bias is None and not linear.transposed.value
    return is_plain and prod(linear.out.type.shape[:-1]) == 1


def _multiply(linear: LinearOp) -> list[ir.Value]:
    """The halves of the row of `linear`, of its rank."""
    *leading, width = linear.out.type.shape
    element, (rows, columns) = linear.x.type.element_type, linear.weight.type.shape
    x = collapse(linear.x, [len(leading) + 1])
    extents = [rows // 2, columns]
    weights = [slice_of(linear.weight, [at, 0], extents, extents) for at in (0, rows // 2)]
    outs = [filled([rows // 2], 0.0, element) for _ in weights]
    n, k = map(ir.AffineDimExpr.get, range(2))
    op = linalg.GenericOp(
        [out.type for out in outs],
        [x, *weights],
        outs,
        [ir.AffineMap.get(2, 0, read) for read in ([k], [n, k], [n, k], [n], [n])],
        ["parallel", "reduction"],
    )
    types = [value.type.element_type for value in (x, *weights, *outs)]
    block = op.regions[0].blocks.append(*types, arg_locs=None)
    with ir.InsertionPoint(block):
        number, *rest = block.arguments
        pairs = zip(rest[:2], rest[2:], strict=True)
        linalg.YieldOp([_multiply_add(number, weight, sum_) for weight, sum_ in pairs])
    return [expand(result, [[*leading, width // 2]]) for result in op.results]


def _multiply_add(x: ir.Value, weight: ir.Value, sum_: ir.Value) -> ir.Value:
    wide = weight if weight.type == x.type else arith.extf(x.type, weight)
    return arith.addf(sum_, arith.mulf(x, wide))
