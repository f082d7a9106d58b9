"""`fold-rotary-tables`: looks the cosines and sines of positions up instead of computing them."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch_mlir import ir
from torch_mlir.dialects import tensor

from llmc.dialects import EmbeddingOp, RotaryTableOp
from llmc.dialects.attributes import f64, i64
from llmc.pipelines.option_text import Range
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.generics import applied, float_constant, is_elementwise, maps
from llmc.pipelines.rewriting.operations import made_by
from llmc.pipelines.walks import find

_FUNCTIONS = {"math.cos": "cos", "math.sin": "sin"}


@dataclass(frozen=True)
class FoldRotaryTables(Pass):
    """Makes tables of the cosine and the sine of each position times each frequency.

    They are recognised as transformers writes them: `cos(concat(p * f, p * f)) * scale`, with or
    without concatenation and scale, where p are integers and f is an `llmc.parameter`. The table,
    an `llmc.rotary_table` of the positions below `positions`, is made of weights alone, so that
    `bind-parameters` leaves it to the archive; an `llmc.embedding` looks p up in it, which must be
    less than `positions`. Changes numerics: the cosine of the machine that compiles is not, to the
    last bit, that of the machine that runs.
    """

    name: ClassVar[str] = "fold-rotary-tables"
    positions: Annotated[int, Range(1, 2**24)] = 8192

    def apply(self, module: ir.Module) -> None:
        """Rewrites every cosine and sine that can be recognised."""
        generics = find(module.operation, "linalg.generic")
        for op in [op for op in generics if applied(op) in _FUNCTIONS and is_elementwise(op)]:
            angles = _angles(op.operands[0])
            if angles and angles.width == op.results[0].type.shape[-1]:
                self._look_up(op, angles)

    def _look_up(self, op: ir.Operation, angles: "_Angles") -> None:
        function = ir.StringAttr.get(_FUNCTIONS[applied(op)])
        scale, scaled = _scale_of(op)
        with ir.InsertionPoint(op), op.location:
            frequencies = angles.joined_frequencies()
            element = frequencies.type.element_type
            type_ = ir.RankedTensorType.get([self.positions, angles.width], element)
            table = RotaryTableOp(frequencies, i64(self.positions), function, f64(scale), type_)
            row = EmbeddingOp(angles.positions, table.out, scaled.results[0].type)
        scaled.results[0].replace_all_uses_with(row.out)
        for dead in dict.fromkeys((scaled, op)):
            dead.erase()


@dataclass(frozen=True)
class _Angles:
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


def _angles(value: ir.Value) -> _Angles | None:
    """The positions and frequencies whose products `value` holds; None where it does not."""
    concat = made_by(value, "tensor.concat")
    parts = [value]
    if concat is not None and concat.opview.dim.value == value.type.rank - 1:
        parts = list(concat.operands)
    products = [product for part in parts if (product := _product(part))]
    positions = {positions for positions, _ in products}
    if len(products) < len(parts) or len(positions) > 1:
        return None
    return _Angles(positions.pop(), tuple(frequencies for _, frequencies in products))


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


def _scale_of(op: ir.Operation) -> tuple[float, ir.Operation]:
    """What the result of `op` is multiplied by, and the operation that does it; else 1 and `op`."""
    users = [use.owner.operation for use in op.results[0].uses]
    is_input = len(users) == 1 and users[0].operands[0] == op.results[0]
    factor = _factor(users[0]) if is_input else None
    if factor is None or users[0].results[0].type != op.results[0].type:
        return 1.0, op
    return factor, users[0]


def _factor(op: ir.Operation) -> float | None:
    """The constant that a linalg.generic multiplies its only input by; None where it does not."""
    if op.name != "linalg.generic" or len(op.operands) != 2 or not is_elementwise(op):
        return None
    body = op.regions[0].blocks[0]
    product = made_by(body.operations[-1].operands[0], "arith.mulf")
    if product is None:
        return None
    x, factor = product.operands
    return float_constant(factor) if x == body.arguments[0] else None
