"""The angles of rotary embedding, as transformers computes them: positions times frequencies."""

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import tensor

from llmc.pipelines.rewriting.generics import applied, is_elementwise, maps
from llmc.pipelines.rewriting.operations import made_by


@dataclass(frozen=True)
class Angles:
    """`positions [B, T]` times each of `frequencies`, one after another."""

    positions: ir.Value
    frequencies: tuple[ir.Value, ...]

    @property
    def width(self) -> int:
        """The number of frequencies."""
        return sum(each.type.shape[0] for each in self.frequencies)

    def joined_frequencies(self) -> ir.Value:
        """All frequencies as one vector."""
        if len(self.frequencies) == 1:
            return self.frequencies[0]
        type_ = ir.RankedTensorType.get([self.width], self.frequencies[0].type.element_type)
        return tensor.concat(type_, 0, list(self.frequencies))


def angles_in(value: ir.Value) -> Angles | None:
    """The positions and frequencies whose products `value` holds; None where it does not."""
    concat = made_by(value, "tensor.concat")
    parts = [value]
    if concat is not None and concat.opview.dim.value == value.type.rank - 1:
        parts = list(concat.operands)
    products = [product for part in parts if (product := _product(part))]
    positions = {positions for positions, _ in products}
    if len(products) < len(parts) or len(positions) > 1:
        return None
    return Angles(positions.pop(), tuple(frequencies for _, frequencies in products))


def _product(value: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    """The positions and the frequencies that `value [B, T, F]` is the product of."""
    op = made_by(value, "linalg.generic")
    if op is None or applied(op) != "arith.mulf" or maps(op) != _product_maps():
        return None
    x, frequencies, _ = op.operands
    positions = _positions(x)
    if positions is None or made_by(frequencies, "llmc.parameter") is None:
        return None
    return positions, frequencies


def _product_maps() -> list[ir.AffineMap]:
    b, t, f = (ir.AffineDimExpr.get(dim) for dim in range(3))
    zero = ir.AffineConstantExpr.get(0)
    return [ir.AffineMap.get(3, 0, results) for results in ([b, t, zero], [f], [b, t, f])]


def _positions(value: ir.Value) -> ir.Value | None:
    """The integers `[B, T]` that `value [B, T, 1]` holds as floats."""
    convert = made_by(value, "linalg.generic")
    if convert is None or applied(convert) != "arith.sitofp" or not is_elementwise(convert):
        return None
    expand = made_by(convert.operands[0], "tensor.expand_shape")
    if expand is None:
        return None
    groups = [[dim.value for dim in group] for group in expand.opview.reassociation]
    is_column = groups == [[0], [1, 2]] and expand.results[0].type.shape[2] == 1
    return expand.operands[0] if is_column else None
