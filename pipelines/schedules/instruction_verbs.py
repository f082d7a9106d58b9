"""The verbs of schedules that map sums of products to a CPU's instructions for narrow numbers.

Those of bytes are described in `byte_dots.py`.
"""

from torch_mlir import ir

from llmc.dialects.attributes import i64
from llmc.pipelines.schedules.handles import Handle, any_op, verb
from llmc.pipelines.schedules.transform_ops.byte_products import ByteProductsOp
from llmc.pipelines.schedules.transform_ops.dialect import load
from llmc.pipelines.schedules.transform_ops.pair_products import PairProductsOp
from llmc.pipelines.schedules.transform_ops.tile_products import TileProductsOp
from llmc.pipelines.schedules.transform_ops.unpack_words import UnpackWordsOp
from llmc.pipelines.schedules.transform_ops.use_tile_registers import UseTileRegistersOp


@verb
def byte_products(dots: Handle, instruction: str, lanes: int) -> None:
    """Multiplies bytes by a CPU's `instruction` on vectors of `lanes` sums of 32 bits."""
    load(dots.value.context)
    ByteProductsOp(dots.value, ir.StringAttr.get(instruction), i64(lanes))


@verb
def pair_products(op: Handle, instruction: str) -> None:
    """Makes vectors of sums of two products of bf16, by a CPU's `instruction` for that."""
    load(op.value.context)
    PairProductsOp(op.value, ir.StringAttr.get(instruction))


@verb
def unpack_words(dots: Handle, loops: str) -> Handle:
    """Unpacks the weights of a panel before they are multiplied by bytes.

    What multiplies has `loops`: one over the parts of a block before that over the words of each.
    """
    load(dots.value.context)
    return Handle(UnpackWordsOp(dots.value, any_op()).plain, loops)


@verb
def tile_products(dots: Handle) -> None:
    """Multiplies bytes that are unpacked by AMX, in a kernel that uses its registers."""
    load(dots.value.context)
    TileProductsOp(dots.value)


@verb
def use_tile_registers(grid: Handle) -> None:
    """Makes AMX's registers ready in every workgroup of a grid."""
    load(grid.value.context)
    UseTileRegistersOp(grid.value)
