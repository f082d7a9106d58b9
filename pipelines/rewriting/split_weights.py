"""Weights in two parts, the high bits of their numbers and the low ones, and what reads them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor
from torch_mlir.extras import types as T

from llmc.dialects import (
    EmbeddingOp,
    JoinFloatOp,
    LinearOp,
    PackedLinearOp,
    PackPlanesOp,
    PlaneEmbeddingOp,
    PlaneLinearOp,
    QuantizedLinearOp,
    QuantizeRowsOp,
    RoughMetricOp,
    RoughSpreadOp,
    SplitFloatOp,
)
from llmc.dialects.attributes import i64
from llmc.dialects.block_parts import PLANES
from llmc.dialects.block_types import block_format
from llmc.dialects.blocks import Q8_0
from llmc.dialects.float_bits import join
from llmc.dialects.float_parts import PARTS
from llmc.dialects.index_notation import index, letters, loop_index, pointwise
from llmc.dialects.linear_rows import merged
from llmc.pipelines.rewriting.output_head import has_plain_rows
from llmc.pipelines.rewriting.panels import panels_of


class Split(ABC):
    """A way to split weights `[N, K]`, by what they are stored as."""

    linear: ClassVar[str]
    """The linear layers that read such a weight as their second operand."""

    is_rough_fast: ClassVar[bool]
    """Whether rough products take less time even where memory is not what they wait for."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """The most inputs of a head that is screened.

        The bound on what the low bits may add grows with the number of inputs, how far logits lie
        apart with its root: for a wider head too many rows might be the best, and are read again.
        """

    @abstractmethod
    def inputs(self, weight: ir.Value) -> int:
        """K."""

    @abstractmethod
    def can_serve(self, layer: ir.OpView) -> bool:
        """Whether a linear layer can read a weight in parts."""

    @abstractmethod
    def parts(self, weight: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The high and the low bits, in panels."""

    @abstractmethod
    def product(self, layer: ir.OpView, high: ir.Value, low: ir.Value | None) -> ir.Value:
        """What the layer computes, or without `low` rough numbers."""

    @abstractmethod
    def rows(self, lookup: EmbeddingOp, high: ir.Value, low: ir.Value) -> ir.Value:
        """What the lookup finds."""

    @abstractmethod
    def measured(self, x: ir.Value) -> tuple[ir.Value, ir.Value | None]:
        """The rows `x [..., K]` as the layer reads them: `[R, K]`, and scales of integers."""

    def bounds(self, weight: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The metric and the spread of a weight."""
        metric = RoughMetricOp(weight, _floats(self.inputs(weight))).out
        return metric, RoughSpreadOp(weight, metric, _floats(weight.type.shape[0])).out


@dataclass(frozen=True)
class BlockPlanes(Split):
    """Blocks of q8_0 in bit planes, in panels of `columns` rows."""

    linear: ClassVar[str] = "llmc.quantized_linear"
    is_rough_fast: ClassVar[bool] = True
    columns: int

    @property
    def longest(self) -> int:
        """Low bits are some 2% of the numbers' length."""
        return 4096

    def inputs(self, weight: ir.Value) -> int:
        """As many as are in the blocks of a row."""
        return weight.type.shape[1] * Q8_0.values

    def can_serve(self, layer: QuantizedLinearOp) -> bool:
        """Of floats, and without a bias."""
        return has_plain_rows(layer) and layer.scales is None

    def parts(self, weight: ir.Value) -> tuple[ir.Value, ir.Value]:
        """By `llmc.pack_planes`."""
        rows, blocks = weight.type.shape
        byte = T.i8()
        high, low = (
            PackPlanesOp(
                weight,
                i64(self.columns),
                ir.StringAttr.get(name),
                ir.RankedTensorType.get(
                    [-(-rows // self.columns), blocks, self.columns * part.bytes], byte
                ),
            ).out
            for name, part in PLANES.items()
        )
        return high, low

    def product(self, layer: QuantizedLinearOp, high: ir.Value, low: ir.Value | None) -> ir.Value:
        """An `llmc.plane_linear`."""
        return PlaneLinearOp(layer.x, high, layer.out.type, low=low).out

    def rows(self, lookup: EmbeddingOp, high: ir.Value, low: ir.Value) -> ir.Value:
        """An `llmc.plane_embedding`."""
        return PlaneEmbeddingOp(lookup.ids, high, low, lookup.out.type).out

    def measured(self, x: ir.Value) -> tuple[ir.Value, ir.Value | None]:
        """Integers, and a scale for each block."""
        *leading, length = x.type.shape
        i8, group = T.i8(), Q8_0.values
        values = ir.RankedTensorType.get(x.type.shape, i8)
        scales = ir.RankedTensorType.get([*leading, length // group], x.type.element_type)
        made = QuantizeRowsOp(x, i64(group), values, scales)
        return merged(made.values), merged(made.scales)


@dataclass(frozen=True)
class FloatHalves(Split):
    """Floats, stored as `storage`, in panels of `columns` rows; `tile` rows of x go together."""

    linear: ClassVar[str] = "llmc.linear"
    is_rough_fast: ClassVar[bool] = False
    columns: int
    tile: int
    storage: str

    @property
    def longest(self) -> int:
        """Low bits of f16 are some 3% of the numbers' length; of f32 0.2%, and rounding as much."""
        return 2048 if self.storage == "f16" else 16384

    def inputs(self, weight: ir.Value) -> int:
        """As many as are in a row."""
        return weight.type.shape[1]

    def can_serve(self, layer: LinearOp) -> bool:
        """Without a bias, the weight being `[N, K]`."""
        return has_plain_rows(layer)

    def parts(self, weight: ir.Value) -> tuple[ir.Value, ir.Value]:
        """By `llmc.split_float` and `linalg.pack`."""
        stored = self._stored(weight)
        width = stored.type.element_type.width // 2
        type_ = ir.RankedTensorType.get(stored.type.shape, T.i(width))
        high, low = (
            panels_of(SplitFloatOp(stored, ir.StringAttr.get(part), type_).out, self.columns)
            for part in PARTS
        )
        return high, low

    def bounds(self, weight: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Those of the numbers that are stored."""
        return super().bounds(self._stored(weight))

    def product(self, layer: LinearOp, high: ir.Value, low: ir.Value | None) -> ir.Value:
        """An `llmc.packed_linear` of what `llmc.join_float` makes of the parts."""
        type_ = ir.RankedTensorType.get(high.type.shape, T.f32())
        weight = JoinFloatOp(high, type_, low=low).out
        return PackedLinearOp(layer.x, weight, i64(self.tile), layer.out.type).out

    def rows(self, lookup: EmbeddingOp, high: ir.Value, low: ir.Value) -> ir.Value:
        """The bits of each number, read from both parts and joined."""
        rank = lookup.ids.type.rank

        def number(which: ir.Value, _: ir.Value) -> ir.Value:
            row, columns = arith.index_cast(T.index(), which), index(self.columns)
            where = [arith.divui(row, columns), loop_index(rank), arith.remui(row, columns)]
            return join(*(tensor.extract(part, where) for part in (high, low)))

        lead, element = letters(rank), lookup.out.type.element_type
        length = high.type.shape[1]
        return pointwise(f"{lead}->{lead}k", number, lookup.ids, element=element, k=length)

    def measured(self, x: ir.Value) -> tuple[ir.Value, ir.Value | None]:
        """The rows as they are."""
        return merged(x), None

    def _stored(self, weight: ir.Value) -> ir.Value:
        if self.storage == "f32":
            return weight
        type_ = ir.RankedTensorType.get(weight.type.shape, ir.Type.parse(self.storage))
        return arith.truncf(type_, weight)


def split_of(weight: ir.Value, columns: int, tile: int, storage: str) -> Split | None:
    """How a weight is split, of which floats will be stored as `storage`; None where it is not."""
    if format_ := block_format(weight.type):
        return BlockPlanes(columns) if format_ == Q8_0 else None
    is_f32 = isinstance(weight.type.element_type, ir.F32Type)
    # The upper half of a bf16 has no more than its exponent.
    return FloatHalves(columns, tile, storage) if is_f32 and storage != "bf16" else None


def is_of_one_row(linear: ir.OpView) -> bool:
    """Whether a linear layer computes a single row."""
    return linear.x.type.has_static_shape and prod(linear.x.type.shape[:-1]) == 1


def _floats(length: int) -> ir.RankedTensorType:
    return ir.RankedTensorType.get([length], T.f32())
