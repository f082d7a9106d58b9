"""`fill-panels`: gives an output head of any number of rows as many as cores share well."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch_mlir import ir

from llmc.dialects import ArgmaxOp, EmbeddingOp, RepeatRowsOp
from llmc.dialects.index_notation import slice_of_rows
from llmc.dialects.linear_rows import merged
from llmc.pipelines.option_text import Range
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.recipes.recipe import recipe_of
from llmc.pipelines.rewriting.output_head import (
    HEADS,
    has_plain_rows,
    head_of,
    keeps_outputs,
)
from llmc.pipelines.rewriting.weight_expressions import computed_by, serves_only
from llmc.pipelines.rewriting.weight_readers import EMBEDDINGS
from llmc.pipelines.walks import find

_READERS = HEADS | EMBEDDINGS


@dataclass(frozen=True)
class FillPanels(Pass):
    """Repeats rows of an output head until it has a multiple of `panels` panels of `columns`.

    The last panel is then full, so that `screen-argmax` applies, and workgroups have equal shares.
    For an `llmc.argmax` nothing is cut off: a row that is repeated comes first, and so it is the
    one that is found. All else sees as many outputs as there were. The weight has at least `rows`
    rows; linear layers without a bias and embeddings alone read it, in all functions.
    """

    name: ClassVar[str] = "fill-panels"
    columns: Annotated[int, Range(1, 4096)] = 16
    panels: Annotated[int, Range(1, 4096)] = 8
    rows: Annotated[int, Range(1, 2**31 - 1)] = 4096

    def apply(self, module: ir.Module) -> None:
        """Fills up each head, in all functions or in none."""
        heads = (head_of(op) for op in find(module.operation, "llmc.argmax"))
        uneven = [head.weight for head in heads if head and self._is_uneven(head.weight)]
        recipes = (recipe for weight in uneven if (recipe := recipe_of(weight)))
        for recipe in dict.fromkeys(recipes):
            weights = computed_by(module, recipe, _READERS)
            if all(map(_can_be_filled, weights)):
                for weight in weights:
                    self._fill(weight)

    def _is_uneven(self, weight: ir.Value) -> bool:
        rows, _ = weight.type.shape
        return rows >= max(self.rows, self._multiple) and rows % self._multiple != 0

    @property
    def _multiple(self) -> int:
        return self.columns * self.panels

    def _fill(self, weight: ir.Value) -> None:
        rows, length = weight.type.shape
        rows += -rows % self._multiple
        readers = [use.owner.operation for use in weight.uses]
        with ir.InsertionPoint.after(weight.owner), weight.owner.location:
            type_ = ir.RankedTensorType.get([rows, length], weight.type.element_type)
            filled = RepeatRowsOp(weight, type_).out
        for reader in readers:
            reader.operands[1] = filled
            if reader.name != EmbeddingOp.OPERATION_NAME:
                _widen(reader, rows)


def _can_be_filled(weight: ir.Value) -> bool:
    """Whether embeddings alone read it, and linear layers `[N, K]` without a bias."""
    readers = [use.owner.operation.opview for use in weight.uses]
    return serves_only(weight, _READERS) and all(
        isinstance(reader, EmbeddingOp) or has_plain_rows(reader) for reader in readers
    )


def _widen(linear: ir.Operation, rows: int) -> None:
    """Has a layer compute so many outputs, which an `llmc.argmax` reads all, others as before."""
    (out,) = linear.results
    *leading, old = out.type.shape
    readers = [(use.owner.operation, use.operand_number) for use in out.uses]
    out.set_type(ir.RankedTensorType.get([*leading, rows], out.type.element_type))
    with ir.InsertionPoint.after(linear), linear.location:
        kept = slice_of_rows(out, 0, old)
    for reader, number in readers:
        reader.operands[number] = kept
        _search_all(reader, out)


def _search_all(reshape: ir.Operation, outputs: ir.Value) -> None:
    """Has an `llmc.argmax` of what `reshape` makes search all `outputs` of the layer."""
    if reshape.name != "tensor.collapse_shape" or not keeps_outputs(reshape):
        return
    users = [use.owner.operation for use in reshape.results[0].uses]
    searches = [op for op in users if op.name == ArgmaxOp.OPERATION_NAME]
    if searches:
        with ir.InsertionPoint(reshape), reshape.location:
            rows = merged(outputs)
        for search in searches:
            search.operands[0] = rows
