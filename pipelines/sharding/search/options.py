"""The ways in which each weight of a function may be split."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.dialects import EmbeddingOp, ExpertLinearOp, LinearOp, ParameterOp
from llmc.dialects.parameter import stored_unit
from llmc.pipelines.recipes.recipe import recipe_of
from llmc.pipelines.sharding.megatron import (
    BLOCK,
    Cuts,
    cut_outputs,
    usual_cuts,
)
from llmc.pipelines.sharding.parts import parts_of
from llmc.pipelines.sharding.plan import Plan
from llmc.pipelines.sharding.split import Layout, Split, even_split, whole
from llmc.runtime.manifest import Axis
from llmc.runtime.ranks.grid import Grid

Option: TypeAlias = tuple[Layout | None, bool]
"""How a weight is split, None for as its reader needs it; and whether that gathers its input."""


Options: TypeAlias = Mapping[ir.Value, list[Option]]


@dataclass(frozen=True)
class WeightName:
    """A weight by its names in all layers that a function serves; `part` is of one taken apart."""

    sources: tuple[str, ...]
    part: int | None


def weights_of(function: func.FuncOp) -> dict[ir.Value, WeightName]:
    """The matrices that `function` reads."""
    found = {}
    for op in function.entry_block:
        view = op.opview
        if isinstance(view, LinearOp | ExpertLinearOp):
            weight = view.weight
        elif isinstance(view, EmbeddingOp):
            weight = view.table
        else:
            continue
        if recipe_of(weight) is not None and (name := name_of(weight)) is not None:
            found[weight] = name
    return found


def name_of(weight: ir.Value) -> WeightName | None:
    """The name of a parameter or of a slice of one; None for what is made of several."""
    op, part = weight.owner, None
    if op.name == "tensor.extract_slice":
        parent = op.operands[0].owner
        part = parts_of(parent.results[0]).index(weight)
        op = parent
    if op.name != ParameterOp.OPERATION_NAME:
        return None
    return WeightName(tuple(ir.StringAttr(name).value for name in op.attributes["sources"]), part)


def options_of(function: func.FuncOp, grid: Grid, plan: Plan, *, is_trunk: bool) -> Options:
    """All that is tried for each weight; for those that `plan` pins, what it says.

    A complete plan leaves nothing to try.
    """
    usual = [_usual(function, axis, number, is_trunk) for number, axis in enumerate(grid.axes)]
    return {
        weight: _options(weight, name, grid, plan, usual)
        for weight, name in weights_of(function).items()
    }


def _options(
    weight: ir.Value, name: WeightName, grid: Grid, plan: Plan, usual: list[Cuts]
) -> list[Option]:
    pinned = plan.layout(name.sources[0], weight.type.shape, name.part)
    gathers = plan.gathers(name.sources[0])
    if plan.complete:
        return [(pinned, gathers)]
    layouts: list[Layout | None] = [pinned]
    if not pinned:
        layouts += _all_splits(weight, grid, usual)
    gathering = (True,) if gathers else (False, True) if name.part is None else (False,)
    return list(product(dict.fromkeys(layouts), gathering))


def usual_options(function: func.FuncOp, grid: Grid, *, is_trunk: bool, exact: bool) -> Options:
    """What a compilation without a plan does; ValueError where there are too many ranks."""
    found: dict[ir.Value, list[Option]] = {
        weight: [(None, False)] for weight in weights_of(function)
    }
    for number, axis in enumerate(grid.axes):
        if axis.size == 1:
            continue
        cuts = usual_cuts(function, axis, number, is_trunk=is_trunk)
        outputs = cut_outputs(function, number, axis.size) if exact and axis.name == "tp" else {}
        for weight, (dim, split) in {**outputs, **cuts}.items():
            if found.get(weight) == [(None, False)]:
                found[weight] = [(_layout(weight, dim, split), exact and axis.name == "tp")]
    return found


def _usual(function: func.FuncOp, axis: Axis, number: int, is_trunk: bool) -> Cuts:
    try:
        return usual_cuts(function, axis, number, is_trunk=is_trunk)
    except ValueError:
        return {}


def _all_splits(weight: ir.Value, grid: Grid, usual: list[Cuts]) -> Iterator[Layout]:
    """Those along each axis of the grid that splits weights."""
    for number, axis in enumerate(grid.axes):
        if axis.name in ("tp", "ep") and axis.size > 1:
            yield from _splits(weight, number, axis.size, usual[number])


def _splits(weight: ir.Value, axis: int, ranks: int, usual: Cuts) -> Iterable[Layout]:
    """The usual split, and each dimension in as equal parts as whole blocks allow."""
    if weight in usual:
        yield _layout(weight, *usual[weight])
    for dim, extent in enumerate(weight.type.shape):
        stored = stored_unit(weight) if dim == weight.type.rank - 1 else 1
        for unit in (max(BLOCK, stored), stored):
            if extent % unit == 0 and extent // unit >= ranks:
                yield _layout(weight, dim, even_split(axis, ranks, extent, unit))
                break


def _layout(weight: ir.Value, dim: int, split: Split) -> Layout:
    layout = list(whole(weight.type.rank))
    layout[dim] = split
    return tuple(layout)
