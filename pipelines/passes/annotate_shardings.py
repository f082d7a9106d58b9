"""`annotate-shardings`: says which weights are split, and which layers are where."""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import count
from pathlib import Path
from typing import ClassVar, TypeVar

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.dialects import ExpertLinearOp, LinearOp, ParameterOp
from llmc.dialects.attributes import i64
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import functions
from llmc.pipelines.rewriting.layers import trunks
from llmc.pipelines.sharding.annotations import (
    STAGE,
    add_grid,
    check_axes,
    grid_of,
    mark_layout,
    shard_op,
)
from llmc.pipelines.sharding.megatron import Cuts, cut_outputs, usual_cuts
from llmc.pipelines.sharding.parts import parts_of
from llmc.pipelines.sharding.plan import Plan, read_plan
from llmc.pipelines.sharding.split import whole
from llmc.pipelines.walks import find
from llmc.runtime.errors import UserError
from llmc.runtime.manifest import Axis
from llmc.runtime.ranks.grid import Grid

_Answer = TypeVar("_Answer")

AXES = ("tp", "pp", "dp", "ep", "sp")


@dataclass(frozen=True)
class AnnotateShardings(Pass):
    """Adds the grid `grid`, such as `tp=2`, and a `shard.shard` to each weight that is split.

    Along `tp` go heads, hidden units and the vocabulary (Megatron), along `ep` experts, along `pp`
    layers, whose calls say their stage in `llmc.pipeline_stage`. Weights that the file `plan` pins
    are split as it says; a complete plan leaves no others to be split the usual way. With `exact`
    what reads heads and hidden units is split by outputs too, so that no sum is made in parts. A
    module that has a grid stays as it is.
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
        if not plan.complete:  # which names all that is split, along whatever axis
            _check_experts(module, plan.grid)
        add_grid(module, plan.grid)
        _pin(module, plan)
        _mark_stages(module, plan)
        of_model = trunks(module)
        for number, axis in enumerate(() if plan.complete else plan.grid.axes):
            for function in functions(module):
                self._cut(function, axis, number, is_trunk=function in of_model)

    def _cut(self, function: func.FuncOp, axis: Axis, number: int, *, is_trunk: bool) -> None:
        """Splits the usual way, along one axis, what no plan has pinned."""
        is_exact = self.exact and axis.name == "tp"
        try:
            cuts = usual_cuts(function, axis, number, is_trunk=is_trunk)
            if is_exact:
                cuts = {**cut_outputs(function, number, axis.size), **cuts}
        except ValueError as error:
            raise UserError(f"along {axis.name}: {error}") from error
        _annotate(cuts)
        if is_exact:
            _gather_all(function)


def _check_experts(module: ir.Module, grid: Grid) -> None:
    """UserError where experts are to be split, and the model has none."""
    splits_experts = any(axis.name == "ep" and axis.size > 1 for axis in grid.axes)
    if splits_experts and not find(module.operation, ExpertLinearOp.OPERATION_NAME):
        raise UserError("ep splits experts, of which the model has none: leave it out of the grid")


def _mark_stages(module: ir.Module, plan: Plan) -> None:
    """Says of each call of a layer in which stage it is."""
    ranks = next((axis.size for axis in plan.grid.axes if axis.name == "pp"), 1)
    for trunk in trunks(module):
        calls = [op for op in trunk.entry_block if isinstance(op, func.CallOp)]
        if calls:
            for call, stage in zip(calls, plan.stages_of(len(calls), ranks), strict=True):
                call.attributes[STAGE] = i64(stage)


def _pin(module: ir.Module, plan: Plan) -> None:
    """Follows the plan for weights, or the parts that they are taken apart into, and inputs."""
    parameters = find(module.operation, ParameterOp.OPERATION_NAME)
    named = [(op.results[0], _names_of(op)) for op in parameters]
    for pattern in (*(pin.match for pin in plan.weights), *plan.inputs):
        if not any(fnmatchcase(name, pattern) for _, names in named for name in names):
            raise UserError(f"the plan speaks of {pattern}, but no weight is called so")
    for value, names in named:
        for weight, part in ((value, None), *zip(parts_of(value), count(), strict=False)):
            if _of_all(names, plan.gathers):
                _gather_inputs(weight)
            shape = weight.type.shape
            layout = _of_all(names, partial(plan.layout, shape=shape, part=part))
            if layout is not None:
                mark_layout(weight, layout)


def _names_of(parameter: ir.Operation) -> list[str]:
    """What the weight of each layer is called."""
    return [ir.StringAttr(source).value for source in parameter.attributes["sources"]]


def _of_all(names: list[str], asked: Callable[[str], _Answer]) -> _Answer:
    """What holds for the weights of all layers. UserError where that is not one thing."""
    first, *others = map(asked, names)
    if any(other != first for other in others):
        raise UserError(f"layers share their code: the plan must split them all like {names[0]}")
    return first


def _annotate(cuts: Cuts) -> None:
    for value, (dim, split) in cuts.items():
        if not any(use.owner.name == "shard.shard" for use in value.uses):
            layout = list(whole(value.type.rank))
            layout[dim] = split
            mark_layout(value, tuple(layout))


def _gather_all(function: func.FuncOp) -> None:
    """Asks for whole inputs of all linear layers."""
    for op in list(function.entry_block):
        if isinstance(op, LinearOp | ExpertLinearOp):
            _gather_input(op)


def _gather_inputs(weight: ir.Value) -> None:
    """Asks for whole inputs of the linear layers that read `weight`."""
    for use in list(weight.uses):
        op = use.owner.opview
        if isinstance(op, LinearOp | ExpertLinearOp) and op.weight == weight:
            _gather_input(op)


def _gather_input(op: LinearOp | ExpertLinearOp) -> None:
    with ir.InsertionPoint(op), op.location:
        layout = whole(op.x.type.rank)
        op.operation.operands[0] = shard_op(op.x, layout, for_users=True)
