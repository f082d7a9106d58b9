"""`linalg.pack` of a weight: its dimensions cut into tiles, as a kernel reads them."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from torch_mlir import ir

from llmc.pipelines.recipes.step import Step


@dataclass(frozen=True)
class Pack(Step):
    """Cuts dimension `inner_dims_pos[i]` into tiles of `inner_tiles[i]`, the last one padded by 0.

    The result's dimensions: those of the operand, which count the tiles of the ones that are cut,
    in the order `outer_dims_perm`, and then within the tiles.
    """

    operation: ClassVar[str] = "linalg.pack"
    inner_dims_pos: tuple[int, ...]
    inner_tiles: tuple[int, ...]
    outer_dims_perm: tuple[int, ...]

    @classmethod
    def match(cls, op: ir.OpView) -> Self | None:
        """Such a step if the tiles are static and the padding is zero."""
        padding = op.padding_value
        if len(op.inner_tiles) or not (padding is None or is_zero(padding)):
            return None
        order = tuple(op.outer_dims_perm or ()) or tuple(range(op.source.type.rank))
        return cls(tuple(op.inner_dims_pos), tuple(op.static_inner_tiles), order)

    def compute(self, *weights: np.ndarray) -> np.ndarray:
        """The tiles, of which the last ones are padded."""
        (weight,) = weights
        # From the last dimension on, so that those to come keep their numbers.
        for dim, tile in sorted(zip(self.inner_dims_pos, self.inner_tiles, strict=True))[::-1]:
            weight = _cut(weight, dim, tile)
        outer = [self._place(dim) for dim in self.outer_dims_perm]
        inner = [self._place(dim) + 1 for dim in self.inner_dims_pos]
        return weight.transpose(outer + inner)

    def _place(self, dim: int) -> int:
        """Where dimension `dim` is once each that is cut has become two."""
        return dim + sum(cut < dim for cut in self.inner_dims_pos)


def _cut(weight: np.ndarray, dim: int, tile: int) -> np.ndarray:
    if tile < 1:
        raise ValueError(f"a tile of {tile} is none")
    before, after = weight.shape[:dim], weight.shape[dim + 1 :]
    if missing := -weight.shape[dim] % tile:
        zeros = np.zeros((*before, missing, *after), weight.dtype)
        weight = np.concatenate([weight, zeros], dim)
    return weight.reshape(*before, weight.shape[dim] // tile, tile, *after)


def is_zero(number: ir.Value) -> bool:
    """Whether `number` is the constant 0."""
    is_constant = not isinstance(number.owner, ir.Block) and number.owner.name == "arith.constant"
    return is_constant and getattr(number.owner.attributes["value"], "value", None) == 0
