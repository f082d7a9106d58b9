"""`quantize_rows`: rows of activations normalised and rounded to integers."""

from dataclasses import dataclass

from llmc.pipelines.schedules.handles import Handle, each, kernels, stage
from llmc.pipelines.schedules.quantized_matvec import into_registers, quantize_block_by_block
from llmc.pipelines.schedules.schedule import Parameters
from llmc.pipelines.schedules.verbs import compute_once, fuse_into, workgroups


@dataclass(frozen=True)
class QuantizeRowsParameters(Parameters):
    """There are none: a workgroup computes a row."""


_BEFORE = (
    ("totals", "tbv"),
    ("values", "tbv"),
    ("scales", "tb"),
    ("magnitudes", "tbv"),
    ("norms", "t"),
    ("squares", "tv"),
    ("partial_squares", "tvb"),
)
"""What the shares are computed from, the last first."""


def quantize_rows(payload: Handle, _: QuantizeRowsParameters) -> None:
    """Row by row, a block at a time. Changes numerics: the order of a norm's sum."""
    with each(kernels(payload, "quantize_rows")) as kernel:
        grid = workgroups(stage(kernel, "shares", "tb"), t=1)
        for name, loops in _BEFORE:
            for part in (name, f"{name}_start"):
                with each(stage(kernel, part, loops)) as producer:
                    fuse_into(grid, producer)
                # Else each that reads it has one of its own, which reads others of its own.
                compute_once(kernel)
        quantize_block_by_block(kernel)
        into_registers(kernel)
