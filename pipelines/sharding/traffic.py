"""How many bytes a rank sends when it runs its program."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.pipelines.rewriting.functions import functions
from llmc.pipelines.rewriting.layers import trunks
from llmc.pipelines.sharding.annotations import grid_of
from llmc.pipelines.sharding.collectives import axes_of
from llmc.pipelines.sharding.halves import rows_of
from llmc.runtime.ranks.communicator import Operation, bytes_moved
from llmc.runtime.ranks.grid import Grid

# A gather's bytes are those of what it makes, any other's those of what it takes.
_OPERATIONS: dict[str, Operation] = {
    "shard.all_reduce": "all_reduce",
    "shard.all_gather": "all_gather",
    "shard.broadcast": "broadcast",
    "shard.reduce_scatter": "reduce_scatter",
    "shard.send": "send",
    "shard.shift": "shift",
}


@dataclass(frozen=True)
class Exchange:
    """A collective on `size` bytes, as `bytes_moved` counts them, along the grid's `axes`."""

    operation: Operation
    size: int
    axes: tuple[int, ...]


def exchanges(function: func.FuncOp, open_size: int = 1) -> Iterator[Exchange]:
    """The collectives of `function` alone; `open_size` is that of the dimensions left open."""
    for op in function.entry_block:
        name = op.operation.name
        if name not in _OPERATIONS:
            continue
        value = op.operation.results[0] if name == "shard.all_gather" else op.operation.operands[0]
        type_ = value.type
        rows = rows_of(op, open_size)
        extents = [
            rows if type_.is_dynamic_dim(dim) else type_.shape[dim] for dim in range(type_.rank)
        ]
        size = prod(extents) * type_.element_type.width // 8
        yield Exchange(_OPERATIONS[name], size, tuple(axes_of(op.operation)))


def traffic(module: ir.Module, open_size: int = 1) -> dict[str, int]:
    """The bytes that a call of each public function sends, of a module for one rank.

    It is as `partition-shards` leaves it; `open_size` is that of the dimensions left open.
    """
    grid = grid_of(module)
    own = {
        function.sym_name.value: sum(
            _moved(exchange, grid) for exchange in exchanges(function, open_size) if grid
        )
        for function in functions(module)
    }
    return {
        trunk.sym_name.value: own[trunk.sym_name.value]
        + sum(own[op.callee.value] for op in trunk.entry_block if isinstance(op, func.CallOp))
        for trunk in trunks(module)
    }


def _moved(exchange: Exchange, grid: Grid) -> int:
    members = prod(grid.axes[axis].size for axis in exchange.axes)
    return bytes_moved(exchange.operation, exchange.size, members)
