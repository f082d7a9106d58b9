"""`quantized_matvec`: one row of activations times a weight in panels of blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from llmc.pipelines.kernels.byte_instructions import InstructionName
from llmc.pipelines.option_text import Range
from llmc.pipelines.schedules.handles import Handle, around, each, kernels, match, result, stage
from llmc.pipelines.schedules.instruction_verbs import byte_products
from llmc.pipelines.schedules.schedule import MOST, Parameters, share_evenly
from llmc.pipelines.schedules.transform_ops.prefetch import (
    FIRST_CACHE,
    PANELS,
    ROWS,
    SECOND_CACHE,
)
from llmc.pipelines.schedules.verbs import (
    distribute,
    drop_unit_loops,
    fuse,
    fuse_into,
    keep_in_registers,
    lower_reductions,
    prefetch,
    prefetch_first,
    read_in_place,
    simplify,
    tile,
    vectorize_all,
    vectorize_late,
)

STRANDS = (0, 1)
"""A kernel has one product, or two of which it makes one."""


@dataclass(frozen=True)
class QuantizedMatvecParameters(Parameters):
    """A workgroup computes `panels` panels, `together` of them at a time.

    Memory is asked for panels that come `ahead` rounds later, for what comes `blocks` blocks later,
    be it of the next panel, and before all else for the `first` blocks; 0 asks for none. The blocks
    are wanted in `cache`, as memref.prefetch numbers them. `instruction` multiplies bytes, `lanes`
    times four at once.
    """

    worth_trying: ClassVar[Mapping[str, Sequence[int]]] = {
        "panels": (1, 2, 3, 4, 6, 8, 12, 16, 24, 48, 96),
        "together": (1, 2, 4),
        "ahead": (0, 1),
        "blocks": (0, 2, 8, 16, 32),
        "cache": (SECOND_CACHE, FIRST_CACHE),
    }
    panels: int = 4
    together: int = 2
    ahead: Annotated[int, Range(0, MOST)] = 1
    blocks: Annotated[int, Range(0, MOST)] = 0
    cache: Annotated[int, Range(SECOND_CACHE, FIRST_CACHE)] = SECOND_CACHE
    first: Annotated[int, Range(0, MOST)] = 0
    instruction: InstructionName = "plain"
    lanes: int = 4

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether the panels of a result `[T, P, J]` go into equal parts, enough of them.

        And whether, where no blocks are asked for, others do not say the same by another cache.
        """
        parts = share_evenly(shape[-2], self.panels) and self.panels % self.together == 0
        return parts and (self.blocks > 0 or self.cache == SECOND_CACHE)


@dataclass(frozen=True)
class QuantizedPanelParameters(Parameters):
    """A workgroup computes one panel for one row. Memory is asked for no other: any may be next.

    `instruction` multiplies bytes, `lanes` times four at once.
    """

    instruction: InstructionName = "plain"
    lanes: int = 4


def quantized_matvec(payload: Handle, parameters: QuantizedMatvecParameters) -> None:
    """Every workgroup normalises and quantises the row, then multiplies it by panels.

    Changes numerics: the order of sums.
    """
    with each(kernels(payload, "quantized_matvec")) as kernel:
        multiply_row(kernel, parameters)


def quantized_panel(payload: Handle, parameters: QuantizedPanelParameters) -> None:
    """As `quantized_matvec`, for a kernel of which `fuse-screened-argmax` runs some workgroups.

    Changes numerics: the order of sums.
    """
    with each(kernels(payload, "quantized_panel")) as kernel:
        distribute(result(kernel, "tpj"), t=1, p=1)
        simplify(kernel)
        multiply_blocks(kernel, parameters)


def multiply_row(kernel: Handle, parameters: QuantizedMatvecParameters) -> None:
    """Distributes the one product of a kernel over workgroups."""
    fuse(distribute(result(kernel, "tpj"), p=parameters.panels), p=parameters.together)
    simplify(kernel)
    kernel = multiply_blocks(kernel, parameters)
    for dimension, ahead, cache in (
        (PANELS, parameters.ahead * parameters.together, SECOND_CACHE),
        (ROWS, parameters.blocks, parameters.cache),
    ):
        if ahead:
            prefetch(kernel, dimension, ahead, cache)
            simplify(kernel)
    if parameters.first:
        prefetch_first(kernel, ROWS, parameters.first)
        simplify(kernel)


def multiply_blocks(
    kernel: Handle, parameters: QuantizedMatvecParameters | QuantizedPanelParameters
) -> Handle:
    """Multiplies one row, block by block, in registers."""
    sum_up_blocks(kernel, parameters.instruction, parameters.lanes)
    quantize_block_by_block(kernel)
    return into_registers(kernel)


def sum_up_blocks(scope: Handle, instruction: InstructionName, lanes: int) -> None:
    """Makes vectors of what is multiplied in `scope`, block by block."""
    for strand in STRANDS:
        with each(stage(scope, f"sums{strand}", "tpjb")) as sums:
            step, loops = tile(sums, b=1)
            near = around(loops["b"])
            dots = fuse_into(loops["b"], stage(near, f"dots{strand}", "tpbjgi"))
            byte_products(dots, instruction, lanes)
            vectorize_late(step)


def quantize_block_by_block(kernel: Handle) -> None:
    """Normalises and quantises rows, a block at a time."""
    tile(stage(kernel, "partial_squares", "tvb"), b=1)
    for name in ("magnitudes", "values", "totals"):
        tile(stage(kernel, name, "tbv"), b=1)
    for name in ("scales", "shares"):
        tile(stage(kernel, name, "tb"), b=1)


def into_registers(kernel: Handle) -> Handle:
    """Makes vectors of a kernel's tiles, which stay in registers over the rounds of loops."""
    simplify(kernel)
    with each(match(kernel, "tpj")) as tile_:
        vectorize_late(tile_)
    simplify(kernel)
    keep_in_registers(kernel)
    drop_unit_loops(kernel)
    simplify(kernel)
    kernel = vectorize_all(kernel)
    simplify(kernel)
    read_in_place(kernel)
    keep_in_registers(kernel)
    simplify(kernel)
    lower_reductions(kernel)
    return kernel
