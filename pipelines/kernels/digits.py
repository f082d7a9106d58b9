"""Weights of attention as integers of 7 bits, which multiply bytes: two digits, or one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from torch_mlir import ir
from torch_mlir.dialects import arith, scf

from llmc.dialects.cache_cells import PANEL
from llmc.dialects.index_notation import index
from llmc.pipelines.kernels.splat import splat

BITS = 7
"""Of a digit."""

DIGITS = 2
"""How many a weight has at most."""


@dataclass(frozen=True)
class Panels:
    """Panels whose values are added up alike, in so many turns of a loop.

    Either `whole`, by weights of two digits; or the upper halves of values, by weights of one. In a
    turn comes that which begins with a `column` of the cache, whose weight lies `at` some place.
    """

    whole: bool
    end: ir.Value
    step: int
    at: Callable[[ir.Value], ir.Value]
    column: Callable[[ir.Value], ir.Value]

    @property
    def digits(self) -> range:
        """Of each weight, the highest first."""
        return range(DIGITS if self.whole else 1)

    @property
    def most(self) -> float:
        """What the largest weight becomes."""
        return largest(len(self.digits))

    def each(self, carried: list[ir.Value]) -> scf.ForOp:
        """A loop over them."""
        return scf.ForOp(index(0), self.end, index(self.step), carried)

    def place(self, turn: ir.Value) -> ir.Value:
        """Where weights would be in this turn of the loop, were it over all panels of a block."""
        return arith.muli(turn, index(PANEL // self.step))


def largest(digits: int) -> float:
    """The number that has so many digits, none of which could be larger."""
    return 2.0 ** (BITS * digits) - 1


def joined(digits: Sequence[ir.Value]) -> ir.Value:
    """The numbers, vectors of i32, that have these digits, the highest first."""
    return reduce(
        lambda high, low: arith.addi(arith.shli(high, splat(BITS, high.type)), low), digits
    )
