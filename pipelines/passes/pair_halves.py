"""`pair-halves`: computes both halves of a linear layer's row in one loop, for what joins them."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg, tensor

from llmc.dialects import LinearOp
from llmc.dialects.index_notation import collapse, expand, filled, slice_of
from llmc.pipelines.passes.base import Pass, find

_MAPS = ("d1", "d0, d1", "d0, d1", "d0", "d0")


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
            halves = _halves(op.opview)
            if halves:
                with ir.InsertionPoint(op), op.location:
                    results = _multiply(op.opview)
                for half in halves:
                    *_, start = half.static_offsets
                    half.result.replace_all_uses_with(results[start > 0])
                    half.operation.erase()
                op.erase()


def _halves(linear: LinearOp) -> list[tensor.ExtractSliceOp]:
    """The slices that read the row of `linear`, if they are its halves and there are both."""
    *leading, width = linear.out.type.shape
    is_plain = linear.bias is None and not linear.transposed.value
    users = [use.owner.operation for use in linear.out.uses]
    if not is_plain or prod(leading) != 1 or width % 2:
        return []
    if any(user.name != "tensor.extract_slice" for user in users):
        return []
    slices = [user.opview for user in users]
    starts = {tuple(each.static_offsets) for each in slices}
    wholes = [0] * len(leading)
    are_halves = all(list(each.static_sizes) == [*leading, width // 2] for each in slices)
    both = {(*wholes, 0), (*wholes, width // 2)}
    return slices if are_halves and starts == both else []


def _multiply(linear: LinearOp) -> list[ir.Value]:
    """The halves of the row of `linear`, of its rank."""
    *leading, width = linear.out.type.shape
    element, (rows, columns) = linear.x.type.element_type, linear.weight.type.shape
    x = collapse(linear.x, [len(leading) + 1])
    extents = [rows // 2, columns]
    weights = [slice_of(linear.weight, [at, 0], extents, extents) for at in (0, rows // 2)]
    outs = [filled([rows // 2], 0.0, element) for _ in weights]
    op = linalg.GenericOp(
        [out.type for out in outs],
        [x, *weights],
        outs,
        [ir.AffineMapAttr.parse(f"affine_map<(d0, d1) -> ({each})>").value for each in _MAPS],
        ir.Attribute.parse("[#linalg.iterator_type<parallel>, #linalg.iterator_type<reduction>]"),
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
