"""The schedules of a matmul among ranks, side by side: what each moves, holds and takes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import func

from llmc import dialects
from llmc.dialects import LinearOp
from llmc.frontend.bench.code_for_ranks import code_for_ranks
from llmc.frontend.bench.rank_calls import Call, Called, call_on_ranks
from llmc.pipelines.driver.execution import run
from llmc.pipelines.errors import PassError
from llmc.pipelines.passes import PropagateShapes, ScheduleCollectives
from llmc.pipelines.passes.schedule_collectives import VARIANTS
from llmc.pipelines.rewriting.functions import functions
from llmc.pipelines.sharding.annotations import grid_of
from llmc.pipelines.sharding.search.cost import collective_cost
from llmc.pipelines.sharding.search.device import Device
from llmc.pipelines.sharding.traffic import exchanges
from llmc.pipelines.walks import find
from llmc.runtime.errors import UserError
from llmc.runtime.ranks.grid import Grid


@dataclass(frozen=True)
class Row:
    """A schedule of `function`: bytes and seconds of the rank that has the most of them.

    `moved` are bytes sent, `peak` those of tensors beside the arguments; `link_s` is what the links
    should take, and `call_s` what a call took. `error` is the largest difference from numpy's
    result, by that result's largest element.
    """

    function: str
    variant: str
    moved: int
    peak: int
    link_s: float
    call_s: float
    error: float


@dataclass(frozen=True)
class _Matmul:
    """A function's operands, and the result that numpy has for them."""

    x: np.ndarray
    weight: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class _Function:
    """A rank's function in one schedule, compiled; `peak` and `link_s` are as in Row."""

    code: bytes
    type: ir.FunctionType
    peak: int
    link_s: float


def compare_schedules(text: str, device_of: Callable[[int], Device], rounds: int) -> list[Row]:
    """The functions of the program `text` in all schedules, timed in so many rounds by turns.

    `device_of` says what each of so many ranks has. UserError where no schedule is possible.
    """
    with ir.Context() as context, ir.Location.unknown():
        dialects.load(context)
        grid, matmuls, scheduled = _schedules(text, context, device_of)
        cases = [(name, variant) for name in matmuls for variant in VARIANTS]
        calls = [
            [
                _call(name, scheduled[variant][rank][name], matmuls[name], grid, rank)
                for name, variant in cases
            ]
            for rank in range(grid.size)
        ]
        called = call_on_ranks(calls, rounds)
        return [
            _row(
                name,
                variant,
                [functions_[name] for functions_ in scheduled[variant]],
                matmuls[name],
                [each[at] for each in called],
            )
            for at, (name, variant) in enumerate(cases)
        ]


def _schedules(
    text: str, context: ir.Context, device_of: Callable[[int], Device]
) -> tuple[Grid, dict[str, _Matmul], dict[str, list[dict[str, _Function]]]]:
    """The grid, the matmuls by name, and by schedule and rank its functions."""
    diagnostics: list[str] = []

    def hear(diagnostic: ir.Diagnostic) -> bool:
        diagnostics.append(diagnostic.message)
        return True

    # Detached at the end: else the handler would keep IREE alive for as long as the process.
    with context.attach_diagnostic_handler(hear):
        try:
            grid, matmuls = _read(ir.Module.parse(text))
            device = device_of(grid.size)
            scheduled = {
                variant: [_schedule(text, variant, rank, grid, device) for rank in range(grid.size)]
                for variant in VARIANTS
            }
        except (ir.MLIRError, PassError) as error:
            raise UserError(f"it is no matmul among ranks: {[*diagnostics, error][0]}") from error
    return grid, matmuls, scheduled


def _read(module: ir.Module) -> tuple[Grid, dict[str, _Matmul]]:
    """The grid, and the functions that are split, with random operands."""
    grid = grid_of(module)
    if grid is None or len(grid.axes) != 1:
        raise UserError("a matmul among ranks needs a 'shard.grid @grid' of one axis")
    random = np.random.default_rng(0)
    matmuls = {}
    for function in functions(module):
        linears = find(function.operation, LinearOp.OPERATION_NAME)
        if not linears or not find(function.operation, "shard.shard"):
            continue
        name, types = function.sym_name.value, [each.type for each in list(linears[0].operands)[:2]]
        if not all(type_.has_static_shape for type_ in types):
            raise UserError(f"@{name} leaves sizes open: give them as numbers")
        if not all(isinstance(type_.element_type, ir.F32Type) for type_ in types):
            raise UserError(f"@{name} is not of f32: ranks add up no other type")
        x, weight = (random.standard_normal(type_.shape, np.float32) for type_ in types)
        is_transposed = bool(linears[0].opview.transposed.value)
        y = LinearOp.reference(x, weight, transposed=is_transposed)
        matmuls[name] = _Matmul(x, weight, y)
    if not matmuls:
        raise UserError("there is no function with an 'llmc.linear' whose x is split: annotate one")
    return grid, matmuls


def _schedule(
    text: str, variant: str, rank: int, grid: Grid, device: Device
) -> dict[str, _Function]:
    """The functions of `rank`, compiled for this machine."""
    module = ir.Module.parse(text)
    run((ScheduleCollectives(rank, variant), PropagateShapes()), module)
    facts = {
        function.sym_name.value: (function.type, _peak(function), _link_s(function, grid, device))
        for function in functions(module)
    }
    code = code_for_ranks(module)
    return {name: _Function(code, *known) for name, known in facts.items()}


def _peak(function: func.FuncOp) -> int:
    return ir.IntegerAttr(function.attributes["llmc.peak_bytes_bound"]).value


def _link_s(function: func.FuncOp, grid: Grid, device: Device) -> float:
    costs = (
        collective_cost(device, grid, each.operation, each.size, each.axes)
        for each in exchanges(function)
    )
    return sum(seconds for seconds, _ in costs)


def _call(name: str, function: _Function, matmul: _Matmul, grid: Grid, rank: int) -> Call:
    """The function with the rank's parts of the operands."""
    x, weight = (type_.shape for type_ in function.type.inputs)
    parts = _part(matmul.x, x, rank), _part(matmul.weight, weight, rank)
    return Call(grid, function.code, name, parts)


def _part(array: np.ndarray, shape: Sequence[int], rank: int) -> np.ndarray:
    """What `rank` has of `array`: as much of each dimension as `shape` says."""
    slices = []
    for size, extent in zip(shape, array.shape, strict=True):
        start = rank * size if size < extent else 0
        slices.append(slice(start, start + size))
    return np.ascontiguousarray(array[tuple(slices)])


def _row(
    name: str, variant: str, ranks: list[_Function], matmul: _Matmul, called: list[Called]
) -> Row:
    differences = [
        np.abs(each.result - _part(matmul.y, each.result.shape, rank)).max()
        for rank, each in enumerate(called)
    ]
    return Row(
        name,
        variant,
        max(each.moved for each in called),
        max(function.peak for function in ranks),
        max(function.link_s for function in ranks),
        max(each.seconds for each in called),
        float(max(differences) / np.abs(matmul.y).max()),
    )
