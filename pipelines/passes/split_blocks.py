"""`split-blocks`: computes with blocks that are unpacked as they are read."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith
from torch_mlir.extras import types as T

from llmc.dialects import EmbeddingOp, ExpertLinearOp, LinearOp, QuantizedLinearOp
from llmc.dialects.attributes import i64
from llmc.dialects.block_types import block_format
from llmc.dialects.index_notation import (
    as_value,
    collapse,
    expand,
    letters,
    loop_index,
    pointwise,
    reduce,
    size,
)
from llmc.dialects.linear_rows import on_rows
from llmc.dialects.quantize import in_rows
from llmc.pipelines.option_text import Range
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.recipes.recipe import recipe_of
from llmc.pipelines.rewriting.block_fields import BlockFields
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class SplitBlocks(Pass):
    """Lowers what reads blocks, and computes on floats, to operations on the fields of the blocks.

    That is `llmc.quantized_linear`, `llmc.expert_linear` and `llmc.embedding`. Each field of a
    weight expression is one too, which the archive stores apart, once for all that read it:
    integers can then be read in whole words. A row's weights never are in memory but in these
    fields; of experts those that are chosen are read.
    Where so many rows as are a multiple of `rows` would read them again and again, `llmc.linear`
    gets them as float16. Changes numerics: by rounding alone, with many rows to float16.
    """

    name: ClassVar[str] = "split-blocks"
    rows: Annotated[int, Range(2, 2**31 - 1)] = 16

    def apply(self, module: ir.Module) -> None:
        """Rewrites operation by operation."""
        for op in find(module.operation, *_WEIGHTS):
            weight = op.operands[_WEIGHTS[op.name]]
            if block_format(weight.type) and recipe_of(weight) and _is_on_floats(op):
                with ir.InsertionPoint(op), op.location:
                    y = self._lower(op.opview, BlockFields.of(weight))
                op.results[0].replace_all_uses_with(y)
                op.erase()

    def _lower(
        self, op: QuantizedLinearOp | ExpertLinearOp | EmbeddingOp, fields: BlockFields
    ) -> ir.Value:
        if isinstance(op, EmbeddingOp):
            return _look_up(op.ids, fields)
        if isinstance(op, ExpertLinearOp):
            return _multiply_chosen(op, fields)
        return self._multiply(op, fields)

    def _multiply(self, linear: QuantizedLinearOp, fields: BlockFields) -> ir.Value:
        def multiply(rows: ir.Value) -> ir.Value:
            count, x = size(rows, 0), in_rows(rows, fields.format.values)
            many = isinstance(count, int) and count % self.rows == 0
            return _multiply_halves(x, fields) if many else _multiply_read(x, fields)

        return on_rows(linear.x, multiply, linear.bias)


_WEIGHTS = {"llmc.quantized_linear": 1, "llmc.expert_linear": 2, "llmc.embedding": 1}
"""Which operand of an operation is its weight."""


def _is_on_floats(op: ir.Operation) -> bool:
    return op.name != "llmc.quantized_linear" or op.opview.scales is None


def _look_up(ids: ir.Value, fields: BlockFields) -> ir.Value:
    """The rows that `ids [...]` name of the table `[V, B]`: `[..., K]`."""
    rank = ids.type.rank

    def value(id_: ir.Value, _: ir.Value) -> ir.Value:
        block = [arith.index_cast(T.index(), id_), loop_index(rank)]
        return fields.value_at(block, loop_index(rank + 1))

    *_, blocks, values = fields.integers.type.shape
    lead, f32 = letters(rank), T.f32()
    y = pointwise(f"{lead}->{lead}bv", value, ids, element=f32, b=blocks, v=values)
    return collapse(y, [*[1] * rank, 2])


def _multiply_chosen(op: ExpertLinearOp, fields: BlockFields) -> ir.Value:
    """Row r of `op.x [R, K]`, `top_k` times, through the matrix that `op.expert` says."""

    def multiply_add(x: ir.Value, expert: ir.Value, sum_: ir.Value) -> ir.Value:
        block = [arith.index_cast(T.index(), expert), loop_index(2), loop_index(3)]
        return arith.addf(sum_, arith.mulf(x, fields.value_at(block, loop_index(4))))

    count, top_k = size(op.expert, 0), op.top_k.value
    rows = count // top_k if isinstance(count, int) else as_value(size(op.x, 0))
    chosen = expand(op.expert, [[rows, top_k]])
    x, outputs = in_rows(op.x, fields.format.values), op.out.type.shape[-1]
    y = reduce("rbv,rc->rcn", multiply_add, 0.0, x, chosen, n=outputs)
    return collapse(y, [2, 1])


def _multiply_read(x: ir.Value, fields: BlockFields) -> ir.Value:
    def multiply_add(x: ir.Value, integer: ir.Value, *rest: ir.Value) -> ir.Value:
        *halves, sum_ = rest
        return arith.addf(sum_, arith.mulf(x, fields.value(integer, *halves)))

    notation = ",".join(["tbv", "nbv", *["nb"] * len(fields.halves)])
    return reduce(f"{notation}->tn", multiply_add, 0.0, x, fields.integers, *fields.halves)


def _multiply_halves(x: ir.Value, fields: BlockFields) -> ir.Value:
    half = T.f16()

    def value(integer: ir.Value, *rest: ir.Value) -> ir.Value:
        return arith.truncf(half, fields.value(integer, *rest[:-1]))

    notation = ",".join(["nbv", *["nb"] * len(fields.halves)])
    weight = pointwise(f"{notation}->nbv", value, fields.integers, *fields.halves, element=half)
    weight, x = collapse(weight, [1, 2]), collapse(x, [1, 2])
    shape = [x.type.shape[0], weight.type.shape[0]]
    type_ = ir.RankedTensorType.get(shape, x.type.element_type)
    return LinearOp(x, weight, i64(0), type_).out
