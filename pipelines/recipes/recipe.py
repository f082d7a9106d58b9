"""A recipe: how to compute an entry of the archive, as the IR says it and as an attribute.

In the IR a recipe is a *weight expression*: operations over `llmc.parameter`s alone. As an
attribute a weight is the list of its names, one for each layer, and a step is a dictionary:

    {inner_dims_pos = array<i64: 0>, inner_tiles = array<i64: 16>, op = "linalg.pack",
     operands = [["layers.0.up.weight", "layers.1.up.weight"]], outer_dims_perm = array<i64: 0, 1>}
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from torch_mlir import ir

from llmc.dialects.blocks import decode
from llmc.pipelines.recipes.block_field import BlockField
from llmc.pipelines.recipes.collapse import Collapse
from llmc.pipelines.recipes.concat import Concat
from llmc.pipelines.recipes.extract_slice import ExtractSlice
from llmc.pipelines.recipes.narrow import Narrow
from llmc.pipelines.recipes.pack import Pack
from llmc.pipelines.recipes.pack_blocks import PackBlocks
from llmc.pipelines.recipes.pack_planes import PackPlanes
from llmc.pipelines.recipes.quantize import Quantize
from llmc.pipelines.recipes.repeat_rows import RepeatRows
from llmc.pipelines.recipes.rotary_table import RotaryTable
from llmc.pipelines.recipes.rough_spread import RoughMetric, RoughSpread
from llmc.pipelines.recipes.scale_columns import ScaleColumns
from llmc.pipelines.recipes.split_float import SplitFloat
from llmc.pipelines.recipes.step import RecipeError, Step
from llmc.pipelines.recipes.transpose import Transpose

STEPS: dict[str, type[Step]] = {
    step.operation: step
    for step in (
        BlockField,
        Collapse,
        Concat,
        ExtractSlice,
        Narrow,
        Pack,
        PackBlocks,
        PackPlanes,
        Quantize,
        RepeatRows,
        RotaryTable,
        RoughMetric,
        RoughSpread,
        ScaleColumns,
        SplitFloat,
        Transpose,
    )
}


class WeightReader(Protocol):
    """Finds a weight, numbers or blocks, by its name; or a part of it, without the rest."""

    def __call__(self, name: str, part: ExtractSlice | None = None) -> np.ndarray:
        """The weight, or a part of it."""


KnownResults: TypeAlias = Mapping["Recipe", np.ndarray]
"""What recipes for one layer give, where that was computed before."""


class Recipe(ABC):
    """A weight, or a step on recipes. Two that are equal compute the same."""

    @property
    @abstractmethod
    def layers(self) -> int:
        """How many layers the recipe serves, each with weights of its own."""

    @property
    @abstractmethod
    def name(self) -> str:
        """A name for what it computes, from those of the first layer's weights."""

    @abstractmethod
    def attribute(self) -> ir.Attribute:
        """What `read_recipe` reads."""

    @abstractmethod
    def compute(self, weight: WeightReader, layer: int, known: KnownResults) -> np.ndarray:
        """What it gives for one layer, of what `weight` reads and of results that are known.

        ValueError or IndexError where the weights' shapes do not fit.
        """


@dataclass(frozen=True)
class Weight(Recipe):
    """A weight of the model, by its name in each layer."""

    sources: tuple[str, ...]

    @property
    def layers(self) -> int:
        """One for each name."""
        return len(self.sources)

    @property
    def name(self) -> str:
        """The first layer's."""
        return self.sources[0]

    def attribute(self) -> ir.Attribute:
        """The list of names."""
        return ir.ArrayAttr.get([ir.StringAttr.get(source) for source in self.sources])

    def compute(self, weight: WeightReader, layer: int, known: KnownResults) -> np.ndarray:
        """The weight itself."""
        return weight(self.sources[layer])


@dataclass(frozen=True)
class Computed(Recipe):
    """A step on what other recipes compute, all for as many layers."""

    step: Step
    operands: tuple[Recipe, ...]

    def __post_init__(self) -> None:
        if self.step.operands not in (None, len(self.operands)) or not self.operands:
            raise RecipeError(f"{self.step.operation} has {len(self.operands)} operands")
        counts = sorted({operand.layers for operand in self.operands})
        if len(counts) > 1:
            raise RecipeError(f"{self.step.operation} mixes weights of {counts} layers")

    @property
    def layers(self) -> int:
        """As many as each operand serves."""
        return self.operands[0].layers

    @property
    def name(self) -> str:
        """As the step derives it from the operands' names."""
        return self.step.name([operand.name for operand in self.operands])

    def attribute(self) -> ir.Attribute:
        """The step's name, operands and fields."""
        operands = ir.ArrayAttr.get([operand.attribute() for operand in self.operands])
        op = ir.StringAttr.get(self.step.operation)
        return ir.DictAttr.get({"op": op, "operands": operands, **self.step.attributes()})

    def compute(self, weight: WeightReader, layer: int, known: KnownResults) -> np.ndarray:
        """The step on the operands."""
        if self in known:
            return known[self]
        if isinstance(self.step, ExtractSlice) and isinstance(self.operands[0], Weight):
            return weight(self.operands[0].sources[layer], self.step)
        operands = [operand.compute(weight, layer, known) for operand in self.operands]
        if not self.step.reads_blocks:
            operands = [decode(operand) for operand in operands]
        return self.step.compute(*operands)


def recipe_of(value: ir.Value) -> Recipe | None:
    """The recipe that computes `value`; None where it is no weight expression."""
    op = value.owner
    if isinstance(op, ir.Block):
        return None
    if op.name == "llmc.parameter":
        return Weight(tuple(ir.StringAttr(name).value for name in op.attributes["sources"]))
    weights = weight_operands(value)
    recipes = [recipe for weight in weights if (recipe := recipe_of(weight))]
    if not weights or len(recipes) < len(weights) or len({each.layers for each in recipes}) > 1:
        return None
    step = STEPS[op.name].match(op)
    return Computed(step, tuple(recipes)) if step else None


def weight_operands(value: ir.Value) -> list[ir.Value]:
    """What a step computes `value` from; nothing where `value` is no result of a step."""
    op = value.owner
    if isinstance(op, ir.Block) or op.name not in STEPS:
        return []
    if not isinstance(value.type, ir.RankedTensorType) or not value.type.has_static_shape:
        return []
    return list(STEPS[op.name].weights(op))


def read_recipe(attribute: ir.Attribute) -> Recipe:
    """The recipe that `attribute` holds. RecipeError if it holds none."""
    if isinstance(attribute, ir.ArrayAttr):
        if not len(attribute) or not all(isinstance(name, ir.StringAttr) for name in attribute):
            raise RecipeError("a weight is a list of names")
        return Weight(tuple(name.value for name in attribute))
    if not isinstance(attribute, ir.DictAttr):
        raise RecipeError("a recipe is a list of names or a dictionary")
    entries = {named.name: named.attr for named in attribute}
    op, operands = entries.pop("op", None), entries.pop("operands", None)
    if not isinstance(op, ir.StringAttr) or op.value not in STEPS:
        raise RecipeError(f"'op' is {op}, not one of {', '.join(STEPS)}")
    if not isinstance(operands, ir.ArrayAttr):
        raise RecipeError(f"{op.value} has no list of 'operands'")
    step = STEPS[op.value].read(entries)
    return Computed(step, tuple(read_recipe(operand) for operand in operands))
