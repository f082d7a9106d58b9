"""`panel_matmul`: the product of any number of rows and a matrix that is laid out in panels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from llmc.pipelines.kernels.pair_instructions import PLAIN, InstructionName
from llmc.pipelines.schedules.handles import (
    Handle,
    each,
    either,
    kernels,
    match,
    operations,
    returned,
)
from llmc.pipelines.schedules.instruction_verbs import pair_products
from llmc.pipelines.schedules.schedule import Parameters, share_evenly
from llmc.pipelines.schedules.transform_ops.prefetch import ROWS
from llmc.pipelines.schedules.transform_ops.sum_apart import CHAIN
from llmc.pipelines.schedules.verbs import (
    distribute,
    drop_unit_loops,
    fuse,
    fuse_into,
    generalize,
    inserted,
    keep_in_registers,
    part,
    partial_sums,
    prefetch,
    prefetch_first,
    read_in_place,
    simplify,
    splat_reads,
    tile,
    unroll,
    vectorize,
    widen,
)

_SUMS = 28
"""Vectors of sums that registers hold, where there are most."""


@dataclass(frozen=True)
class PanelMatmulParameters(Parameters):
    """The sums of `rows` rows and `panels` panels are held in registers.

    `unroll` steps of the sum stand in a round, `chain` make a partial sum. Rows of panels are asked
    for `ahead` steps before they are read, the first so many before all else. An `instruction` for
    pairs of bf16 takes two steps of the sum at once, and `chain` steps are then a divisor of all.
    """

    worth_trying: ClassVar[Mapping[str, Sequence[int]]] = {
        "rows": (4, 6, 8, 12, 14),
        "panels": (1, 2, 3, 4),
    }
    rows: int = 12
    panels: int = 2
    unroll: int = 1
    ahead: int = 48
    chain: int = CHAIN
    instruction: InstructionName = PLAIN

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether the panels of a result `[..., P, J]` are shared evenly, and the sums fit."""
        return share_evenly(shape[-2], self.panels) and self.rows * self.panels <= _SUMS

    def micro_kernels(self) -> list[int]:
        """Numbers of rows, each computed as often as it fits into what those before it left."""
        powers = [1 << bit for bit in range(self.rows.bit_length())]
        return [self.rows, *(power for power in reversed(powers) if power < self.rows)]


def panel_matmul(payload: Handle, parameters: PanelMatmulParameters) -> None:
    """Panels for each workgroup, which come from memory once and are read for all rows.

    The loops are rows `t`, of which there is a dynamic number, panels `p`, their columns `j` and
    the sum over `k`. Rows are read where they lie, one number of each at a time, and multiplied
    with a row of each panel. Changes numerics: the order of a sum.
    """
    with each(kernels(payload, "panel_matmul")) as kernel:
        multiply_rows(kernel, parameters)


def multiply_rows(
    kernel: Handle,
    parameters: PanelMatmulParameters,
    computed: Callable[[Handle], Handle] = returned,
) -> None:
    """Distributes the one product of a kernel, or what follows it: what is `computed` there."""
    generalize(kernel)
    result = either(match(computed(kernel), "tpj"), match(computed(kernel), "tpjk", reduced="k"))
    result = distribute(result, p=parameters.panels)
    simplify(kernel)
    for rows in parameters.micro_kernels():
        _, loops = fuse(result, t=rows)
        whole = loops["t"]
        if rows > 1:
            whole, rest = part(whole)
            result = inserted(rest, "tpj")
        simplify(kernel)
        _micro_kernel(whole, parameters)
    simplify(kernel)
    splat_reads(kernel)
    read_in_place(kernel)
    keep_in_registers(kernel)
    prefetch(kernel, ROWS, parameters.ahead)
    prefetch_first(kernel, ROWS, parameters.ahead)
    simplify(kernel)


def _micro_kernel(loop: Handle, parameters: PanelMatmulParameters) -> None:
    """Computes a fixed number of rows.

    While registers hold partial sums, sums are in memory: LLVM spills them around the inner loop.
    """
    with each(match(loop, "tpjk", reduced="k")) as sums:
        product = partial_sums(sums, k=parameters.chain)
        if parameters.instruction == PLAIN:
            _multiply_one_by_one(product, parameters.unroll)
        else:
            pairs, loops = tile(product, k=2)
            pair_products(pairs, parameters.instruction)
            unroll(loops["k"], parameters.unroll)
    drop_unit_loops(loop)
    vectorize(operations(loop, "linalg.generic"))


def _multiply_one_by_one(product: Handle, rounds: int) -> None:
    """Widens a number of each row and a row of each panel, for each step of the sum."""
    x = widen(product, 0, "tk")
    weight = widen(product, 1, "pkj")
    _, loops = tile(product, k=1)
    fuse_into(loops["k"], x)
    fuse_into(loops["k"], weight)
    unroll(loops["k"], rounds)
