"""`panel_matvec`: the product of one row and a matrix that is laid out in panels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar

from llmc.pipelines.option_text import Range
from llmc.pipelines.schedules.handles import (
    Handle,
    each,
    either,
    kernels,
    match,
    operations,
    returned,
)
from llmc.pipelines.schedules.schedule import MOST, Parameters, share_evenly
from llmc.pipelines.schedules.transform_ops.prefetch import ROWS
from llmc.pipelines.schedules.transform_ops.sum_apart import CHAIN
from llmc.pipelines.schedules.verbs import (
    add_rows,
    distribute,
    drop_unit_loops,
    fuse,
    fuse_into,
    generalize,
    interchange,
    keep_in_registers,
    lower_reductions,
    partial_sums,
    prefetch,
    prefetch_first,
    read_in_place,
    simplify,
    splat_reads,
    tile,
    tile_reduction,
    unroll,
    vectorize,
    widen,
)


@dataclass(frozen=True)
class PanelMatvecParameters(Parameters):
    """`panels` panels are read at once, so that memory streams, `rounds` times by a workgroup.

    A column has `sums` sums, which steps are added to by turns, so that none waits for the last;
    `chain` steps make a partial sum of each, `unroll` of each stand in a round. Rows of panels are
    asked for `ahead` steps before they are read, the first so many before all else. The row is
    normalised `lanes` numbers at a time. Panels are a multiple of `panels` * `rounds`, numbers in a
    row of `lanes` and, where there are several sums, of `chain` * `sums`. A workgroup has `columns`
    columns of its panels, or with 0 all: a single panel is shared so.
    """

    worth_trying: ClassVar[Mapping[str, Sequence[int]]] = {
        "panels": (1, 4, 8),
        "rounds": (1, 4, 16),
        "ahead": (32, 128),
    }
    panels: int = 4
    rounds: int = 2
    unroll: int = 2
    ahead: int = 32
    lanes: int = 16
    chain: int = CHAIN
    sums: int = 1
    columns: Annotated[int, Range(0, MOST)] = 0

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether the panels of a result `[..., P, J]` are shared evenly."""
        return share_evenly(shape[-2], self.panels * self.rounds)


def panel_matvec(payload: Handle, parameters: PanelMatvecParameters) -> None:
    """Some panels for each workgroup, each of which is read once, from end to end.

    The loops are the one row `t`, panels `p`, their columns `j` and the sum over `k`. Where there
    is a norm of the row, every workgroup computes it. Changes numerics: the order of sums.
    """
    with each(kernels(payload, "panel_matvec")) as kernel:
        multiply_row(kernel, parameters)


@dataclass(frozen=True)
class SinglePanelParameters(Parameters):
    """`unroll`, `ahead`, `chain` and `sums` are those of `panel_matvec`."""

    unroll: int = 2
    ahead: int = 32
    chain: int = CHAIN
    sums: int = 1


def single_panel(payload: Handle, parameters: SinglePanelParameters) -> None:
    """A panel for each workgroup: of a kernel of which `fuse-screened-argmax` runs some.

    Changes numerics: the order of sums, which is that of `panel_matvec`.
    """
    alone = PanelMatvecParameters(panels=1, rounds=1, **asdict(parameters))
    with each(kernels(payload, "single_panel")) as kernel:
        _multiply_panels(kernel, alone, returned)


def multiply_row(
    kernel: Handle,
    parameters: PanelMatvecParameters,
    computed: Callable[[Handle], Handle] = returned,
) -> None:
    """Distributes the one product of a kernel, or what follows it: what is `computed` there."""
    _multiply_panels(kernel, parameters, computed)
    prefetch_first(kernel, ROWS, parameters.ahead)
    simplify(kernel)


def _multiply_panels(
    kernel: Handle, parameters: PanelMatvecParameters, computed: Callable[[Handle], Handle]
) -> None:
    panels = parameters.panels
    generalize(kernel)
    _normalise(kernel, parameters.lanes)
    result = either(match(computed(kernel), "tpj"), match(computed(kernel), "tpjk", reduced="k"))
    result = distribute(result, p=panels * parameters.rounds, j=parameters.columns)
    simplify(kernel)
    fuse(result, p=panels)
    with each(match(kernel, "tpjk", reduced="k")) as sums:
        product = partial_sums(sums, k=parameters.chain * parameters.sums)
        product = interchange(product, "tpkj")
        weight = widen(product, 1, "pkj")
        loops = tile_reduction(product, k=parameters.sums)
        fuse_into(loops["k"], weight)
        unroll(loops["k"], parameters.unroll)
    generalize(kernel)
    # Lanes are columns here, too, where the sums of a column are added up.
    with each(match(kernel, "tpjk", reduced="k")) as sums:
        interchange(sums, "tpkj")
    drop_unit_loops(kernel)
    vectorize(operations(kernel, "linalg.generic"))
    simplify(kernel)
    keep_in_registers(kernel)
    splat_reads(kernel)
    read_in_place(kernel)
    add_rows(kernel)
    lower_reductions(kernel)
    prefetch(kernel, ROWS, parameters.ahead)
    simplify(kernel)


def _normalise(kernel: Handle, lanes: int) -> None:
    """Sums squares in the lanes of a vector, and scales the row a vector at a time."""
    with each(match(kernel, "tk")) as scaling:
        tile(scaling, k=lanes)
    with each(match(kernel, "tk", reduced="k")) as squares:
        tile_reduction(squares, k=lanes)
    generalize(kernel)
