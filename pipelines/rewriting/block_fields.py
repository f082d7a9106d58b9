"""The fields of a weight's blocks, each a tensor of its own, and what they stand for."""

from dataclasses import dataclass
from functools import cached_property

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor
from torch_mlir.extras import types as T

from llmc.dialects import BitcastOp, BlockFieldOp
from llmc.dialects.blocks import BlockFormat
from llmc.dialects.index_notation import constant


@dataclass(frozen=True)
class BlockFields:
    """Bytes of integers `[..., B, S]`, and scales and minima f16 `[..., B]`."""

    format: BlockFormat
    packed: ir.Value
    halves: tuple[ir.Value, ...]

    @classmethod
    def of(cls, weight: ir.Value) -> "BlockFields":
        """Those of the blocks `[..., B]`."""
        shape, format_ = list(weight.type.shape), weight.type.element_type.format
        byte = T.i8()
        packed_type = ir.RankedTensorType.get([*shape, format_.bytes_in_order], byte)
        half_type = ir.RankedTensorType.get(shape, T.f16())
        with ir.InsertionPoint.after(weight.owner), weight.owner.location:
            packed = BlockFieldOp(weight, ir.StringAttr.get("integers"), packed_type).out
            halves = tuple(
                BlockFieldOp(weight, ir.StringAttr.get(name), half_type).out
                for name in format_.floats
            )
        return cls(format_, packed, halves)

    @cached_property
    def integers(self) -> ir.Value:
        """The integers themselves, of 4 bits or in bytes: `[..., B, G]`."""
        *shape, size = self.packed.type.shape
        if size == self.format.values:
            return self.packed
        element = T.i(self.format.bits)
        type_ = ir.RankedTensorType.get([*shape, self.format.values], element)
        with ir.InsertionPoint.after(self.packed.owner), self.packed.owner.location:
            return BitcastOp(self.packed, type_).out

    def value(self, integer: ir.Value, *halves: ir.Value) -> ir.Value:
        """What an integer stands for, in f32: of fewer bits than 8 it is stored without sign."""
        i32, f32 = T.i32(), T.f32()
        is_signed = self.format.bits == 8
        wide = arith.extsi(i32, integer) if is_signed else arith.extui(i32, integer)
        if self.format.offset:
            wide = arith.subi(wide, constant(self.format.offset, i32))
        scale, *minimum = (arith.extf(f32, each) for each in halves)
        value = arith.mulf(scale, arith.sitofp(f32, wide))
        return arith.addf(value, minimum[0]) if minimum else value

    def value_at(self, block: list[ir.Value], number: ir.Value) -> ir.Value:
        """What the integer of that `number` stands for in the block at the place `block`."""
        integer = tensor.extract(self.integers, [*block, number])
        return self.value(integer, *(tensor.extract(each, block) for each in self.halves))
