"""`llmc_transform.expand_affine`: makes arithmetic of affine maps."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, ext, transform

from llmc.dialects.index_notation import index
from llmc.pipelines.schedules.transform_ops.dialect import ModifiesPayload, Operation, Rewriting
from llmc.pipelines.walks import find


class Interpretation(Rewriting):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def rewrite(_op: Any, target: ir.Operation, rewriter: transform.TransformRewriter) -> None:
        """Replaces the maps in a loop."""
        for apply_ in find(target, "affine.apply"):
            with ir.InsertionPoint(apply_), apply_.location:
                rewriter.replace_op(apply_, [_expanded(apply_)])


class ExpandAffineOp(Operation, name="expand_affine", traits=[Interpretation, ModifiesPayload]):
    """Makes arith operations of the affine.apply operations in an operation.

    What is tiled next then has an extent that is a value of its own: tiling writes the map of an
    extent out in those of its tiles, and peeling does not see through these. Nor does `prefetch`
    see through maps, which adds up the constants in places.

        "llmc_transform.expand_affine"(%loop) : (!transform.any_op) -> ()
    """

    target: ext.Operand[Any]


def _expanded(apply_: ir.Operation) -> ir.Value:
    map_ = ir.AffineMapAttr(apply_.attributes["map"]).value
    operands = list(apply_.operands)
    return _value(map_.results[0], operands[: map_.n_dims], operands[map_.n_dims :])


def _value(expr: ir.AffineExpr, dims: list[ir.Value], symbols: list[ir.Value]) -> ir.Value:
    if isinstance(expr, ir.AffineConstantExpr):
        return index(expr.value)
    if isinstance(expr, ir.AffineDimExpr):
        return dims[expr.position]
    if isinstance(expr, ir.AffineSymbolExpr):
        return symbols[expr.position]
    left, right = (_value(side, dims, symbols) for side in (expr.lhs, expr.rhs))
    return _OPERATIONS[type(expr)](left, right)


_OPERATIONS = {
    ir.AffineAddExpr: arith.addi,
    ir.AffineMulExpr: arith.muli,
    ir.AffineModExpr: arith.remui,
    ir.AffineFloorDivExpr: arith.divui,
    ir.AffineCeilDivExpr: arith.ceildivui,
}
"""Of extents and places, none of which is negative."""
