"""Constants of which every lane of a vector is the same."""

from torch_mlir import ir
from torch_mlir.dialects import arith


def splat(value: float | int, type_: ir.VectorType) -> ir.Value:
    """The vector of `type_` with `value` in every lane."""
    element = type_.element_type
    kind = ir.FloatAttr if isinstance(element, ir.FloatType) else ir.IntegerAttr
    attribute = ir.DenseElementsAttr.get_splat(type_, kind.get(element, value))
    return arith.ConstantOp(type_, attribute).result
