"""`annotate-shardings`: says which weights are split, and which layers are where."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.dialects import ExpertLinearOp, LinearOp, ParameterOp
from llmc.dialects.attributes import i64
from llmc.pipelines.passes.base import (
    Pass,
    fail,
    find,
    functions,
    trunks,
)
from llmc.pipelines.sharding.annotations import STAGE, add_grid, check_axes, grid_of, shard_op
from llmc.pipelines.sharding.megatron import (
    Cuts,
    cut_experts,
    cut_like_megatron,
    cut_outputs,
    cut_vocabulary,
)
from llmc.pipelines.sharding.plan import Plan, read_plan
from llmc.pipelines.sharding.split import whole
from llmc.runtime.ranks.grid import Grid

AXES = ("tp", "pp", "dp", "ep")


@dataclass(frozen=True)
class AnnotateShardings(Pass):
    """Adds the grid `grid`, such as `tp=2`, and a `shard.shard` to each weight that is split.

    Along `tp` go heads, hidden units and the vocabulary (Megatron), along `ep` experts, along `pp`
    layers, whose calls say their stage in `llmc.stage`. Weights
    that the file `plan` pins are split as it says. With `exact` what reads heads and hidden units
    is split by outputs too, so that no sum is made in parts. A module that has a grid stays as it
    is.
    """

    name: ClassVar[str] = "annotate-shardings"
    grid: str = ""
    plan: str = ""
    exact: bool = False

    def apply(self, module: ir.Module) -> None:
        """Adds the grid and the annotations. UserError where plan and grid cannot be followed."""
        if grid_of(module) is not None or not (self.grid or self.plan):
            return
        plan = read_plan(Path(self.plan)) if self.plan else Plan(Grid.parse(self.grid))
        check_axes(plan.grid, AXES)
        add_grid(module, plan.grid)
        _pin(module, plan)
        _mark_stages(module, plan)
        for number, axis in enumerate(plan.grid.axes):
            for function in functions(module):
                try:
                    cuts = _cuts(module, function, axis.name, number, axis.size)
                    if self.exact and axis.name == "tp":
                        cuts = {**cut_outputs(function, number, axis.size), **cuts}
                except ValueError as error:
                    fail(function, f"along {axis.name}: {error}")
                _annotate(cuts)
                if self.exact and axis.name == "tp":
                    _gather_inputs(function)


def _mark_stages(module: ir.Module, plan: Plan) -> None:
    """Says of each call of a layer in which stage it is."""
    ranks = next((axis.size for axis in plan.grid.axes if axis.name == "pp"), 1)
    for trunk in trunks(module):
        calls = [op for op in trunk.entry_block if isinstance(op, func.CallOp)]
        if calls:
            for call, stage in zip(calls, plan.stages_of(len(calls), ranks), strict=True):
                call.attributes[STAGE] = i64(stage)


def _pin(module: ir.Module, plan: Plan) -> None:
    for op in find(module.operation, ParameterOp.OPERATION_NAME):
        name = ir.StringAttr(op.attributes["sources"][0]).value
        layout = plan.layout(name, op.results[0].type.shape)
        if layout is not None:
            _replace_uses(op.results[0], layout)


def _cuts(module: ir.Module, function: func.FuncOp, axis: str, number: int, ranks: int) -> Cuts:
    if axis == "ep":
        return cut_experts(function, number, ranks)
    if axis != "tp":
        return {}
    if function in trunks(module):
        return cut_vocabulary(function, number, ranks)
    return cut_like_megatron(function, number, ranks)


def _annotate(cuts: Cuts) -> None:
    for value, (dim, split) in cuts.items():
        if not any(use.owner.name == "shard.shard" for use in value.uses):
            layout = list(whole(value.type.rank))
            layout[dim] = split
            _replace_uses(value, tuple(layout))


def _gather_inputs(function: func.FuncOp) -> None:
    """Asks for whole inputs of linear layers whose weights are split by outputs."""
    for op in list(function.entry_block):
        if isinstance(op.opview, LinearOp | ExpertLinearOp):
            weight = op.opview.weight.owner
            if not isinstance(weight, ir.Block) and weight.name == "shard.shard":
                with ir.InsertionPoint(op), op.location:
                    layout = whole(op.operands[0].type.rank)
                    op.operands[0] = shard_op(op.operands[0], layout, for_users=True)


def _replace_uses(value: ir.Value, layout: tuple) -> None:
    users = [(use.owner, use.operand_number) for use in value.uses]
    with ir.InsertionPoint.after(value.owner), value.owner.location:
        annotated = shard_op(value, layout)
    for owner, number in users:
        owner.operands[number] = annotated
