"""`quantized_matmul`: many rows of activations times a weight in panels of blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from llmc.pipelines.kernels.byte_instructions import InstructionName
from llmc.pipelines.option_text import Range
from llmc.pipelines.schedules.handles import Handle, around, each, kernels, result, stage
from llmc.pipelines.schedules.instruction_verbs import (
    tile_products,
    unpack_words,
    use_tile_registers,
)
from llmc.pipelines.schedules.quantized_matvec import STRANDS, into_registers, sum_up_blocks
from llmc.pipelines.schedules.schedule import MOST, Parameters, share_evenly
from llmc.pipelines.schedules.transform_ops.prefetch import PANELS
from llmc.pipelines.schedules.transform_ops.prefetch import ROWS as BLOCKS
from llmc.pipelines.schedules.transform_ops.tile_registers import ROWS
from llmc.pipelines.schedules.verbs import (
    distribute,
    expand_affine,
    fuse,
    fuse_into,
    peel,
    prefetch,
    prefetch_first,
    simplify,
    tile,
    vectorize_late,
)

_SUMS = 16
"""Vectors of sums that registers hold, where there are most."""


@dataclass(frozen=True)
class QuantizedMatmulParameters(Parameters):
    """A workgroup computes `panels` panels for all rows, `rows` times `together` of them at a time.

    Rows that are left go by half as many, and so on to one. Memory is asked for the `first` blocks
    before all else, if that is not 0, and then for panels that come next. `instruction` multiplies
    bytes, `lanes` times four at once; `tdpbsud` multiplies 16 rows, and leaves what is fewer to
    `vpdpbusd`. It has `blocks` blocks unpacked before, since a tile that was written just now is
    slow to load.
    """

    worth_trying: ClassVar[Mapping[str, Sequence[int]]] = {
        "panels": (1, 2, 4, 6, 12, 24),
        "rows": (4, 8, 16),
        "together": (1, 2),
    }
    panels: int = 4
    rows: int = 8
    together: int = 1
    first: Annotated[int, Range(0, MOST)] = 0
    instruction: InstructionName = "plain"
    lanes: int = 4
    blocks: int = 1

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether the panels of a result `[T, P, J]` are shared evenly, and registers hold sums."""
        parts = share_evenly(shape[-2], self.panels) and self.panels % self.together == 0
        return parts and self.rows * self.together <= _SUMS


def quantized_matmul(payload: Handle, parameters: QuantizedMatmulParameters) -> None:
    """Tiles of rows and panels in registers, over the blocks.

    Changes numerics: the order of sums.
    """
    with each(kernels(payload, "quantized_matmul")) as kernel:
        multiply_rows(kernel, parameters)


def multiply_rows(kernel: Handle, parameters: QuantizedMatmulParameters) -> None:
    """Distributes the one product of a kernel over workgroups."""
    has_tiles = parameters.instruction == "tdpbsud"
    own = distribute(result(kernel, "tpj"), p=parameters.panels)
    if has_tiles:
        use_tile_registers(around(own))
    fuse(own, p=parameters.together)
    simplify(kernel)
    if has_tiles:
        _multiply_tiles(kernel, parameters)
    else:
        _split_rows(kernel, kernel, parameters.rows)
        sum_up_blocks(kernel, parameters.instruction, parameters.lanes)
    kernel = into_registers(kernel)
    prefetch(kernel, PANELS, parameters.together)
    simplify(kernel)
    if parameters.first:
        prefetch_first(kernel, BLOCKS, parameters.first)
        simplify(kernel)


def _multiply_tiles(kernel: Handle, parameters: QuantizedMatmulParameters) -> None:
    """Multiplies as many rows as tiles have, panel by panel, and what is left without tiles."""
    _, loops = fuse(result(kernel, "tpj"), t=ROWS)
    left = peel(loops["t"])
    simplify(kernel)
    with each(left) as rest:
        expand_affine(rest)
        _split_rows(kernel, rest, parameters.rows)
        sum_up_blocks(rest, parameters.instruction, parameters.lanes)
        with each(result(rest, "tpj")) as tile_:
            vectorize_late(tile_)
    fuse(result(kernel, "tpj"), p=1)
    simplify(kernel)
    for strand in STRANDS:
        with each(stage(kernel, f"sums{strand}", "tpjb")) as sums:
            sums, loops = tile(sums, b=parameters.blocks)
            near = around(loops["b"])
            dots = fuse_into(loops["b"], stage(near, f"dots{strand}", "tpbjgi"))
            tile_products(unpack_words(dots, "tpbjfgi"))
            step, _ = tile(sums, b=1)
            vectorize_late(step)


def _split_rows(kernel: Handle, scope: Handle, rows: int) -> None:
    """Parts the rows in `scope` into tiles of `rows`, those left into halves of that."""
    _, loops = fuse(result(scope, "tpj"), t=rows)
    left = peel(loops["t"])
    simplify(kernel)
    if rows > 1:
        with each(left) as rest:
            expand_affine(rest)
            _split_rows(kernel, rest, rows // 2)
