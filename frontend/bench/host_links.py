"""What collectives cost among processes of this machine, in the middle of a step.

There they stand between kernels, which leave nothing in the nearest caches of what a collective
reads and runs; and as many processes as there are CPUs, or more, wait for one another. So a chain
of kernels with a collective after each is compared with one that has a collective at its end alone.
"""

from collections.abc import Callable, Iterator

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import func
from torch_mlir.extras import types as T

from llmc import dialects
from llmc.dialects import LinearOp
from llmc.dialects.attributes import i64
from llmc.dialects.index_notation import slice_of
from llmc.frontend.bench.code_for_ranks import code_for_ranks
from llmc.frontend.bench.rank_calls import Call, Called, call_on_ranks
from llmc.pipelines.sharding.annotations import add_grid
from llmc.pipelines.sharding.collectives import add_up, all_gather, shift
from llmc.pipelines.sharding.search.device import Line, Link
from llmc.runtime.manifest import Axis
from llmc.runtime.ranks.communicator import Operation
from llmc.runtime.ranks.grid import Grid

_WIDTH = 768  # its square is a matrix about as large as what a core's second cache holds
_COUNT = 8  # of kernels, each of which reads another matrix
_LONG = 1 << 18  # elements of a message so long that latency hardly counts
_ROUNDS = 15
_LEAST_S = 1e-7  # a latency that is lost in noise

_Operation = Callable[[ir.Value, int], ir.Value]


def _gather(x: ir.Value, ranks: int) -> ir.Value:
    """The first piece of what is gathered, which the next operation can take."""
    extents = list(x.type.shape)
    return slice_of(all_gather(x, 1, ranks, axis=1), [0, 0], extents, extents)


_OPERATIONS: dict[Operation, _Operation] = {
    "shift": lambda x, _: shift(x, 1, axis=1),
    "all_reduce": lambda x, _: add_up(x, [1]),
    "all_gather": _gather,
}
# After the last kernel, after each kernel, and of long messages without kernels.
_FORMS = ("once", "often", "long")


def measure_links(ranks: int) -> tuple[Link, ...]:
    """What joins so many processes, and what joins groups of neighbours while the others rest.

    UserError where they cannot be started.
    """
    groups = [members for members in range(2, ranks + 1) if ranks % members == 0]
    weights = np.zeros((_COUNT, _WIDTH, _WIDTH), np.float32)
    short, long = (np.zeros((1, width), np.float32) for width in (_WIDTH, _LONG))
    arguments = dict(zip(_FORMS, [(short, weights), (short, weights), (long,)], strict=True))
    calls: list[list[Call]] = [[] for _ in range(ranks)]
    for members in groups:
        for working, resting in _calls(members, ranks, arguments):
            for rank, each in enumerate(calls):
                each.append(working if rank < members else resting)
    called = iter(call_on_ranks(calls, _ROUNDS)[0])
    links = []
    for members in groups:
        lines: dict[str, Line] = {
            operation: _line(*(next(called) for _ in _FORMS)) for operation in _OPERATIONS
        }
        message = lines.pop("shift")
        links.append(Link(members, message.latency_s, message.bytes_per_s, lines))
    return tuple(links)


def _calls(
    members: int, ranks: int, arguments: dict[str, tuple[np.ndarray, ...]]
) -> Iterator[tuple[Call, Call]]:
    """For each operation in each form: what the first `members` call, and what the others."""
    grid = Grid((Axis("far", ranks // members), Axis("near", members)))
    code = _compiled(grid)
    resting = Call(grid, code, "rest", arguments["once"][:1])
    for operation in _OPERATIONS:
        for form, given in arguments.items():
            yield Call(grid, code, f"{operation}_{form}", given), resting


def _line(once: Called, often: Called, long: Called) -> Line:
    """The latency and the rate of an operation that was called in the three forms."""
    latency = max((often.seconds - once.seconds) / (_COUNT - 1), _LEAST_S)
    return Line(latency, long.moved / long.seconds)


def _compiled(grid: Grid) -> bytes:
    """The code of all functions, and of `rest`, which does nothing."""
    with ir.Context() as context, ir.Location.unknown():
        dialects.load(context)
        module = ir.Module.create()
        add_grid(module, grid)
        short, long = (ir.RankedTensorType.get([1, n], T.f32()) for n in (_WIDTH, _LONG))
        weights = ir.RankedTensorType.get([_COUNT, _WIDTH, _WIDTH], T.f32())
        ranks = grid.axes[1].size
        for name, operation in _OPERATIONS.items():
            for form in ("once", "often"):
                _add(module, f"{name}_{form}", [short, weights], _kernels(operation, ranks, form))
            _add(module, f"{name}_long", [long], _messages(operation, ranks))
        _add(module, "rest", [short], lambda x: x)
        return code_for_ranks(module)


def _add(
    module: ir.Module, name: str, inputs: list[ir.Type], body: Callable[..., ir.Value]
) -> None:
    """Adds the function `name`, which returns what `body` makes of its arguments."""
    with ir.InsertionPoint(module.body):
        function = func.FuncOp(name, (inputs, inputs[:1]))
    with ir.InsertionPoint(function.add_entry_block()):
        func.ReturnOp([body(*function.arguments)])


def _kernels(operation: _Operation, ranks: int, form: str) -> Callable[..., ir.Value]:
    """Kernels, each with the operation after it, or with it after the last alone."""

    def body(x: ir.Value, weights: ir.Value) -> ir.Value:
        type_ = x.type
        for number in range(_COUNT):
            matrix = slice_of(weights, [number, 0, 0], [1, _WIDTH, _WIDTH], [_WIDTH, _WIDTH])
            x = LinearOp(x, matrix, i64(0), type_).out
            if form == "often" or number == _COUNT - 1:
                x = operation(x, ranks)
        return x

    return body


def _messages(operation: _Operation, ranks: int) -> Callable[..., ir.Value]:
    """The operation alone, again and again."""

    def body(x: ir.Value) -> ir.Value:
        for _ in range(_COUNT):
            x = operation(x, ranks)
        return x

    return body
