"""`llmc_transform.tile_products`: maps sums of products of bytes to a CPU's tile registers."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import bufferization, ext, transform

from llmc.pipelines.schedules.transform_ops.byte_dots import ByteDots
from llmc.pipelines.schedules.transform_ops.dialect import ConsumesPayload, Operation, Rewriting
from llmc.pipelines.schedules.transform_ops.tile_registers import (
    ROW_BYTES,
    Bytes,
    buffer_of_rows,
    multiply,
)


class Interpretation(Rewriting):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def rewrite(_op: Any, target: ir.Operation, rewriter: transform.TransformRewriter) -> None:
        """Replaces the sums."""
        rewriter.replace_op(target, [_multiplied(ByteDots(target, "tpbjfgi"))])


class TileProductsOp(Operation, name="tile_products", traits=[Interpretation, ConsumesPayload]):
    """Computes by AMX what `unpack_words` leaves, of 16 rows and a panel of 16 columns.

    "llmc_transform.tile_products"(%dots) : (!transform.any_op) -> ()
    """

    target: ext.Operand[Any]


def _multiplied(dots: ByteDots) -> ir.Value:
    """The tensor of sums."""
    *_, parts, words, bytes_ = dots.values[0].type.shape
    length = parts * words * bytes_
    buffer = buffer_of_rows(list(dots.start.type.shape), dots.start.type.element_type)
    activations = Bytes.of(_as_buffer(dots.values[0]), rows=0)
    weights = Bytes.of(_as_buffer(dots.weight), rows=3)
    sums = Bytes.of(buffer, rows=0)
    for block in range(dots.blocks):
        multiply(
            activations.after(block * length),
            weights.after(block * length * dots.columns),
            length,
            dots.is_signed,
            sums.after(block * ROW_BYTES),
        )
    return bufferization.to_tensor(dots.start.type, buffer, restrict=True, writable=True)


def _as_buffer(blocks: ir.Value) -> ir.Value:
    """The buffer of a tensor `[_, _, F, G, N]`, of which the last dimensions lie side by side."""
    type_ = blocks.type
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    *_, words, bytes_ = type_.shape
    strides = [dynamic, dynamic, words * bytes_, bytes_, 1]
    layout = ir.StridedLayoutAttr.get(dynamic, strides)
    buffer = ir.MemRefType.get(type_.shape, type_.element_type, layout)
    return bufferization.to_buffer(buffer, blocks, read_only=True)
