"""Parameters of `panel_matvec` and `panel_matmul` for the shape of a layer and a machine."""

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.pipelines.divisor import divisor
from llmc.pipelines.schedules.panel_matmul import PanelMatmulParameters, panel_matmul
from llmc.pipelines.schedules.panel_matvec import (
    PanelMatvecParameters,
    SinglePanelParameters,
    panel_matvec,
    single_panel,
)
from llmc.pipelines.schedules.schedule import MOST, PythonSchedule
from llmc.pipelines.targets.cpu import CACHE_LINE, CPUTarget

_BYTES_AT_ONCE = 256
"""Bytes that `panel_matvec` reads in a step, from panels that lie apart."""

_PANELS_AT_ONCE = 8
"""Panels whose sums stay in registers, of which AVX2 has 16."""

_ROWS_AHEAD = 32
_BYTES_AHEAD = 1024
"""How far ahead memory is asked for: so many rows of a panel, and so many bytes."""

_WORKGROUPS = 16
"""Enough of them that threads of different speed end together."""

_LANES = 64
_COLUMNS_OF_AVX2 = 8


def choose_panel_matvec(kernel: func.FuncOp, _target: CPUTarget) -> PythonSchedule:
    """As many panels at once as memory streams with, if the number of panels is a multiple.

    Of a single panel, which makes no grid, workgroups have columns.
    """
    panels, columns = kernel.type.results[0].shape[-2:]
    x, *weight = _operands(kernel)
    lanes = divisor(x.shape[-1], _LANES)
    if panels == 1:
        own = divisor(columns, min(columns // 2, MOST))
        parameters = PanelMatvecParameters(panels=1, rounds=1, lanes=lanes, columns=own)
        return PythonSchedule(panel_matvec, parameters)
    rows = [columns * part.element_type.width // 8 for part in weight]
    at_once = max(1, min(_BYTES_AT_ONCE // sum(rows), _PANELS_AT_ONCE))
    together = divisor(panels, min(at_once, panels // 2))
    groups = panels // together
    rounds = divisor(groups, min(max(groups // _WORKGROUPS, 1), MOST))
    ahead = min(max(_ROWS_AHEAD, _BYTES_AHEAD // min(rows)), MOST)
    # A round reads a line of the cache at least, which is asked for once then.
    unroll = max(PanelMatvecParameters.unroll, CACHE_LINE // min(rows))
    parameters = PanelMatvecParameters(together, rounds, unroll, ahead, lanes)
    return PythonSchedule(panel_matvec, parameters)


def choose_single_panel(_kernel: func.FuncOp, _target: CPUTarget) -> PythonSchedule:
    """The same for all shapes."""
    return PythonSchedule(single_panel, SinglePanelParameters())


def choose_panel_matmul(kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule:
    """Two panels, and as many rows as leave registers for a number of each and of both panels."""
    panels = kernel.type.results[0].shape[-2]
    rows = 6 if target.columns == _COLUMNS_OF_AVX2 else 12
    together = divisor(panels, min(2, panels // 2))
    return PythonSchedule(panel_matmul, PanelMatmulParameters(rows, together))


def _operands(kernel: func.FuncOp) -> list[ir.RankedTensorType]:
    """The types of the row and of the parts of the weight, of the first product in a kernel."""
    product = next(
        op
        for op in kernel.entry_block
        if op.operation.name == "linalg.generic" and len(op.iterator_types) == len("tpjk")
    )
    return [value.type for value in product.inputs]
