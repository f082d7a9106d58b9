"""Ranks of a grid: each a thread that runs its own module, and what goes between them."""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Condition

import numpy as np
from torch_mlir import ir

from llmc.pipelines.sharding.collectives import axes_of
from llmc.runtime.ranks.grid import Grid
from tests.interpreter.machine import Frame, Machine, Values, evaluates

_TIMEOUT_S = 10.0


class Exchange:
    """Where ranks leave for each other what they send."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._sent: dict[tuple[int, int], deque[tuple[str, np.ndarray]]] = defaultdict(deque)
        self._failed = False

    def send(self, what: str, value: np.ndarray, source: int, to: int) -> None:
        """Leaves `value`, of the operation `what`, for the rank `to`."""
        with self._changed:
            self._sent[source, to].append((what, value))
            self._changed.notify_all()

    def receive(self, what: str, source: int, to: int) -> np.ndarray:
        """What the rank `source` sent first. It must be of the operation `what`."""
        sent = self._sent[source, to]
        with self._changed:
            if not self._changed.wait_for(lambda: sent or self._failed, _TIMEOUT_S) or not sent:
                raise RuntimeError(f"rank {to} waits in {what} for rank {source}")
            found, value = sent.popleft()
        if found != what:
            raise RuntimeError(f"rank {source} is in {found} where rank {to} is in {what}")
        return value

    def fail(self) -> None:
        """Lets nobody wait any longer."""
        with self._changed:
            self._failed = True
            self._changed.notify_all()

    def require_empty(self) -> None:
        """RuntimeError where something was sent that nobody received."""
        if any(self._sent.values()):
            raise RuntimeError("something was sent that nobody received")


@dataclass
class Ranks:
    """The modules of all ranks of `grid`, to be called together. `weights` are the whole ones."""

    modules: Sequence[ir.Module]
    weights: Mapping[str, np.ndarray]
    grid: Grid
    _exchange: Exchange = field(default_factory=Exchange)

    def __post_init__(self) -> None:
        self._machines = [
            _Rank(module, self.weights, rank, self.grid, self._exchange)
            for rank, module in enumerate(self.modules)
        ]

    def call(self, name: str, *arguments: np.ndarray) -> Values:
        """Runs a function, of which all ranks must return the same bits."""
        with ThreadPoolExecutor(len(self._machines)) as pool:
            calls = [pool.submit(each.call, name, *arguments) for each in self._machines]
        first, *others = [call.result() for call in calls]
        self._exchange.require_empty()
        for rank, results in enumerate(others, 1):
            for number, (one, other) in enumerate(zip(first, results, strict=True)):
                if not np.array_equal(one, other, equal_nan=True):
                    raise RuntimeError(f"rank {rank} returns another result {number} than rank 0")
        return first


class _Rank(Machine):
    """One of them."""

    def __init__(
        self,
        module: ir.Module,
        weights: Mapping[str, np.ndarray],
        rank: int,
        grid: Grid,
        exchange: Exchange,
    ) -> None:
        super().__init__(module, weights)
        self._rank, self._grid, self._exchange = rank, grid, exchange

    def call(self, name: str, *arguments: np.ndarray, layer: int = 0) -> Values:
        """Runs a function; where that fails, on all ranks."""
        try:
            return super().call(name, *arguments, layer=layer)
        except BaseException:
            self._exchange.fail()
            raise

    def group(self, op: ir.Operation) -> tuple[int, ...]:
        """The ranks that take part in `op`, of which this is one."""
        return self._grid.group(self._rank, sum(1 << axis for axis in axes_of(op)))

    def place(self, op: ir.Operation) -> int:
        """Where this rank is among those."""
        return self.group(op).index(self._rank)

    def send(self, op: ir.Operation, value: np.ndarray, to: int) -> None:
        """Sends `value` to the rank at place `to` of the group."""
        self._exchange.send(_PAIRED.get(op.name, op.name), value, self._rank, self.group(op)[to])

    def receive(self, op: ir.Operation, source: int) -> np.ndarray:
        """What the rank at place `source` of the group sends."""
        return self._exchange.receive(op.name, self.group(op)[source], self._rank)

    def gather(self, op: ir.Operation, value: np.ndarray) -> Values:
        """The `value`s of all ranks of the group."""
        places = range(len(self.group(op)))
        for place in places:
            self.send(op, value, place)
        return [self.receive(op, place) for place in places]


_PAIRED = {"shard.send": "shard.recv"}
Collective = Callable[[_Rank, ir.Operation, np.ndarray], np.ndarray]


def _collective(name: str) -> Callable[[Collective], Collective]:
    """Registers what an operation makes of its operand."""

    def register(function: Collective) -> Collective:
        @evaluates(name)
        def _evaluate(frame: Frame, op: ir.Operation) -> Values:
            assert isinstance(frame.machine, _Rank), "only one of several ranks can reach others"
            (value,) = frame.operands(op)
            return [function(frame.machine, op, value)]

        return function

    return register


@_collective("shard.all_reduce")
def _all_reduce(rank: _Rank, op: ir.Operation, value: np.ndarray) -> np.ndarray:
    return sum(rank.gather(op, value))


@_collective("shard.all_gather")
def _all_gather(rank: _Rank, op: ir.Operation, value: np.ndarray) -> np.ndarray:
    return np.concatenate(rank.gather(op, value), op.opview.gather_axis.value)


@_collective("shard.reduce_scatter")
def _reduce_scatter(rank: _Rank, op: ir.Operation, value: np.ndarray) -> np.ndarray:
    pieces = np.split(sum(rank.gather(op, value)), len(rank.group(op)), op.opview.scatter_dim.value)
    return pieces[rank.place(op)]


@_collective("shard.send")
def _send(rank: _Rank, op: ir.Operation, value: np.ndarray) -> np.ndarray:
    (to,) = ir.DenseI64ArrayAttr(op.attributes["destination"])
    rank.send(op, value, to)
    return value


@_collective("shard.recv")
def _receive(rank: _Rank, op: ir.Operation, room: np.ndarray) -> np.ndarray:
    (source,) = ir.DenseI64ArrayAttr(op.attributes["source"])
    value = rank.receive(op, source)
    if value.shape != room.shape:
        raise ValueError(f"{value.shape} arrives for {room.shape} in {op}")
    return value


@_collective("shard.broadcast")
def _broadcast(rank: _Rank, op: ir.Operation, value: np.ndarray) -> np.ndarray:
    (root,) = ir.DenseI64ArrayAttr(op.attributes["root"])
    values = rank.gather(op, value)
    if len({each.shape for each in values}) > 1:
        raise ValueError(f"{[each.shape for each in values]} are of different shapes in {op}")
    return values[root]
