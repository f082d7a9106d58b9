"""How an operation may be split among ranks: which dimensions are cut together.

As in `dimensions.py`, dimensions with the same letter are of one size, `*` stands for any leading
dimensions, and `.` for a dimension that every rank has whole. Here a letter also says that a cut of
it goes through all that bear it: ranks that hold corresponding pieces of the operands compute
corresponding pieces of the results.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.dimensions import spelled

WHOLE = "."


@dataclass(frozen=True)
class Dim:
    """A dimension of `ratio` times the size of `letter`."""

    letter: str
    ratio: Fraction = Fraction(1)


Dims = tuple[Dim | None, ...]
"""The dimensions of a tensor; None for one that every rank has whole."""


@dataclass(frozen=True)
class ShardingRule:
    """The dimensions of an operation's operands and results; no operand but a tensor has any.

    Where a letter of `sums` is cut, each rank computes results that are to be added up; where one
    of `averages` is dealt out, such that are to be averaged by weights of their own. A range of
    a letter in `groups` lies within as many neighbours, or consists of whole groups of them; one of
    a letter in `units` consists of whole units.
    """

    operands: tuple[Dims, ...]
    results: tuple[Dims, ...]
    sums: str = ""
    groups: Mapping[str, int] = field(default_factory=dict)
    units: Mapping[str, int] = field(default_factory=dict)
    averages: str = ""


def by_letters(
    op: Any,
    sums: str = "",
    groups: Mapping[str, int] | None = None,
    units: Mapping[str, int] | None = None,
    dims: Mapping[str, Dim] | None = None,
    averages: str = "",
    **notation: str,
) -> ShardingRule:
    """The rule of an operation of ours, with a letter for each dimension of each field.

    A field that is not in `notation` is whole on every rank. `dims` is what a letter stands for,
    where that is not a dimension of its own.
    """
    operands, results = (
        tuple(
            _dims(notation.get(each.name, ""), value, dims or {})
            for each in op._fields
            if isinstance(each, kind) and (value := getattr(op, each.name)) is not None
        )
        for kind in (ext.OperandDef, ext.ResultDef)
    )
    return ShardingRule(operands, results, sums, groups or {}, units or {}, averages)


def _dims(notation: str, value: ir.Value, known: Mapping[str, Dim]) -> Dims:
    if not isinstance(value.type, ir.RankedTensorType):
        return ()
    letters = spelled(notation, value) or WHOLE * value.type.rank
    return tuple(None if letter == WHOLE else known.get(letter, Dim(letter)) for letter in letters)
