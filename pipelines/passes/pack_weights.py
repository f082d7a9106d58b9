"""`pack-weights`: lays the weights of linear layers out for the kernel that reads them."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from llmc.dialects import ExpertLinearOp, LinearOp, PackedExpertLinearOp, PackedLinearOp
from llmc.dialects.attributes import i64
from llmc.dialects.block_types import block_format
from llmc.dialects.index_notation import index
from llmc.pipelines.option_text import Range
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.lower_llmc import lower
from llmc.pipelines.recipes.recipe import recipe_of
from llmc.pipelines.rewriting.panels import panels_of
from llmc.pipelines.rewriting.weight_readers import EMBEDDINGS, LINEARS
from llmc.pipelines.walks import find

# Beside linear layers and embeddings, what can be made to read a packed weight, as which operand.
_LOOKUPS = {("tensor.extract", 0)}

_FEW = 128
"""Outputs of which a kernel makes little, so that panels may be narrower than registers."""

_NARROWEST = 4
"""The fewest columns of such a panel, unless there are not so many for two."""


@dataclass(frozen=True)
class PackWeights(Pass):
    """Turns linear layers into packed ones, for weights that nothing else needs as rows.

    These are `llmc.packed_linear` and `llmc.packed_expert_linear`. A weight expression becomes the
    `linalg.pack` of it, `[N/J, K, J]` or `[E, N/J, K, J]`, as which the archive stores it: nothing
    is packed when the module runs. J is `columns`, or, where outputs are as few as experts, what
    makes several whole panels of them. Lookups in the same weight (a tied embedding) read the
    packed form, for which `llmc.embedding` is lowered. `llmc.packed_linear` computes `rows` rows of
    activations together.
    """

    name: ClassVar[str] = "pack-weights"
    columns: Annotated[int, Range(1, 4096)] = 16
    rows: Annotated[int, Range(1, 4096)] = 16

    def apply(self, module: ir.Module) -> None:
        """Packs every weight that allows it."""
        linears = find(module.operation, "llmc.linear", "llmc.expert_linear")
        for weight in dict.fromkeys(op.opview.weight for op in linears):
            if recipe_of(weight) and not block_format(weight.type):
                self._pack_where_possible(weight)

    def _pack_where_possible(self, weight: ir.Value) -> None:
        linears = _users(weight, LINEARS)
        others = _users(weight, _LOOKUPS | EMBEDDINGS)
        transposed = {linear.transposed.value for linear in linears}
        open_ = any(linear.out.type.is_dynamic_dim(linear.out.type.rank - 1) for linear in linears)
        if open_ or len(transposed) > 1 or len(linears) + len(others) < len(list(weight.uses)):
            return
        is_transposed = transposed == {1}
        outputs = weight.type.shape[-1 if is_transposed else -2]
        if outputs == 1:
            return  # which is a sum over a row, and no product with a matrix
        columns = self._columns(outputs)
        with ir.InsertionPoint.after(weight.owner), weight.owner.location:
            packed = panels_of(weight, columns, is_transposed)
        for linear in linears:
            self._replace(linear, packed)
        for embedding in _users(weight, EMBEDDINGS):
            lower(embedding.operation)
        for lookup in _users(weight, _LOOKUPS):
            _look_up(lookup, packed, is_transposed)

    def _columns(self, outputs: int) -> int:
        """Those of a panel of a weight of so many outputs."""
        width = self.columns
        narrowest = _NARROWEST if outputs >= 2 * _NARROWEST else 2
        while outputs < _FEW and width >= narrowest:
            if outputs % width == 0 and outputs > width:
                return width
            width //= 2
        return self.columns

    def _replace(self, linear: LinearOp | ExpertLinearOp, packed: ir.Value) -> None:
        with ir.InsertionPoint(linear), linear.location:
            if isinstance(linear, ExpertLinearOp):
                new = PackedExpertLinearOp(
                    linear.x, linear.expert, packed, linear.top_k, linear.out.type
                )
            else:
                new = PackedLinearOp(
                    linear.x, packed, i64(self.rows), linear.out.type, bias=linear.bias
                )
        linear.out.replace_all_uses_with(new.out)
        linear.operation.erase()


def _look_up(lookup: tensor.ExtractOp, packed: ir.Value, transposed: bool) -> None:
    *expert, row, column = lookup.indices
    if transposed:
        row, column = column, row
    with ir.InsertionPoint(lookup), lookup.location:
        columns = index(packed.type.shape[-1])
        where = [*expert, arith.divui(row, columns), column, arith.remui(row, columns)]
        lookup.result.replace_all_uses_with(tensor.extract(packed, where))
    lookup.operation.erase()


def _users(weight: ir.Value, places: set[tuple[str, int]]) -> list[Any]:
    """The operations that use `weight` as one of the operands `places`."""
    uses = [(use.owner.operation, use.operand_number) for use in weight.uses]
    return [op.opview for op, number in uses if (op.name, number) in places]
