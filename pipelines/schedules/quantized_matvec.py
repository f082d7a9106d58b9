"""`quantized_matvec`: one row of activations times a weight in panels of blocks."""

from dataclasses import dataclass

from llmc.pipelines.schedules.schedule import Parameters
from llmc.pipelines.schedules.verbs import (
    Handle,
    drop_unit_loops,
    lower_reductions,
    vectorize_all,
    byte_products,
    distribute,
    each,
    fuse,
    fuse_into,
    keep_in_registers,
    kernels,
    read_in_place,
    returned,
    simplify,
    stage,
    tile,
    vectorize,
)


@dataclass(frozen=True)
class QuantizedMatvecParameters(Parameters):
    """A workgroup computes `panels` panels, `together` of them at a time."""

    panels: int = 4
    together: int = 1
    instruction: str = "vpdpbusd"
    lanes: int = 16


def quantized_matvec(payload: Handle, parameters: QuantizedMatvecParameters) -> None:
    """Every workgroup normalises and quantises the row, then multiplies it by panels."""
    together = parameters.together
    with each(kernels(payload, "quantized_matvec")) as kernel:
        result = distribute(Handle(returned(kernel).value, "tpj"), p=parameters.panels)
        fuse(result, p=together)
        simplify(kernel)
        _, loops = tile(stage(kernel, "sums", "tpjb"), b=1)
        dots = fuse_into(loops["b"], stage(kernel, "dots", "tpbjgi"))
        fuse_into(loops["b"], stage(kernel, "zeros", "tpbj"))
        quantize_block_by_block(kernel)
        simplify(kernel)
        byte_products(dots, parameters.instruction, parameters.lanes)
        drop_unit_loops(kernel)
        simplify(kernel)
        kernel = vectorize_all(kernel)
        simplify(kernel)
        read_in_place(kernel)
        keep_in_registers(kernel)
        simplify(kernel)
        lower_reductions(kernel)


def quantize_block_by_block(kernel: Handle) -> None:
    """Normalises and quantises a row, 32 numbers at a time."""
    tile(stage(kernel, "partial_squares", "tvb"), b=1)
    for name in ("magnitudes", "values", "totals"):
        tile(stage(kernel, name, "tbv"), b=1)
