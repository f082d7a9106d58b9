"""`pack-blocks`: lays matrices of blocks out for the kernel that reads them."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeAlias

from torch_mlir import ir
from torch_mlir.extras import types as T

from llmc.dialects import (
    EmbeddingOp,
    ExpertLinearOp,
    PackBlocksOp,
    PackedEmbeddingOp,
    PackedQuantizedExpertLinearOp,
    PackedQuantizedLinearOp,
    QuantizedLinearOp,
)
from llmc.dialects.attributes import i64
from llmc.dialects.block_types import block_format
from llmc.pipelines.option_text import Range
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.weight_expressions import read_by, serves_only
from llmc.pipelines.rewriting.weight_readers import EMBEDDINGS

_READERS = {("llmc.quantized_linear", 1), ("llmc.expert_linear", 2)} | EMBEDDINGS

Reader: TypeAlias = QuantizedLinearOp | ExpertLinearOp | EmbeddingOp


@dataclass(frozen=True)
class PackBlocks(Pass):
    """Turns `llmc.quantized_linear`, `llmc.expert_linear` and `llmc.embedding` into packed ones.

    A weight expression of blocks `[N, K/G]`, or `[E, N, K/G]` of experts, that they alone read
    becomes the `llmc.pack_blocks` of it, in panels of `columns` rows, as which the archive stores
    it: nothing is packed when the module runs, and a tied embedding looks up in the output head's
    panels. Linear layers on
    activations that are quantised already are left alone. Changes numerics: activations are rounded
    to a 127th of the largest of those that meet the same block, as `quantize-activations` does.
    """

    name: ClassVar[str] = "pack-blocks"
    columns: Annotated[int, Range(1, 4096)] = 16

    def apply(self, module: ir.Module) -> None:
        """Packs every weight that allows it."""
        for weight in read_by(module, _READERS):
            if block_format(weight.type) and serves_only(weight, _READERS):
                users = [use.owner.operation.opview for use in weight.uses]
                if all(map(_is_packable, users)):
                    self._pack(weight, users)

    def _pack(self, weight: ir.Value, readers: list[Reader]) -> None:
        (*experts, outputs, blocks), format_ = weight.type.shape, weight.type.element_type.format
        byte = T.i8()
        shape = [*experts, -(-outputs // self.columns), blocks, self.columns * format_.bytes]
        with ir.InsertionPoint.after(weight.owner), weight.owner.location:
            type_ = ir.RankedTensorType.get(shape, byte)
            packed = PackBlocksOp(weight, i64(self.columns), type_).out
        for reader in readers:
            with ir.InsertionPoint(reader), reader.location:
                new = _reading(reader, packed, ir.StringAttr.get(format_.name))
            reader.out.replace_all_uses_with(new)
            reader.operation.erase()


def _is_packable(reader: Reader) -> bool:
    if isinstance(reader, EmbeddingOp):
        return True
    out = reader.out.type
    on_integers = isinstance(reader, QuantizedLinearOp) and reader.scales is not None
    return not on_integers and not out.is_dynamic_dim(out.rank - 1)


def _reading(reader: Reader, packed: ir.Value, format_: ir.StringAttr) -> ir.Value:
    if isinstance(reader, EmbeddingOp):
        return PackedEmbeddingOp(reader.ids, packed, format_, reader.out.type).out
    if isinstance(reader, ExpertLinearOp):
        return PackedQuantizedExpertLinearOp(
            reader.x, reader.expert, packed, format_, reader.top_k, reader.out.type
        ).out
    return PackedQuantizedLinearOp(reader.x, packed, format_, reader.out.type, bias=reader.bias).out
