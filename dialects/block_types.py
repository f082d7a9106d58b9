"""`!llmc.q4_0` and its like: blocks of quantised numbers as element types.

    tensor<1536x18x!llmc.q4_1>             a weight [1536, 576] in GGUF's format Q4_1
    tensor<30x?x3x?x2x!llmc.q8_0_keys>     keys of 64 channels in a KV cache, 512 columns a cell

An element of such a tensor is a whole block, or a cell of the blocks of several rows, so that
nothing can part values from their scale. `store-blocks-as-bytes` turns it into a tensor of bytes.
"""

from torch_mlir import ir

from llmc.dialects.blocks import (
    INT4_G64,
    INT4_G128,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q6_G16,
    Q8_0,
    BlockFormat,
)
from llmc.dialects.cache_cells import KEYS, VALUES, CellFormat
from llmc.dialects.llmc import Type


class StoredType(Type):
    """What is stored as bytes, as many as its format says."""


class BlockType(StoredType):
    """A block of values."""


class CellType(StoredType):
    """A cell of a KV cache."""


class Q40Type(BlockType, name="q4_0"):
    """32 values `scale * (q - 8)`, q of 4 bits: 18 bytes."""

    format = Q4_0


class Q41Type(BlockType, name="q4_1"):
    """32 values `scale * q + minimum`, q of 4 bits: 20 bytes."""

    format = Q4_1


class Q50Type(BlockType, name="q5_0"):
    """32 values `scale * (q - 16)`, q of 5 bits: 22 bytes."""

    format = Q5_0


class Q51Type(BlockType, name="q5_1"):
    """32 values `scale * q + minimum`, q of 5 bits: 24 bytes."""

    format = Q5_1


class Q6G16Type(BlockType, name="q6_g16"):
    """16 values `scale * (q - 32)`, q of 6 bits: 14 bytes."""

    format = Q6_G16


class Q80Type(BlockType, name="q8_0"):
    """32 values `scale * q`, q of 8 bits and signed: 34 bytes."""

    format = Q8_0


class Int4G64Type(BlockType, name="int4_g64"):
    """64 values `scale * q + minimum`, q of 4 bits: 36 bytes."""

    format = INT4_G64


class Int4G128Type(BlockType, name="int4_g128"):
    """128 values `scale * q + minimum`, q of 4 bits: 68 bytes."""

    format = INT4_G128


class KeysType(CellType, name="q8_0_keys"):
    """512 columns of keys by 32 channels, each a block q8_0 of transformed keys: 17408 bytes."""

    format = KEYS


class ValuesType(CellType, name="q8_0_values"):
    """512 columns of values by 32 channels, each a block q8_0: 17408 bytes."""

    format = VALUES


_BLOCKS = (Q40Type, Q41Type, Q50Type, Q51Type, Q6G16Type, Q80Type, Int4G64Type, Int4G128Type)
TYPES = {type_.format.name: type_ for type_ in (*_BLOCKS, KeysType, ValuesType)}


NO_SUCH_TYPE = f"no such type: those of llmc are {', '.join(f'!llmc.{name}' for name in TYPES)}"
"""What `expected dynamic type` means, which MLIR's parser says after `!llmc.`."""


def block_format(type_: ir.Type) -> BlockFormat | None:
    """The format of the blocks that a tensor of `type_` holds; None of other types."""
    element = _element(type_)
    return element.format if isinstance(element, BlockType) else None


def cell_format(type_: ir.Type) -> CellFormat | None:
    """The format of the cells that a tensor of `type_` holds; None of other types."""
    element = _element(type_)
    return element.format if isinstance(element, CellType) else None


def storage_format(type_: ir.Type) -> BlockFormat | CellFormat | None:
    """The format of the blocks or cells that a tensor of `type_` holds; None of other types."""
    element = _element(type_)
    return element.format if isinstance(element, StoredType) else None


def block_type(format_: BlockFormat | CellFormat) -> ir.Type:
    """The element type of `format_`, in the current context."""
    return TYPES[format_.name].get()


def _element(type_: ir.Type) -> ir.Type | None:
    return type_.element_type if isinstance(type_, ir.RankedTensorType) else None
