"""`fold-rotary-tables`: looks the cosines and sines of positions up instead of computing them."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch_mlir import ir

from llmc.dialects import EmbeddingOp, RotaryTableOp
from llmc.dialects.attributes import f64, i64
from llmc.pipelines.option_text import Range
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.generics import applied, float_constant, is_elementwise
from llmc.pipelines.rewriting.operations import made_by
from llmc.pipelines.rewriting.rotary_angles import Angles, angles_in
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
            angles = angles_in(op.operands[0])
            if angles and angles.width == op.results[0].type.shape[-1]:
                self._look_up(op, angles)

    def _look_up(self, op: ir.Operation, angles: Angles) -> None:
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
