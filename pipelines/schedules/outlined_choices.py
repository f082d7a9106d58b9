"""Parameters of the schedules for what `outline-kernels` makes, by the registers of a CPU."""

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.pipelines.schedules.elementwise import ElementwiseParameters, elementwise
from llmc.pipelines.schedules.matmul import MatmulParameters, matmul
from llmc.pipelines.schedules.matvec import MatvecParameters, matvec
from llmc.pipelines.schedules.matvec_q4 import MatvecQ4Parameters, matvec_q4
from llmc.pipelines.schedules.reduction import ReductionParameters, reduction
from llmc.pipelines.schedules.schedule import PythonSchedule
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.pipelines.walks import find

_REGISTERS_OF_A_ROW = 2
"""Registers that hold the sums of a row: a multiplication and addition takes 4 cycles, of which a
core begins two in each, and eight sums keep it busy.
"""

_COMBINERS = {f"arith.{name}" for name in ("addf", "mulf", "maximumf", "maxnumf")}
"""What partial results of a reduction can be combined by: of floats, for others are searches."""


def choose_matmul(_kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule:
    """Half as many rows as fit the registers: the rest hold what is multiplied."""
    columns = _REGISTERS_OF_A_ROW * target.columns
    return PythonSchedule(matmul, MatmulParameters(rows=target.rows // 2, columns=columns))


def choose_matvec(_kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule:
    """Two registers of each of the rows."""
    return PythonSchedule(matvec, MatvecParameters(lanes=_REGISTERS_OF_A_ROW * target.columns))


def choose_matvec_q4(_kernel: func.FuncOp, _target: CPUTarget) -> PythonSchedule:
    """A block after the other: one fills the registers."""
    return PythonSchedule(matvec_q4, MatvecQ4Parameters())


def choose_elementwise(kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule | None:
    """A register at once; nothing for what vectors cannot hold."""
    if not all(map(_fits_vectors, find(kernel.operation, "linalg.generic"))):
        return None
    return PythonSchedule(elementwise, ElementwiseParameters(lanes=target.columns))


def choose_reduction(kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule | None:
    """A register at once; nothing for reductions that cannot be parted, such as a top-k."""
    operations = find(kernel.operation, "linalg.generic")
    if not all(_fits_vectors(op) and _can_be_parted(op) for op in operations):
        return None
    return PythonSchedule(reduction, ReductionParameters(lanes=target.columns))


def _fits_vectors(op: ir.Operation) -> bool:
    elements = (value.type.element_type for value in op.operands if _is_tensor(value))
    return not any(isinstance(element, ir.ComplexType) for element in elements)


def _can_be_parted(op: ir.Operation) -> bool:
    """Whether partial results can stand side by side, in a result whose dimensions are loops."""
    if not any("reduction" in str(kind) for kind in op.attributes["iterator_types"]):
        return True
    *_, out = ir.ArrayAttr(op.attributes["indexing_maps"])
    return _combines(op) and ir.AffineMapAttr(out).value.is_projected_permutation


def _combines(op: ir.Operation) -> bool:
    """Whether `op` has one result, of a value and what there was of it before."""
    body = op.regions[0].blocks[0]
    *_, before = body.arguments
    *_, end = body
    maker = end.operands[0].owner
    return (
        len(end.operands) == 1
        and isinstance(maker, ir.Operation | ir.OpView)
        and maker.operation.name in _COMBINERS
        and before in list(maker.operation.operands)
    )


def _is_tensor(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType)
