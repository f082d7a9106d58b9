"""`simplify-collectives`: moves fewer bytes between ranks for the same result."""

from dataclasses import dataclass
from typing import ClassVar, TypeGuard

from torch_mlir import ir
from torch_mlir.dialects import linalg, shard, tensor

from llmc.dialects import CombineExpertsOp, ExpertLinearOp
from llmc.dialects.attributes import i64
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.generics import applied, is_elementwise
from llmc.pipelines.rewriting.operations import is_used
from llmc.pipelines.sharding.annotations import grid_of
from llmc.pipelines.sharding.collectives import EVEN_PART, add_up, axes_of, is_sum, reduce_scatter
from llmc.pipelines.sharding.local import ROWS
from llmc.pipelines.walks import find
from llmc.runtime.ranks.grid import Grid


@dataclass(frozen=True)
class SimplifyCollectives(Pass):
    """Replaces collectives by cheaper ones, alike in the programs of all ranks.

    - What is gathered, and of which a rank reads its own part, is that part.
    - A sum of which a rank reads a part alone is scattered (`shard.reduce_scatter`).
    - Two sums that are added are one sum.
    - What a rank's own experts make of rows stays there until `llmc.combine_experts` has added it
      up, for other experts of the same rank read those rows alone.

    Changes numerics: two sums are added in another order.
    """

    name: ClassVar[str] = "simplify-collectives"

    def apply(self, module: ir.Module) -> None:
        """Rewrites each kind in turn."""
        grid = grid_of(module)
        if grid is None:
            return
        for op in find(module.operation, "shard.all_gather"):
            _read_own_part(op.opview, grid)
        for op in find(module.operation, "shard.all_reduce"):
            _scatter(op.opview, grid)
        for op in find(module.operation, ExpertLinearOp.OPERATION_NAME):
            _read_own_rows(op.opview)
        for op in find(module.operation, CombineExpertsOp.OPERATION_NAME):
            _combine_first(op.opview)
        for op in find(module.operation, "linalg.generic"):
            _add_first(op.opview)
        for op in reversed(find(module.operation, "shard.all_reduce", "shard.all_gather")):
            if not is_used(op):
                op.erase()


def _read_own_part(gather: shard.AllGatherOp, grid: Grid) -> None:
    axes, users = axes_of(gather), [use.owner for use in gather.result.uses]
    if len(axes) != 1:
        return
    for user in users:
        if _own_part(user, axes[0], grid.axes[axes[0]].size) == gather.gather_axis.value:
            user.results[0].replace_all_uses_with(gather.input)
            user.operation.erase()


def _scatter(reduce: shard.AllReduceOp, grid: Grid) -> None:
    axes, users = axes_of(reduce), [use.owner for use in reduce.result.uses]
    if len(axes) != 1 or not users or not is_sum(reduce):
        return
    size = grid.axes[axes[0]].size
    dims = {_own_part(user, axes[0], size) for user in users}
    dim = dims.pop() if len(dims) == 1 else None
    if dim is None:
        return
    with ir.InsertionPoint(reduce), reduce.location:
        part = reduce_scatter(reduce.input, dim, size, axes[0])
    for user in users:
        user.results[0].replace_all_uses_with(part)
        user.operation.erase()


def _own_part(op: ir.OpView, axis: int, ranks: int) -> int | None:
    """The dimension of which `op` takes the rank's part of `ranks` along the grid's `axis`.

    None where it takes something else, or not all of another dimension.
    """
    if not isinstance(op, tensor.ExtractSliceOp) or EVEN_PART not in op.attributes:
        return None
    if op.attributes[EVEN_PART] != i64(axis) or op.source.type.rank != op.result.type.rank:
        return None
    extents = zip(op.source.type.shape, op.result.type.shape, strict=True)
    cut = [(dim, whole, part) for dim, (whole, part) in enumerate(extents) if part != whole]
    return cut[0][0] if len(cut) == 1 and cut[0][1] == ranks * cut[0][2] else None


def _read_own_rows(op: ExpertLinearOp) -> None:
    """Where others' rows of the result become zeros, those of `x` need not be right."""
    users = [use.owner for use in op.out.uses]
    if len(users) == 1 and ROWS in users[0].attributes and op.top_k.value == 1:
        _read_rows(op.operation, 0, users[0])


def _read_rows(op: ir.Operation, number: int, rows: ir.OpView) -> None:
    """Reads in operand `number` of `op` what is right in the rows that `rows` keeps."""
    value = op.operands[number]
    producer = None if isinstance(value.owner, ir.Block) else value.owner
    if _is_sum_over_ranks(producer):
        summed = producer.input.owner
        axis, *_ = rows.attributes[ROWS]
        is_sum_of_rows = axes_of(producer) == [axis] and not isinstance(summed, ir.Block)
        if is_sum_of_rows and _keeps_alike(summed, rows):
            op.operands[number] = producer.input
    elif (
        isinstance(producer, linalg.GenericOp)
        and _is_by_element(producer)
        and len(list(value.uses)) == 1
    ):
        for each in range(len(producer.inputs)):
            _read_rows(producer.operation, each, rows)


def _keeps_alike(first: ir.Operation | ir.OpView, second: ir.OpView) -> bool:
    """Whether two operations keep the same rows and make zeros of the others."""
    return (
        ROWS in first.attributes
        and first.attributes[ROWS] == second.attributes[ROWS]
        and first.operands[1] == second.operands[1]
    )


def _combine_first(op: CombineExpertsOp) -> None:
    producer = op.y.owner
    if _is_sum_over_ranks(producer) and len(list(op.y.uses)) == 1:
        op.operation.operands[0] = producer.input
        _sum_result(op.operation, axes_of(producer))


def _add_first(op: linalg.GenericOp) -> None:
    """`all_reduce(a) + all_reduce(b)` is `all_reduce(a + b)`."""
    sums = [value.owner for value in op.inputs]
    if len(sums) != 2 or not _is_by_element(op) or applied(op.operation) != "arith.addf":
        return
    are_sums = all(map(_is_sum_over_ranks, sums))
    if not are_sums or any(len(list(value.uses)) != 1 for value in op.inputs):
        return
    if axes_of(sums[0]) == axes_of(sums[1]):
        for number, each in enumerate(sums):
            op.operation.operands[number] = each.input
        _sum_result(op.operation, axes_of(sums[0]))


def _is_sum_over_ranks(op: ir.OpView | ir.Block | None) -> TypeGuard[shard.AllReduceOp]:
    return isinstance(op, shard.AllReduceOp) and is_sum(op)


def _sum_result(op: ir.Operation, axes: list[int]) -> None:
    users = [(use.owner, use.operand_number) for use in op.results[0].uses]
    with ir.InsertionPoint.after(op), op.location:
        total = add_up(op.results[0], axes)
    for owner, number in users:
        owner.operands[number] = total


def _is_by_element(op: linalg.GenericOp) -> bool:
    """Whether element i of the one result is of the elements i of the inputs alone."""
    return len(op.outputs) == 1 and is_elementwise(op.operation)
