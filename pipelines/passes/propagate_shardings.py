"""`propagate-shardings`: from how some values are split to how all are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import func, shard

from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import functions
from llmc.pipelines.sharding.annotations import grid_of, layout_of, shard_op
from llmc.pipelines.sharding.rules import assign, is_free, rule_of
from llmc.pipelines.sharding.split import Layout, whole, whole_of
from llmc.pipelines.walks import walk
from llmc.runtime.ranks.grid import Grid

_Layouts: TypeAlias = dict[ir.Value, Layout | None]
"""How each value is split; None where its user may choose."""


@dataclass(frozen=True)
class PropagateShardings(Pass):
    """Says of every value in which layout an operation computes it, and of operands needs it.

    What is split goes on being split from operation to operation, as far as the rule of each
    allows (`sharding` of an operation of ours). A weight, an empty tensor or a constant is split as
    its user needs it. An operand that is needed in another layout than it is in gets a
    `shard.shard` `annotate_for_users`; where that costs a collective is for `partition-shards`.
    Functions take and return what every rank has whole. Takes the part of MLIR's
    `sharding-propagation`, which knows no operations that are defined in Python.
    """

    name: ClassVar[str] = "propagate-shardings"

    def apply(self, module: ir.Module) -> None:
        """Annotates function by function."""
        if (grid := grid_of(module)) is not None:
            for function in functions(module):
                _propagate(function, grid)


def _propagate(function: func.FuncOp, grid: Grid) -> None:
    layouts: _Layouts = {}
    for op in list(function.entry_block):
        if isinstance(op, shard.ShardOp):
            layouts[op.result] = layout_of(op, grid)
        elif not isinstance(op, shard.ShardingOp):
            _visit(op.operation, layouts)


def _visit(op: ir.Operation, layouts: _Layouts) -> None:
    """Adds what `op` needs of its operands, and what it makes of them."""
    rule = rule_of(op)
    given = [_layout(operand, layouts) for operand in op.operands]
    needed: list[Layout] = [whole_of(operand) for operand in op.operands]
    made: list[Layout] = [whole_of(result) for result in op.results]
    if rule is not None:
        assignment = assign(rule, given)
        needed, made = assignment.operands, assignment.results
    _ask_for_operands(op, given, needed)
    _ask_for_reads(op, layouts)
    if is_free(op):
        layouts.update((result, None) for result in op.results)
    else:
        for result, layout in zip(op.results, made, strict=True):
            _say_where(result, layout, layouts)


def _ask_for_operands(
    op: ir.Operation, given: Sequence[Layout | None], needed: Sequence[Layout]
) -> None:
    """Asks for operands in the layouts that are `needed`, where those `given` are others."""
    with ir.InsertionPoint(op), op.location:
        for number, (has, needs) in enumerate(zip(given, needed, strict=True)):
            if needs != (has if has is not None else whole(len(needs))):
                op.operands[number] = shard_op(op.operands[number], needs, for_users=True)


def _ask_for_reads(op: ir.Operation, layouts: _Layouts) -> None:
    """Asks for all of what regions read, which may be any element."""
    with ir.InsertionPoint(op), op.location:
        for inner in walk(op):
            for number, operand in enumerate(inner.operands):
                if any(_layout(operand, layouts) or ()):
                    inner.operands[number] = shard_op(operand, whole_of(operand), for_users=True)


def _say_where(result: ir.Value, layout: Layout, layouts: _Layouts) -> None:
    """Says in which layout `result` is, where that is split and nobody says it yet."""
    layouts[result] = layout
    users = list(result.uses)
    if any(layout) and not all(_says_where_it_is(use.owner) for use in users):
        with ir.InsertionPoint.after(result.owner), result.owner.location:
            annotated = shard_op(result, layout)
        for use in users:
            use.owner.operands[use.operand_number] = annotated
        layouts[annotated] = layout


def _says_where_it_is(op: ir.OpView) -> bool:
    """Whether `op` says in which layout its value is, and not merely its users need it."""
    return isinstance(op, shard.ShardOp) and not op.annotate_for_users


def _layout(value: ir.Value, layouts: _Layouts) -> Layout | None:
    return layouts.get(value, whole_of(value))
