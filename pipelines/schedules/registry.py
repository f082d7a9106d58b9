"""The schedules of llmc by name."""

import inspect
import re
from collections.abc import Callable

from llmc.pipelines.option_text import describe_options, parse_options
from llmc.pipelines.schedules.attention import attention
from llmc.pipelines.schedules.byte_attention import byte_attention
from llmc.pipelines.schedules.decode_attention import decode_attention
from llmc.pipelines.schedules.elementwise import elementwise
from llmc.pipelines.schedules.matmul import matmul
from llmc.pipelines.schedules.matvec import matvec
from llmc.pipelines.schedules.matvec_q4 import matvec_q4
from llmc.pipelines.schedules.panel_experts import panel_expert_matmul, panel_expert_matvec
from llmc.pipelines.schedules.panel_matmul import panel_matmul
from llmc.pipelines.schedules.panel_matvec import panel_matvec, single_panel
from llmc.pipelines.schedules.quantize_rows import quantize_rows
from llmc.pipelines.schedules.quantized_experts import (
    quantized_expert_matmul,
    quantized_expert_matvec,
)
from llmc.pipelines.schedules.quantized_matmul import quantized_matmul
from llmc.pipelines.schedules.quantized_matvec import quantized_matvec, quantized_panel
from llmc.pipelines.schedules.reduction import reduction
from llmc.pipelines.schedules.region import region
from llmc.pipelines.schedules.regions import regions
from llmc.pipelines.schedules.row import row
from llmc.pipelines.schedules.rows import rows
from llmc.pipelines.schedules.schedule import PythonSchedule
from llmc.runtime.errors import UserError

SCHEDULES: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (
        attention,
        byte_attention,
        decode_attention,
        elementwise,
        matmul,
        matvec,
        matvec_q4,
        panel_expert_matmul,
        panel_expert_matvec,
        panel_matmul,
        panel_matvec,
        quantize_rows,
        quantized_expert_matmul,
        quantized_expert_matvec,
        quantized_matmul,
        quantized_matvec,
        quantized_panel,
        reduction,
        region,
        regions,
        row,
        rows,
        single_panel,
    )
}

_CALL = re.compile(r"\s*(?P<name>[\w-]+)\s*(\{(?P<options>.*)\})?\s*")


def parse_schedule(text: str, others: PythonSchedule | None = None) -> PythonSchedule:
    """The schedule of ours that `text` names, as in `matmul{rows=8 columns=32}`.

    Parameters that it does not name are those of `others`, which is the same schedule, or their
    defaults. UserError for a name that we do not have, or an option that it does not take.
    """
    call = _CALL.fullmatch(text)
    if call is None:
        raise UserError(f"a schedule is NAME or NAME{{OPTIONS}}, not '{text}'")
    name = call["name"]
    if name not in SCHEDULES:
        raise UserError(f"there is no schedule '{name}': there are {', '.join(SCHEDULES)}")
    kind = parameters_of(SCHEDULES[name])
    unnamed = others.parameters if others is not None else None
    parameters: object = parse_options(f"schedule '{name}'", kind, call["options"] or "", unnamed)
    return PythonSchedule(SCHEDULES[name], parameters)


def describe_schedules() -> list[tuple[str, str, str]]:
    """Of each schedule its name, its options with their defaults, and what it does."""
    return [
        (name, describe_options(parameters_of(function)), inspect.getdoc(function) or "")
        for name, function in SCHEDULES.items()
    ]


def parameters_of(function: Callable[..., None]) -> type:
    """The dataclass that a schedule's second argument is annotated with."""
    _, parameters = inspect.signature(function, eval_str=True).parameters.values()
    return parameters.annotation
