"""Parameters of `panel_matvec` and `panel_matmul` for the shape of a layer and a machine."""

from dataclasses import replace

from torch_mlir import ir
from torch_mlir.dialects import func
from torch_mlir.extras import types as T

from llmc.dialects.divisor import divisor
from llmc.pipelines.errors import fail
from llmc.pipelines.kernels.pair_instructions import LANES
from llmc.pipelines.schedules.panel_experts import panel_expert_matmul, panel_expert_matvec
from llmc.pipelines.schedules.panel_matmul import PanelMatmulParameters, panel_matmul
from llmc.pipelines.schedules.panel_matvec import (
    PanelMatvecParameters,
    SinglePanelParameters,
    panel_matvec,
    single_panel,
)
from llmc.pipelines.schedules.result_extents import last_extents
from llmc.pipelines.schedules.schedule import MOST, PythonSchedule
from llmc.pipelines.schedules.transform_ops.sum_apart import CHAIN
from llmc.pipelines.schedules.workgroups import panels_of_workgroup
from llmc.pipelines.targets.cpu import CACHE_LINE, STREAM_AHEAD, CPUTarget
from llmc.pipelines.walks import find

_BYTES_AT_ONCE = 256
"""Bytes that `panel_matvec` reads in a step, from panels that lie apart."""

_PANELS_AT_ONCE = 8
"""Panels whose sums stay in registers, of which AVX2 has 16."""

_ROWS_AHEAD = 32
_BYTES_AHEAD = 1024
_BYTES_AHEAD_OF_ROWS = 3072
"""How far ahead memory is asked for: so many rows of a panel, and so many bytes.

Where several rows are multiplied by panels, they are read more slowly.
"""

_SUMS = 8
"""Sums of a column that a panel which is read alone is added to by turns, at most.

An addition waits for the last to the same sum, four cycles, in which eight rows may come.
"""

_SHORTEST_CHAIN = 16
"""Terms of a partial sum at least, where there are several: to add them up costs time."""

_WORKGROUPS = 16
"""Enough of them that threads of different speed end together."""

_LANES = 64


def choose_panel_matvec(kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule:
    """Panels one by one, or as many at once as memory streams with.

    Of a single panel, which makes no grid, workgroups have columns.
    """
    panels, columns = _panels(kernel)
    x, *weight = _operands(kernel)
    lanes = divisor(x.shape[-1], _LANES)
    if panels == 1:
        own = divisor(columns, min(columns // 2, MOST))
        parameters = PanelMatvecParameters(panels=1, rounds=1, lanes=lanes, columns=own)
        return PythonSchedule(panel_matvec, parameters)
    rows = _bytes_of_rows(weight, columns)
    sums, chain = _sums(x.shape[-1], target)
    parameters = (
        _one_by_one(panels, x.shape[-1], rows, target)
        if sums > 1
        else _panels_at_once(panels, rows)
    )
    parameters = replace(parameters, lanes=lanes, chain=chain, sums=sums)
    return PythonSchedule(panel_matvec, parameters)


def choose_panel_expert_matvec(kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule:
    """What `choose_panel_matvec` has for one matrix."""
    return replace(choose_panel_matvec(kernel, target), function=panel_expert_matvec)


def choose_single_panel(kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule:
    """Sums as `choose_panel_matvec` has them: to the bit, what it computes of the same panel."""
    _, columns = _panels(kernel)
    x, *weight = _operands(kernel)
    sums, chain = _sums(x.shape[-1], target)
    ahead = _rows_ahead(_bytes_of_rows(weight, columns))
    return PythonSchedule(single_panel, SinglePanelParameters(ahead=ahead, chain=chain, sums=sums))


def _sums(length: int, target: CPUTarget) -> tuple[int, int]:
    """How many sums of a column there are, and how many terms a partial one has.

    One where panels are not read one by one, or where several do not come out even.
    """
    sums = divisor(length, _SUMS) if target.reads_in_order else 1
    chain = divisor(length // sums, CHAIN)
    is_even = chain >= _SHORTEST_CHAIN or chain * sums == length
    return (sums, chain) if sums > 1 and is_even else (1, CHAIN)


def _one_by_one(
    panels: int, length: int, rows: list[int], target: CPUTarget
) -> PanelMatvecParameters:
    """For panels of `length` rows, of so many bytes in each part of the weight."""
    return PanelMatvecParameters(
        panels=1,
        rounds=panels_of_workgroup(panels, panels * length * sum(rows), target.cores),
        unroll=1,
        ahead=_rows_in(STREAM_AHEAD, rows),
    )


def _panels_at_once(panels: int, rows: list[int]) -> PanelMatvecParameters:
    """For panels with `rows` of so many bytes, one in each part of the weight."""
    at_once = max(1, min(_BYTES_AT_ONCE // sum(rows), _PANELS_AT_ONCE))
    together = divisor(panels, min(at_once, panels // 2))
    groups = panels // together
    rounds = divisor(groups, min(max(groups // _WORKGROUPS, 1), MOST))
    # A round reads a line of the cache at least, which is asked for once then.
    unroll = max(PanelMatvecParameters.unroll, CACHE_LINE // min(rows))
    return PanelMatvecParameters(together, rounds, unroll, _rows_ahead(rows))


def choose_panel_matmul(kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule:
    """Two panels, and as many rows as leave registers for a number of each and of both panels."""
    panels, columns = _panels(kernel)
    x, *weight = _operands(kernel)
    rows = 12 if target.registers == 32 else 6
    together = divisor(panels, max(1, min(2, panels // 2)))
    ahead = _rows_in(_BYTES_AHEAD_OF_ROWS, _bytes_of_rows(weight, columns))
    parameters = PanelMatmulParameters(rows, together, ahead=ahead)
    is_even = x.shape[-1] % 2 == 0
    if x.element_type == T.bf16() and is_even and columns in LANES.get(target.pair_instruction, ()):
        chain = 2 * divisor(x.shape[-1] // 2, CHAIN)
        parameters = replace(parameters, chain=chain, instruction=target.pair_instruction)
    return PythonSchedule(panel_matmul, parameters)


def choose_panel_expert_matmul(kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule:
    """What `choose_panel_matmul` has for one matrix."""
    return replace(choose_panel_matmul(kernel, target), function=panel_expert_matmul)


def _bytes_of_rows(weight: list[ir.RankedTensorType], columns: int) -> list[int]:
    """The bytes of a row of a panel, in each part of a weight."""
    return [columns * part.element_type.width // 8 for part in weight]


def _rows_ahead(rows: list[int]) -> int:
    """How many rows ahead memory is asked for, of so many bytes in each part of a weight."""
    return max(_ROWS_AHEAD, _rows_in(_BYTES_AHEAD, rows))


def _rows_in(count: int, rows: list[int]) -> int:
    """How many rows, of the narrowest part, so many bytes are; as a parameter may be."""
    return max(1, min(count // min(rows), MOST))


def _panels(kernel: func.FuncOp) -> list[int]:
    """How many panels of how many columns a kernel returns. PassError where it returns none."""
    extents = last_extents(kernel, 2)
    return extents or fail(kernel, "a kernel of panels returns [.., panels, columns]")


def _operands(kernel: func.FuncOp) -> list[ir.RankedTensorType]:
    """The types of the row and of the parts of the weight, of the first product in a kernel.

    PassError where it has none.
    """
    generics = (op.opview for op in find(kernel.operation, "linalg.generic"))
    product = next((op for op in generics if len(op.iterator_types) == len("tpjk")), None)
    if product is None:
        fail(kernel, "a kernel of panels has a product over rows, panels, columns and terms")
    return [value.type for value in product.inputs]
