"""`split-blocks`: multiplies by blocks that are unpacked as they are read."""

from dataclasses import dataclass
from math import prod
from typing import Annotated, ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith

from llmc.dialects import BitcastOp, BlockFieldOp, LinearOp, QuantizedLinearOp
from llmc.dialects.attributes import i64
from llmc.dialects.blocks import BlockFormat
from llmc.dialects.index_notation import (
    collapse,
    constant,
    expand,
    pointwise,
    reduce,
    size,
    sizes,
)
from llmc.pipelines.option_text import Range
from llmc.pipelines.passes.base import Pass, find
from llmc.pipelines.recipes.recipe import recipe_of


@dataclass(frozen=True)
class SplitBlocks(Pass):
    """Lowers `llmc.quantized_linear` on floats to one operation on the fields of its blocks.

    Each field of a weight expression is one too, which the archive stores apart: integers can then
    be read in whole words. A row's weights are multiplied in the order in which their bits lie, and
    never are in memory but in these. Where so many rows as are a multiple of `rows` would read them
    again and again, `llmc.linear` gets them as float16. Changes numerics: by rounding alone, with
    many rows to float16.
    """

    name: ClassVar[str] = "split-blocks"
    rows: Annotated[int, Range(2, 2**31 - 1)] = 16

    def apply(self, module: ir.Module) -> None:
        """Rewrites operation by operation."""
        for op in find(module.operation, "llmc.quantized_linear"):
            linear = op.opview
            if linear.scales is None and recipe_of(linear.weight):
                with ir.InsertionPoint(op), op.location:
                    y = self._lower(linear)
                op.results[0].replace_all_uses_with(y)
                op.erase()

    def _lower(self, linear: QuantizedLinearOp) -> ir.Value:
        *leading, _ = sizes(linear.x)
        merged = len(leading) > 1
        x = collapse(linear.x, [len(leading), 1]) if merged else linear.x
        fields = _Fields.of(linear.weight)
        x = _in_order(x, fields.format)
        known = all(isinstance(extent, int) for extent in leading)
        many = known and prod(leading) % self.rows == 0
        y = _multiply_halves(x, fields) if many else _multiply(x, fields)
        if linear.bias is not None:
            y = pointwise("tn,n->tn", lambda a, b, _: arith.addf(a, b), y, linear.bias)
        return expand(y, [leading, [linear.out.type.shape[-1]]]) if merged else y


@dataclass(frozen=True)
class _Fields:
    """Integers `[N, B, G]`, of 4 or 8 bits, and scales and minima f16 `[N, B]`."""

    format: BlockFormat
    integers: ir.Value
    halves: tuple[ir.Value, ...]

    @classmethod
    def of(cls, weight: ir.Value) -> "_Fields":
        shape, format_ = list(weight.type.shape), weight.type.element_type.format
        byte = ir.IntegerType.get_signless(8)
        packed_type = ir.RankedTensorType.get([*shape, format_.bytes_of("packed")[1]], byte)
        half_type = ir.RankedTensorType.get(shape, ir.F16Type.get())
        with ir.InsertionPoint.after(weight.owner), weight.owner.location:
            packed = BlockFieldOp(weight, ir.StringAttr.get("packed"), packed_type).out
            halves = tuple(
                BlockFieldOp(weight, ir.StringAttr.get(name), half_type).out
                for name in format_.floats
            )
        element = ir.IntegerType.get_signless(format_.bits)
        type_ = ir.RankedTensorType.get([*shape, format_.values], element)
        integers = packed if format_.bits == byte.width else BitcastOp(packed, type_).out
        return cls(format_, integers, halves)

    def value(self, integer: ir.Value, *halves: ir.Value) -> ir.Value:
        """What an integer stands for, in f32: of 4 bits it is stored without sign."""
        i32, f32 = ir.IntegerType.get_signless(32), ir.F32Type.get()
        is_signed = self.format.bits == 8
        wide = arith.extsi(i32, integer) if is_signed else arith.extui(i32, integer)
        if self.format.offset:
            wide = arith.subi(wide, constant(self.format.offset, i32))
        scale, *minimum = (arith.extf(f32, each) for each in halves)
        value = arith.mulf(scale, arith.sitofp(f32, wide))
        return arith.addf(value, minimum[0]) if minimum else value


def _in_order(x: ir.Value, format_: BlockFormat) -> ir.Value:
    """`[T, B, G]` of `x [T, K]`, in the order of the bits: byte i holds two values of 4 bits."""
    rows, blocks = size(x, 0), x.type.shape[1] // format_.values
    if format_.bits == 8:
        return expand(x, [[rows], [blocks, format_.values]])
    halves = expand(x, [[rows], [blocks, 2, format_.values // 2]])
    return collapse(pointwise("tbhi->tbih", lambda value, _: value, halves), [1, 1, 2])


def _multiply(x: ir.Value, fields: _Fields) -> ir.Value:
    def multiply_add(x: ir.Value, integer: ir.Value, *rest: ir.Value) -> ir.Value:
        *halves, sum_ = rest
        return arith.addf(sum_, arith.mulf(x, fields.value(integer, *halves)))

    notation = ",".join(["tbv", "nbv", *["nb"] * len(fields.halves)])
    return reduce(f"{notation}->tn", multiply_add, 0.0, x, fields.integers, *fields.halves)


def _multiply_halves(x: ir.Value, fields: _Fields) -> ir.Value:
    half = ir.F16Type.get()

    def value(integer: ir.Value, *rest: ir.Value) -> ir.Value:
        return arith.truncf(half, fields.value(integer, *rest[:-1]))

    notation = ",".join(["nbv", *["nb"] * len(fields.halves)])
    weight = pointwise(f"{notation}->nbv", value, fields.integers, *fields.halves, element=half)
    weight, x = collapse(weight, [1, 2]), collapse(x, [1, 2])
    shape = [x.type.shape[0], weight.type.shape[0]]
    type_ = ir.RankedTensorType.get(shape, x.type.element_type)
    return LinearOp(x, weight, i64(0), type_).out
