"""`pack-weights`: lays the weights of linear layers out for the kernel that reads them."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from llmc.dialects import (
    ExpertLinearOp,
    LinearOp,
    PackedExpertLinearOp,
    PackedLinearOp,
    ParameterOp,
)
from llmc.dialects.index_notation import index
from llmc.pipelines.passes.base import Pass, find

LAYOUT = "llmc.layout"
_WEIGHTS = {("llmc.linear", 1), ("llmc.expert_linear", 2)}


@dataclass(frozen=True)
class PackWeights(Pass):
    """Turns linear layers into packed ones, for weights that nothing else needs as rows.

    These are `llmc.packed_linear` and `llmc.packed_expert_linear`. The weight's `llmc.parameter`
    gets the shape `[N/J, K, J]` or `[E, N/J, K, J]`, J being `columns`, and the attribute
    `llmc.layout`, by which the archive of weights is written: nothing is packed when the module
    runs. Lookups in the same weight (a tied embedding) read the packed form. `llmc.packed_linear`
    computes `rows` rows of activations together.
    """

    name: ClassVar[str] = "pack-weights"
    columns: int = 16
    rows: int = 16

    def __post_init__(self) -> None:
        if self.columns < 1 or self.rows < 1:
            raise ValueError(f"columns {self.columns} and rows {self.rows} must be at least 1")

    def apply(self, module: ir.Module) -> None:
        """Packs every parameter that allows it."""
        for op in find(module.operation, "llmc.parameter"):
            parameter = op.opview
            uses = list(parameter.out.uses)
            linears = [use.owner.operation.opview for use in uses if _is_linear(use)]
            lookups = [use.owner.operation.opview for use in uses if _is_lookup(use)]
            stored = {linear.transposed.value for linear in linears}
            if len(stored) == 1 and len(linears) + len(lookups) == len(uses):
                self._pack(parameter, linears, lookups, bool(stored.pop()))

    def _pack(
        self,
        parameter: ParameterOp,
        linears: list[LinearOp | ExpertLinearOp],
        lookups: list[tensor.ExtractOp],
        transposed: bool,
    ) -> None:
        *experts, outputs, inputs = parameter.out.type.shape
        if transposed:
            outputs, inputs = inputs, outputs
        panels = -(-outputs // self.columns)
        type_ = ir.RankedTensorType.get(
            [*experts, panels, inputs, self.columns], parameter.out.type.element_type
        )
        with ir.InsertionPoint(parameter), parameter.location:
            packed = ParameterOp(parameter.sources, type_)
        packed.attributes[LAYOUT] = ir.DictAttr.get(
            {"columns": _i64(self.columns), "transposed": _i64(int(transposed))}
        )
        for linear in linears:
            self._replace(linear, packed.out)
        for lookup in lookups:
            self._look_up(lookup, packed.out, transposed)
        parameter.operation.erase()

    def _replace(self, linear: LinearOp | ExpertLinearOp, packed: ir.Value) -> None:
        with ir.InsertionPoint(linear), linear.location:
            if isinstance(linear, ExpertLinearOp):
                new = PackedExpertLinearOp(
                    linear.x, linear.expert, packed, linear.top_k, linear.out.type
                )
            else:
                new = PackedLinearOp(
                    linear.x, packed, _i64(self.rows), linear.out.type, bias=linear.bias
                )
        linear.out.replace_all_uses_with(new.out)
        linear.operation.erase()

    def _look_up(self, lookup: tensor.ExtractOp, packed: ir.Value, transposed: bool) -> None:
        *expert, row, column = lookup.indices
        if transposed:
            row, column = column, row
        with ir.InsertionPoint(lookup), lookup.location:
            columns = index(self.columns)
            where = [*expert, arith.divui(row, columns), column, arith.remui(row, columns)]
            lookup.result.replace_all_uses_with(tensor.extract(packed, where))
        lookup.operation.erase()


def _is_linear(use: ir.OpOperand) -> bool:
    return (use.owner.operation.name, use.operand_number) in _WEIGHTS


def _is_lookup(use: ir.OpOperand) -> bool:
    return use.owner.operation.name == "tensor.extract" and use.operand_number == 0


def _i64(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
