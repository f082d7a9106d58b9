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


def choose_matmul(kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule | None:
    """Half as many rows as fit the registers: the rest hold what is multiplied."""
    columns = _REGISTERS_OF_A_ROW * target.columns
    parameters = MatmulParameters(rows=target.rows // 2, columns=columns)
    return PythonSchedule(matmul, parameters) if _fits_vectors(kernel) else None


def choose_matvec(kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule | None:
    """Two registers of each of the rows."""
    parameters = MatvecParameters(lanes=_REGISTERS_OF_A_ROW * target.columns)
    return PythonSchedule(matvec, parameters) if _fits_vectors(kernel) else None


def choose_matvec_q4(kernel: func.FuncOp, _target: CPUTarget) -> PythonSchedule | None:
    """A block after the other: one fills the registers."""
    return PythonSchedule(matvec_q4, MatvecQ4Parameters()) if _fits_vectors(kernel) else None


def choose_elementwise(kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule | None:
    """A register at once."""
    parameters = ElementwiseParameters(lanes=target.columns)
    return PythonSchedule(elementwise, parameters) if _fits_vectors(kernel) else None


def choose_reduction(kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule | None:
    """A register at once; nothing for reductions that cannot be parted, such as a top-k."""
    generics = find(kernel.operation, "linalg.generic")
    if not all(map(_can_be_parted, generics)) or any(map(_has_narrow_maxima, generics)):
        return None
    parameters = ReductionParameters(lanes=target.columns)
    return PythonSchedule(reduction, parameters) if _fits_vectors(kernel) else None


def _fits_vectors(kernel: func.FuncOp) -> bool:
    """Whether vectors hold what a kernel computes, and it reads along the loops alone."""
    operations = find(kernel.operation, "linalg.generic")
    return not any(map(_has_complex_numbers, operations)) and all(map(_reads_by_loops, operations))


def _has_complex_numbers(op: ir.Operation) -> bool:
    tensors = (value.type for value in op.operands if isinstance(value.type, ir.RankedTensorType))
    return any(isinstance(type_.element_type, ir.ComplexType) for type_ in tensors)


def _reads_by_loops(op: ir.Operation) -> bool:
    maps = (ir.AffineMapAttr(each).value for each in ir.ArrayAttr(op.attributes["indexing_maps"]))
    plain = ir.AffineDimExpr, ir.AffineConstantExpr
    return all(isinstance(place, plain) for map_ in maps for place in map_.results)


def _can_be_parted(op: ir.Operation) -> bool:
    """Whether partial results can stand side by side, in a result whose dimensions are loops."""
    if not any("reduction" in str(kind) for kind in op.attributes["iterator_types"]):
        return True
    *_, out = ir.ArrayAttr(op.attributes["indexing_maps"])
    return _combines(op) and ir.AffineMapAttr(out).value.is_projected_permutation


def _has_narrow_maxima(op: ir.Operation) -> bool:
    """Whether `op` compares floats of 16 bits, for vectors of which IREE 3.13 makes no code."""
    maxima = find(op, "arith.maximumf", "arith.maxnumf")
    return any(each.results[0].type.width < 32 for each in maxima)


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
