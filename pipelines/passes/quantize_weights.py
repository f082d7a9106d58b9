"""`quantize-weights`: stores the weights of linear layers as blocks of few bits."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch_mlir import ir

from llmc.dialects import EmbeddingOp, ExpertLinearOp, LinearOp, QuantizedLinearOp, QuantizeOp
from llmc.dialects.block_types import block_type
from llmc.dialects.blocks import FORMATS, Q4_0, BlockFormat, fitting
from llmc.pipelines.option_text import OneOf
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.weight_expressions import (
    read_by,
    serves_only,
    stored_alike,
    stored_format,
)
from llmc.pipelines.rewriting.weight_readers import EMBEDDINGS, LINEARS

AS_IS = "as-is"
_READERS = LINEARS | EMBEDDINGS
_ROUTERS = {"llmc.route", "llmc.scored_route"}
_EXPERT = ("llmc.expert_linear", 1)


@dataclass(frozen=True)
class QuantizeWeights(Pass):
    """Turns `llmc.linear` into `llmc.quantized_linear` over the `llmc.quantize` of its weight.

    `llmc.expert_linear` reads the blocks itself. Of weight expressions `[N, K]`, or `[E, N, K]` of
    experts, in f32 that serve linear layers, and lookups by `llmc.embedding`, alone. `format` is a
    format of blocks, or as-is: the one that the model stores the weight in, where layers differ one
    that holds them all or q8_0, and no change where it has none. Where blocks of 128 or 64 values
    do not fill K, it is the format like it with the largest that do; where none do, the weight is
    left alone. So is that of a layer by whose result experts are chosen, or that has a single
    output: it is small, and what it chooses or weighs hangs on little. Tables that no linear layer
    reads are left alone, unless they are stored as blocks. Changes numerics, but where blocks are
    kept or held: every weight is rounded to a value that a block holds.
    """

    name: ClassVar[str] = "quantize-weights"
    format: Annotated[str, OneOf((*FORMATS, AS_IS))] = Q4_0.name

    def apply(self, module: ir.Module) -> None:
        """Rewrites every weight that allows it, with all that reads it."""
        weights = read_by(module, _READERS)
        chosen = [
            (weight, format_)
            for weight in weights
            if _is_quantizable(weight) and (format_ := self._format(weight))
        ]
        for weight, format_ in stored_alike(module, chosen, lambda choice: [choice[0]]):
            _quantize(weight, format_)

    def _format(self, weight: ir.Value) -> BlockFormat | None:
        stored = stored_format(weight)
        is_multiplied = any(
            (use.owner.operation.name, use.operand_number) in LINEARS for use in weight.uses
        )
        keeps = self.format == AS_IS or not (stored or is_multiplied)
        format_ = stored if keeps else FORMATS[self.format]
        return format_ and fitting(format_, weight.type.shape[-1])


def _is_quantizable(weight: ir.Value) -> bool:
    type_ = weight.type
    return (
        serves_only(weight, _READERS)
        and 0 not in type_.shape
        and str(type_.element_type) == "f32"
        and all(_takes_blocks(use.owner.operation) for use in weight.uses)
    )


def _takes_blocks(reader: ir.Operation) -> bool:
    if reader.name != "llmc.embedding" and reader.opview.transposed.value:
        return False
    *_, outputs = reader.results[0].type.shape
    if outputs == 1 or _chooses_experts(reader.results[0]):
        return False
    return str(reader.opview.out.type.element_type) == "f32"


def _chooses_experts(logits: ir.Value) -> bool:
    """Whether experts are chosen by `logits`, at once or by what other dialects compute of them."""
    waiting, seen = [logits], {logits}
    while waiting:
        for use in waiting.pop().uses:
            op = use.owner.operation
            if op.name in _ROUTERS or (op.name, use.operand_number) == _EXPERT:
                return True
            made = set() if op.name.startswith("llmc.") else {*op.results}
            waiting += made - seen
            seen |= made
    return False


def _quantize(weight: ir.Value, format_: BlockFormat) -> None:
    *rows, inputs = weight.type.shape
    readers = [use.owner for use in weight.uses]
    type_ = ir.RankedTensorType.get([*rows, inputs // format_.values], block_type(format_))
    with ir.InsertionPoint.after(weight.owner), weight.owner.location:
        blocks = QuantizeOp(weight, type_).out
    for reader in readers:
        with ir.InsertionPoint(reader), reader.operation.location:
            new = _reading(reader.operation.opview, blocks)
        reader.operation.results[0].replace_all_uses_with(new)
        reader.operation.erase()


def _reading(reader: LinearOp | ExpertLinearOp | EmbeddingOp, blocks: ir.Value) -> ir.Value:
    if isinstance(reader, EmbeddingOp):
        return EmbeddingOp(reader.ids, blocks, reader.out.type).out
    if isinstance(reader, ExpertLinearOp):
        return ExpertLinearOp(
            reader.x, reader.expert, blocks, reader.top_k, reader.transposed, reader.out.type
        ).out
    return QuantizedLinearOp(reader.x, blocks, reader.out.type, bias=reader.bias).out
