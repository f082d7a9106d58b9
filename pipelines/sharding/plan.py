"""A plan: which weights are split, along which axis of the grid, and which layers are where.

    {"grid": "tp=2",
     "weights": [{"match": "model.layers.*.self_attn.q_proj.weight", "dim": 0, "axis": "tp",
                  "ranges": [[0, 384], [384, 576]]}],
     "inputs": [], "stages": [], "complete": false}

Without `ranges` the parts are as nearly equal as whole `unit`s of elements allow. A `part` is one
of the slices that a weight is taken apart into. Linear layers whose weights match a pattern of
`inputs` gather what they read. Weights that no pattern matches are split the usual way; those of a
`complete` plan follow from how activations are split, or are whole on every rank.
"""

import json
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from llmc.pipelines.sharding.split import Layout, Range, Split, even_split
from llmc.runtime.errors import UserError
from llmc.runtime.fields import Count, PositiveCount, Rule, converted
from llmc.runtime.ranks.grid import Grid

_Pair = Annotated[Range, Rule(lambda pair: len(pair) == 2, "must be a pair of numbers")]


@dataclass(frozen=True)
class Pin:
    """The weights whose names match the pattern `match` are split in dimension `dim`."""

    match: str
    dim: Count
    axis: str
    unit: PositiveCount = 1
    ranges: tuple[_Pair, ...] = ()
    part: Count | None = None

    def layout(self, grid: Grid, shape: list[int]) -> Layout:
        """The layout of a weight of `shape`. UserError where it cannot be split so."""
        names = [axis.name for axis in grid.axes]
        if self.axis not in names:
            raise UserError(f"the plan splits {self.match} along {self.axis!r}: no axis of {grid}")
        axis = names.index(self.axis)
        if not 0 <= self.dim < len(shape):
            raise UserError(f"{self.match} has {len(shape)} dimensions: none has number {self.dim}")
        extent, ranks = shape[self.dim], grid.axes[axis].size
        split = Split(axis, self.ranges) if self.ranges else self._even(axis, ranks, extent)
        if len(split.ranges) != ranks or not split.covers(extent):
            raise UserError(
                f"the ranges of {self.match} are no parts of {extent} for {ranks} ranks"
            )
        return tuple(split if dim == self.dim else None for dim in range(len(shape)))

    def _even(self, axis: int, ranks: int, extent: int) -> Split:
        try:
            return even_split(axis, ranks, extent, self.unit)
        except ValueError as error:
            raise UserError(f"{self.match}: {error}") from error


@dataclass(frozen=True)
class Plan:
    """The pins in order, of which the first that matches a weight counts.

    `stages[l]` is the place of layer l along the axis `pp`; without any, all ranks have as many
    layers as nearly as that goes.
    """

    grid: Grid
    weights: tuple[Pin, ...] = ()
    inputs: tuple[str, ...] = ()
    stages: tuple[int, ...] = ()
    complete: bool = False

    def layout(self, name: str, shape: list[int], part: int | None = None) -> Layout | None:
        """The layout of the weight `name`, or a part of it; None where the plan says nothing."""
        for pin in self.weights:
            if fnmatchcase(name, pin.match) and pin.part == part:
                return pin.layout(self.grid, shape)
        return None

    def gathers(self, name: str) -> bool:
        """Whether the linear layer with the weight `name` gathers what it reads."""
        return any(fnmatchcase(name, pattern) for pattern in self.inputs)

    def stages_of(self, layers: int, ranks: int) -> list[int]:
        """The stage of each layer. UserError where not all `ranks` have layers, in order."""
        if layers < ranks:
            raise UserError(f"{layers} layers cannot be split among {ranks} stages")
        if not self.stages:
            return [layer * ranks // layers for layer in range(layers)]
        stages = list(self.stages)
        if (
            len(stages) != layers
            or sorted({*stages}) != [*range(ranks)]
            or stages != sorted(stages)
        ):
            raise UserError(
                f"the plan must give {layers} layers the stages 0 to {ranks - 1} in order"
            )
        return stages

    def to_json(self) -> str:
        """The text of a plan file."""
        return json.dumps({**asdict(self), "grid": str(self.grid)}, indent=2) + "\n"


def read_plan(path: Path) -> Plan:
    """The plan in the file `path`. UserError where it holds none."""
    try:
        held: _PlanFile = converted(json.loads(path.read_text(encoding="utf-8")), _PlanFile)
    except OSError as error:
        raise UserError(f"cannot read the plan {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is no plan: {error}") from error
    return Plan(Grid.parse(held.grid), held.weights, held.inputs, held.stages, held.complete)


@dataclass(frozen=True)
class _PlanFile:
    """The fields of `Plan` as a file has them."""

    grid: str
    weights: tuple[Pin, ...] = ()
    inputs: tuple[str, ...] = ()
    stages: tuple[Count, ...] = ()
    complete: bool = False
