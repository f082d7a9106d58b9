"""Which schedule a kernel gets, by its shape and the machine: the first rule that matches."""

from collections.abc import Callable
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import func
from torch_mlir.extras import types as T

from llmc.dialects.divisor import divisor
from llmc.pipelines.errors import fail
from llmc.pipelines.schedules.attention_choices import (
    choose_attention,
    choose_byte_attention,
    choose_decode_attention,
)
from llmc.pipelines.schedules.outlined_choices import (
    choose_elementwise,
    choose_matmul,
    choose_matvec,
    choose_matvec_q4,
    choose_reduction,
)
from llmc.pipelines.schedules.panel_choices import (
    choose_panel_expert_matmul,
    choose_panel_expert_matvec,
    choose_panel_matmul,
    choose_panel_matvec,
    choose_single_panel,
)
from llmc.pipelines.schedules.quantize_rows import QuantizeRowsParameters, quantize_rows
from llmc.pipelines.schedules.quantized_experts import (
    quantized_expert_matmul,
    quantized_expert_matvec,
)
from llmc.pipelines.schedules.quantized_matmul import (
    QuantizedMatmulParameters,
    quantized_matmul,
)
from llmc.pipelines.schedules.quantized_matvec import (
    QuantizedMatvecParameters,
    QuantizedPanelParameters,
    quantized_matvec,
    quantized_panel,
)
from llmc.pipelines.schedules.region import RegionParameters, region
from llmc.pipelines.schedules.regions import RegionsParameters, regions
from llmc.pipelines.schedules.result_extents import last_extents
from llmc.pipelines.schedules.row import RowParameters, row
from llmc.pipelines.schedules.rows import RowsParameters, rows
from llmc.pipelines.schedules.schedule import MOST, PythonSchedule
from llmc.pipelines.schedules.transform_ops.prefetch import FIRST_CACHE, SECOND_CACHE
from llmc.pipelines.schedules.workgroups import panels_of_workgroup
from llmc.pipelines.targets.cpu import STREAM_AHEAD, CPUTarget

_TURNS = {"vpmaddubsw": 2}
"""Workgroups of a core, of a layer that several rows are multiplied by; of other instructions 1.

A core that is held up leaves the other more of them: that is worth what each of them waits for
where products take longer than the weight takes to come.
"""

_STREAMS = 2
"""How many panels are read at once, while memory is asked for as many."""

_FIRST = 512
"""How many values of a row a workgroup asks for before all else.

Then it waits for others, and makes integers of its own row: memory would be idle meanwhile.
"""

_ROWS = 8
"""Rows that a panel is multiplied by at once: what is unpacked of it stays in registers for them.

With two panels at once LLVM moves more to the stack, and a step takes up to 1.25 times as long.
"""

_UNPACKED = 256
"""How many values of a row are unpacked at once for tile registers, at most: the stack is small."""

_LANES = 64
"""Elements of a row that are computed at once, at most: sums in several registers overlap."""

Rule = Callable[[func.FuncOp, CPUTarget], PythonSchedule | None]
"""The schedule of a kernel on a machine; None where the rule does not apply to it."""


def _quantized_matvec(schedule: Callable[..., None]) -> Rule:
    """Panels are read as memory streams best: one by one, or two at once."""

    def rule(kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule | None:
        multiply = target.byte_instruction
        panels, weight = _panels_of_workgroup(kernel, target), _weight(kernel)
        if panels is None or weight is None:
            return None
        is_one_stream = target.reads_in_order
        parameters = QuantizedMatvecParameters(
            panels=panels,
            together=1 if is_one_stream else divisor(panels, _STREAMS),
            ahead=0 if is_one_stream else 1,
            blocks=max(1, STREAM_AHEAD // weight.shape[-1]) if is_one_stream else 0,
            cache=FIRST_CACHE if target.asks_for_first_cache else SECOND_CACHE,
            first=_FIRST // _values(kernel),
            instruction=multiply.name,
            lanes=multiply.lanes,
        )
        return PythonSchedule(schedule, parameters)

    return rule


def _quantized_panel(_kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule:
    """The same for all shapes."""
    multiply = target.byte_instruction
    parameters = QuantizedPanelParameters(multiply.name, multiply.lanes)
    return PythonSchedule(quantized_panel, parameters)


def _quantized_matmul(schedule: Callable[..., None]) -> Rule:
    """Panel by panel, or two of them where tile registers hold what both multiply."""

    def rule(kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule | None:
        multiply = target.byte_instruction
        panels = _panels_of_workgroup(kernel, target, _TURNS.get(multiply.name, 1))
        weight = _weight(kernel)
        if panels is None or weight is None:
            return None
        parameters = QuantizedMatmulParameters(
            panels=panels,
            rows=_ROWS,
            together=divisor(panels, 2) if multiply.name == "tdpbsud" else 1,
            first=_FIRST // _values(kernel),
            instruction=multiply.name,
            lanes=multiply.lanes,
            blocks=divisor(weight.shape[-2], max(1, _UNPACKED // _values(kernel))),
        )
        return PythonSchedule(schedule, parameters)

    return rule


def _quantize_rows(_kernel: func.FuncOp, _target: CPUTarget) -> PythonSchedule:
    return PythonSchedule(quantize_rows, QuantizeRowsParameters())


def _region(_kernel: func.FuncOp, _target: CPUTarget) -> PythonSchedule:
    return PythonSchedule(region, RegionParameters())


def _regions(_kernel: func.FuncOp, _target: CPUTarget) -> PythonSchedule:
    return PythonSchedule(regions, RegionsParameters())


def _rows(kernel: func.FuncOp, _target: CPUTarget) -> PythonSchedule:
    (length,) = last_extents(kernel, 1) or fail(kernel, "a kernel of rows returns rows")
    return PythonSchedule(rows, RowsParameters(divisor(length, _LANES)))


def _row(kernel: func.FuncOp, _target: CPUTarget) -> PythonSchedule:
    """Two workgroups: more would but repeat the reductions more often."""
    (length,) = last_extents(kernel, 1) or [0]
    if length == 0 or kernel.type.results[0].rank != 1:
        fail(kernel, "a kernel of a row returns a tensor of rank 1 and static size")
    half = -(-length // 2)
    lanes = divisor(half, _LANES)
    return PythonSchedule(row, RowParameters(lanes, min(half // lanes, MOST)))


def _panels_of_workgroup(kernel: func.FuncOp, target: CPUTarget, turns: int = 1) -> int | None:
    """Its share of a weight; None where the panels are not for the registers of the target."""
    extents = last_extents(kernel, 2) if len(kernel.type.results) == 1 else None
    weight = _weight(kernel)
    if extents is None or weight is None or extents[1] % target.byte_instruction.lanes:
        return None
    return panels_of_workgroup(extents[0], prod(weight.shape[-3:]), target.cores, turns)


RULES: dict[str, tuple[Rule, ...]] = {
    "attention": (choose_attention,),
    "byte_attention": (choose_byte_attention,),
    "decode_attention": (choose_decode_attention,),
    "elementwise": (choose_elementwise,),
    "matmul": (choose_matmul,),
    "matvec": (choose_matvec,),
    "matvec_q4": (choose_matvec_q4,),
    "panel_expert_matmul": (choose_panel_expert_matmul,),
    "panel_expert_matvec": (choose_panel_expert_matvec,),
    "panel_matmul": (choose_panel_matmul,),
    "panel_matvec": (choose_panel_matvec,),
    "quantize_rows": (_quantize_rows,),
    "quantized_expert_matmul": (_quantized_matmul(quantized_expert_matmul),),
    "quantized_expert_matvec": (_quantized_matvec(quantized_expert_matvec),),
    "quantized_matmul": (_quantized_matmul(quantized_matmul),),
    "quantized_matvec": (_quantized_matvec(quantized_matvec),),
    "quantized_panel": (_quantized_panel,),
    "reduction": (choose_reduction,),
    "single_panel": (choose_single_panel,),
    "region": (_region,),
    "regions": (_regions,),
    "row": (_row,),
    "rows": (_rows,),
}
"""The rules for each kind of kernel, in the order in which they are tried."""


def choose_schedule(kind: str, kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule | None:
    """The schedule of the first rule that applies; None where none does."""
    chosen = (rule(kernel, target) for rule in RULES.get(kind, ()))
    return next((schedule for schedule in chosen if schedule is not None), None)


def _values(kernel: func.FuncOp) -> int:
    """How many values of a row meet a block: `[T, B, G]`, the first of rank 3, are activations."""
    tensors = (type_ for type_ in kernel.type.inputs if isinstance(type_, ir.RankedTensorType))
    return next((type_.shape[2] for type_ in tensors if type_.rank == 3), _UNPACKED)


def _weight(kernel: func.FuncOp) -> ir.RankedTensorType | None:
    """The type of the weight of a layer, i8 `[P, B, S]`, or of a stack of them."""
    i8 = T.i8()
    tensors = (type_ for type_ in kernel.type.inputs if isinstance(type_, ir.RankedTensorType))
    weights = (
        type_
        for type_ in tensors
        if type_.rank >= 3 and type_.element_type == i8 and type_.has_static_shape
    )
    return max(weights, key=lambda type_: prod(type_.shape[-3:]), default=None)
