"""What an operation costs a rank: a roofline for arithmetic, latency and rate for collectives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch_mlir import ir

from llmc.dialects import AttentionOp, ExpertLinearOp, LinearOp
from llmc.dialects.blocks import FORMATS
from llmc.pipelines.sharding.search.device import Device
from llmc.pipelines.sharding.split import Layout, whole
from llmc.runtime import abi
from llmc.runtime.ranks.communicator import Operation, bytes_moved
from llmc.runtime.ranks.grid import Grid

_VALUE = 4  # bytes of an activation, a float32
_FLOATS = {"f32": 4.0, "f16": 2.0, "bf16": 2.0}
# They compute nothing: what they say is how elements are counted.
_VIEWS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast", "tensor.dim")


@dataclass(frozen=True)
class Cost:
    """Seconds of a step on the slowest rank, and bytes: sent in a step, and held.

    What is held are weights and a full KV cache.
    """

    compute_s: float = 0.0
    reduce_s: float = 0.0
    reshard_s: float = 0.0
    moved: int = 0
    memory: float = 0.0

    @property
    def seconds(self) -> float:
        """The step's time."""
        return self.compute_s + self.reduce_s + self.reshard_s

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.compute_s + other.compute_s,
            self.reduce_s + other.reduce_s,
            self.reshard_s + other.reshard_s,
            self.moved + other.moved,
            self.memory + other.memory,
        )

    def times(self, count: int) -> Cost:
        """That of `count` of the same."""
        return Cost(
            self.compute_s * count,
            self.reduce_s * count,
            self.reshard_s * count,
            self.moved * count,
            self.memory * count,
        )


@dataclass(frozen=True)
class Step:
    """What is to be fast: `function` of the module, and the size of the dimensions it leaves open.

    `held` tokens of each sequence are in the KV cache, which has room for `context`. `storage` is
    the type of weights, and `kv_bytes` are those of one value in the cache.
    """

    function: str
    open_size: int
    held: int
    context: int
    storage: str
    kv_bytes: float

    @property
    def sequences(self) -> int:
        """How many sequences take part in the step."""
        return self.open_size if self.function == abi.DECODE_BATCH else 1

    def of_replica(self, replicas: int) -> Step:
        """The step of the first of so many replicas: no other has more sequences."""
        each = math.ceil(self.sequences / replicas)
        return replace(self, open_size=each) if self.function == abi.DECODE_BATCH else self


def weight_bytes(storage: str) -> float:
    """The bytes of one weight that is stored as `storage`, scales included."""
    if storage in FORMATS:
        return FORMATS[storage].bytes / FORMATS[storage].values
    return _FLOATS.get(storage, 4.0)


def collective_cost(
    device: Device, grid: Grid, operation: Operation, size: int, axes: Sequence[int]
) -> tuple[float, int]:
    """Seconds and bytes sent of `operation` on `size` bytes along the axes `axes` of `grid`."""
    members = math.prod(grid.axes[axis].size for axis in axes)
    if members == 1:
        return 0.0, 0
    span = math.prod(each.size for each in grid.axes[min(axes) :])
    link = device.link(span)
    moved = bytes_moved(operation, size, members)
    return link.seconds(operation, moved, members), moved


@dataclass(frozen=True)
class CostModel:
    """The costs of a step of a model on devices in a grid."""

    device: Device
    grid: Grid
    step: Step

    def sum_up(self, size: int, axes: Sequence[int]) -> Cost:
        """Adds up `size` bytes along the grid's `axes`, all at once."""
        seconds, moved = collective_cost(self.device, self.grid, "all_reduce", size, axes)
        return Cost(reduce_s=seconds, moved=moved)

    def hand_over(self, operation: Operation, type_: ir.Type, axes: Sequence[int]) -> Cost:
        """Gives a whole tensor of `type_` to others along the grid's `axes`."""
        size = _VALUE * self.elements(type_, whole(type_.rank))
        seconds, moved = collective_cost(self.device, self.grid, operation, size, axes)
        return Cost(reshard_s=seconds, moved=moved)

    def gather(self, type_: ir.Type, has: Layout, dims: Sequence[int]) -> Cost:
        """Makes the dimensions `dims` whole of a tensor of `type_`, of which ranks have `has`."""
        layout, cost = list(has), Cost()
        for dim in dims:
            if (split := layout[dim]) is None:
                continue
            layout[dim] = None
            size = _VALUE * self.elements(type_, tuple(layout)) // split.extent
            most = max(end - begin for begin, end in split.ranges)
            gathered = size * most * len(split.ranges)
            seconds, moved = collective_cost(
                self.device, self.grid, "all_gather", gathered, [split.axis]
            )
            cost += Cost(reshard_s=seconds, moved=moved)
        return cost

    def elements(self, type_: ir.Type, layout: Layout) -> int:
        """How many elements the rank with the most of them has."""
        return math.prod(self._extents(type_, layout))

    def _extents(self, type_: ir.Type, layout: Layout) -> list[int]:
        return [
            max(end - begin for begin, end in split.ranges)
            if split
            else (self.step.open_size if type_.is_dynamic_dim(dim) else type_.shape[dim])
            for dim, split in enumerate(layout)
        ]

    def compute(self, op: ir.Operation, operands: list[Layout], results: list[Layout]) -> Cost:
        """The rank's part of `op`, whose operands and results are in these layouts."""
        view = op.opview
        if isinstance(view, LinearOp | ExpertLinearOp):
            return self._linear(view, operands, results[0])
        if isinstance(view, AttentionOp):
            return self._attention(view, operands)
        if op.name in _VIEWS:
            return Cost()
        written = sum(
            _VALUE * self.elements(result.type, layout)
            for result, layout in zip(op.results, results, strict=True)
            if isinstance(result.type, ir.RankedTensorType)
        )
        return Cost(compute_s=written / self.device.read_bytes_per_s)

    def _linear(
        self, op: LinearOp | ExpertLinearOp, operands: list[Layout], result: Layout
    ) -> Cost:
        extents = self._extents(op.x.type, operands[0])
        at = list(op.operation.operands).index(op.weight)
        weights = self.elements(op.weight.type, operands[at])
        outputs = self.elements(op.out.type, result)
        if isinstance(op, ExpertLinearOp):
            experts = self._extents(op.weight.type, operands[at])[0]
            rows = self._extents(op.out.type, result)[0]
            weights = weights // experts * min(experts, rows)
        return self._roofline(2 * outputs * extents[-1], weights * weight_bytes(self.step.storage))

    def _attention(self, op: AttentionOp, operands: list[Layout]) -> Cost:
        batch, heads, tokens, channels = self._extents(op.query.type, operands[0])
        _, groups, _, wide = self._extents(op.value.type, operands[2])
        seen = self.step.held + tokens
        if op.window.value:
            seen = min(seen, op.window.value + tokens)
        each = groups * (channels + wide) * self.step.kv_bytes
        flops = 2 * batch * heads * tokens * seen * (channels + wide)
        memory = Cost(memory=batch * self.step.context * each)
        return self._roofline(flops, batch * seen * each) + memory

    def _roofline(self, flops: float, read: float) -> Cost:
        seconds = max(
            flops / self.device.rate(self.step.storage), read / self.device.read_bytes_per_s
        )
        return Cost(compute_s=seconds)
