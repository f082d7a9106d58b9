"""`overlap-collectives`: ranks compute one half of a prompt while they exchange the other."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, func, tensor

from llmc.dialects.index_notation import Size, size, sizes, slice_of
from llmc.pipelines.clones import clone_with
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import functions
from llmc.pipelines.sharding.halves import first_half, mark_half
from llmc.pipelines.sharding.rows import is_by_row, rows_dim

_COLLECTIVES = ("shard.all_reduce", "shard.all_gather", "shard.reduce_scatter")


@dataclass(frozen=True)
class OverlapCollectives(Pass):
    """Computes the end of each layer, from attention on, for two halves of a prompt by turns.

    What leads to a collective, a linear layer for one, is computed for the first half of the rows
    and then for the second, while the collective on the first goes on (`llmc.started`). No row
    depends on another there, so that every number stays the same. Rows of several sequences, each
    of one token, are not halved: weights would be read twice, which is what takes all their time.
    """

    name: ClassVar[str] = "overlap-collectives"

    def apply(self, module: ir.Module) -> None:
        """Rewrites the functions that take the rows of one sequence."""
        for function in functions(module):
            ops = _by_row(function)
            if _takes_one_sequence(function) and any(map(_exchanges_rows, ops)):
                _Halves(function).compute(ops)


def _takes_one_sequence(function: func.FuncOp) -> bool:
    rows = next((each.type for each in function.arguments), None)
    if not isinstance(rows, ir.RankedTensorType) or rows.rank < 2:
        return False
    return bool(rows.is_dynamic_dim(1)) and rows.shape[0] == 1


def _by_row(function: func.FuncOp) -> list[ir.OpView]:
    """The operations after the last one in which rows depend on one another."""
    *ops, _ = function.entry_block
    last = max((at for at, op in enumerate(ops) if not is_by_row(op)), default=-1)
    return ops[last + 1 :]


def _exchanges_rows(op: ir.OpView) -> bool:
    return op.operation.name in _COLLECTIVES and rows_dim(op.operands[0]) is not None


class _Halves:
    """What the values of a function are for each half of its rows."""

    def __init__(self, function: func.FuncOp) -> None:
        self._end = function.entry_block.operations[len(function.entry_block.operations) - 1]
        with ir.InsertionPoint(self._end), function.location:
            rows = size(function.arguments[0], 1)
            first = first_half(rows)
            self._ranges: list[tuple[Size, ir.Value]] = [
                (0, first),
                (first, arith.subi(rows, first)),
            ]
        self._known: list[dict[ir.Value, ir.Value]] = [{}, {}]

    def compute(self, ops: list[ir.OpView]) -> None:
        """Replaces `ops` by what they do for each half, and puts together what is returned."""
        for stretch in _stretches(ops):
            for half in range(len(self._ranges)):
                for op in stretch:
                    with ir.InsertionPoint(self._end), op.location:
                        self._compute(op, half)
        for number, value in enumerate(self._end.operands):
            dim = rows_dim(value)
            if dim is not None:
                parts = [self._part(value, half) for half in range(len(self._ranges))]
                with ir.InsertionPoint(self._end), self._end.location:
                    self._end.operands[number] = tensor.concat(value.type, dim, parts)
        for op in reversed(ops):
            if any(result in self._known[0] for result in op.results):
                op.operation.erase()

    def _compute(self, op: ir.OpView, half: int) -> None:
        known = self._known[half]
        for operand in op.operands:
            if operand not in known and (part := self._part(operand, half)) != operand:
                known[operand] = part
        if any(operand in known for operand in op.operands):
            clone_with(op.operation, known)
            if _exchanges_rows(op):
                mark_half(known[op.results[0]].owner, half)

    def _part(self, value: ir.Value, half: int) -> ir.Value:
        """What `value` is for the rows of `half`: the same where it has nothing to do with rows."""
        if value in self._known[half]:
            return self._known[half][value]
        begin, count = self._ranges[half]
        if not isinstance(value.owner, ir.Block) and isinstance(value.owner.opview, tensor.DimOp):
            return count
        dim = rows_dim(value)
        if dim is None:
            return value
        extents = sizes(value)
        extents[dim] = count
        return slice_of(
            value, [begin if at == dim else 0 for at in range(len(extents))], extents, extents
        )


def _stretches(ops: list[ir.OpView]) -> Iterator[list[ir.OpView]]:
    """The operations, cut after each collective on rows."""
    stretch: list[ir.OpView] = []
    for op in ops:
        stretch.append(op)
        if _exchanges_rows(op):
            yield stretch
            stretch = []
    yield stretch
