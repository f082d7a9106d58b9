"""`partition-shards`: the program of one rank."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func, ml_program, shard

from llmc.dialects import CacheAllocateOp
from llmc.dialects.sharding_rule import ShardingRule
from llmc.pipelines.errors import fail
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import functions
from llmc.pipelines.sharding.annotations import coordinates_of, grid_of, layout_of, mark_rank
from llmc.pipelines.sharding.collectives import converted
from llmc.pipelines.sharding.columns import allocate_part
from llmc.pipelines.sharding.local import local_results
from llmc.pipelines.sharding.rules import assign, rule_of
from llmc.pipelines.sharding.split import Dealt, Layout, whole_of
from llmc.runtime.ranks.grid import Grid


@dataclass(frozen=True)
class PartitionShards(Pass):
    """Rewrites functions to what rank `rank` of the grid computes, on its parts of the tensors.

    A value that is needed in another layout than it is in is gathered (`shard.all_gather`), sliced,
    or both; results that every rank has a share of are added up (`shard.all_reduce`). The grid
    stays, and says the rank in `llmc.rank`. Takes the part of MLIR's `shard-partition`, which knows
    no operations that are defined in Python, and no parts of different sizes.
    """

    name: ClassVar[str] = "partition-shards"
    rank: int = 0

    def apply(self, module: ir.Module) -> None:
        """Rewrites function by function. PassError where an operand is not in a fitting layout."""
        grid = grid_of(module)
        if grid is None:
            return
        coordinates = coordinates_of(module, grid, self.rank)
        mark_rank(module, self.rank)
        for function in functions(module):
            _Partition(grid, coordinates).apply(function)


class _Partition:
    """Rewrites one function for the rank at `coordinates`."""

    def __init__(self, grid: Grid, coordinates: tuple[int, ...]) -> None:
        self._grid, self._coordinates = grid, coordinates
        self._layouts: dict[ir.Value, Layout] = {}

    def apply(self, function: func.FuncOp) -> None:
        """Goes through the function once, from top to bottom."""
        # Rules speak of whole tensors: all before the first becomes a part.
        for op, rule in [(op, rule_of(op.operation)) for op in function.entry_block]:
            if isinstance(op, shard.ShardOp):
                self._convert(op)
            elif not isinstance(op, shard.ShardingOp):
                self._localise(op.operation, rule)
        for op in reversed(list(function.entry_block)):
            if isinstance(op, shard.ShardingOp):
                op.operation.erase()

    def _layout(self, value: ir.Value) -> Layout:
        return self._layouts.get(value, whole_of(value))

    def _convert(self, op: shard.ShardOp) -> None:
        """Puts in the place of `op` its value in the layout that it names."""
        has, needs = self._layout(op.src), layout_of(op, self._grid)
        dealt = next((each for each in needs if isinstance(each, Dealt)), None)
        with ir.InsertionPoint(op), op.location:
            if has == needs:
                value = op.src
            elif dealt is not None:
                value = _dealt_out(op, dealt)
            elif any(isinstance(each, Dealt) for each in has):
                fail(op, "what is dealt out to ranks cannot be gathered")
            else:
                value = converted(op.src, has, needs, op.result.type, self._coordinates)
        self._replace(op.operation, [value], [needs])

    def _localise(self, op: ir.Operation, rule: ShardingRule | None) -> None:
        """Makes `op` compute this rank's part, if its operands are parts."""
        layouts = [self._layout(operand) for operand in op.operands]
        if not any(any(layout) for layout in layouts):
            return
        assignment = None if rule is None else assign(rule, layouts)
        if assignment is None or assignment.operands != layouts:
            fail(op, "operands are in layouts that do not fit: run propagate-shardings first")
        with ir.InsertionPoint(op), op.location:
            values = local_results(op, assignment, self._coordinates)
        self._replace(op, values, assignment.results)

    def _replace(self, op: ir.Operation, values: list[ir.Value], layouts: list[Layout]) -> None:
        for old, new, layout in zip(op.results, values, layouts, strict=True):
            old.replace_all_uses_with(new)
            self._layouts[new] = layout
        op.erase()


def _dealt_out(op: shard.ShardOp, split: Dealt) -> ir.Value:
    """A rank's part of a KV cache: what is loaded is that already, what is allocated becomes it."""
    owner = None if isinstance(op.src.owner, ir.Block) else op.src.owner.opview
    if isinstance(owner, CacheAllocateOp):
        allocate_part(owner, split)
    elif not isinstance(owner, ml_program.GlobalLoadOp):
        fail(op, "only the columns of a KV cache are dealt out to ranks")
    return op.src
