"""Parameters of `panel_matvec` and `panel_matmul` for the shape of a layer and a machine."""

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.pipelines.schedules.panel_matmul import PanelMatmulParameters, panel_matmul
from llmc.pipelines.schedules.panel_matvec import PanelMatvecParameters, panel_matvec
from llmc.pipelines.schedules.schedule import PythonSchedule
from llmc.pipelines.targets.cpu import CPUTarget

_BYTES_AT_ONCE = 256
"""Bytes that `panel_matvec` reads in a step, from panels that lie apart."""

_WORKGROUPS = 16
"""Enough of them that threads of different speed end together."""

_LANES = 64
_COLUMNS_OF_AVX2 = 8


def choose_panel_matvec(kernel: func.FuncOp, _target: CPUTarget) -> PythonSchedule:
    """As many panels at once as memory streams with, if the number of panels is a multiple.

    Of a single panel, which makes no grid, workgroups have columns.
    """
    panels, columns = kernel.type.results[0].shape[-2:]
    x, weight = _operands(kernel)
    lanes = _divisor(x.shape[-1], _LANES)
    if panels == 1:
        own = _divisor(columns, columns // 2)
        parameters = PanelMatvecParameters(panels=1, rounds=1, lanes=lanes, columns=own)
        return PythonSchedule(panel_matvec, parameters)
    at_once = _BYTES_AT_ONCE * 8 // (columns * weight.element_type.width)
    together = _divisor(panels, min(at_once, panels // 2))
    rounds = _divisor(panels // together, max(panels // together // _WORKGROUPS, 1))
    return PythonSchedule(panel_matvec, PanelMatvecParameters(together, rounds, lanes=lanes))


def choose_panel_matmul(kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule:
    """Two panels, and as many rows as leave registers for a number of each and of both panels."""
    panels = kernel.type.results[0].shape[-2]
    rows = 6 if target.columns == _COLUMNS_OF_AVX2 else 12
    together = _divisor(panels, min(2, panels // 2))
    return PythonSchedule(panel_matmul, PanelMatmulParameters(rows, together))


def _operands(kernel: func.FuncOp) -> list[ir.RankedTensorType]:
    """The types of row and weight of the first product in a kernel."""
    product = next(
        op
        for op in kernel.entry_block
        if op.operation.name == "linalg.generic" and len(op.iterator_types) == len("tpjk")
    )
    return [product.operation.operands[number].type for number in range(2)]


def _divisor(number: int, most: int) -> int:
    """The largest divisor of `number` that is at most `most`."""
    return next(count for count in range(most, 0, -1) if number % count == 0)
