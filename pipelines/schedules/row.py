"""`row`: what is done to one row, element by element and with reductions of it, as in norms."""

from dataclasses import dataclass

from llmc.pipelines.schedules.handles import Handle, each, kernels, match, returned
from llmc.pipelines.schedules.schedule import Parameters
from llmc.pipelines.schedules.verbs import (
    distribute,
    fuse,
    generalize,
    hold_sums,
    simplify,
    tile_reduction,
    vectorize,
)


@dataclass(frozen=True)
class RowParameters(Parameters):
    """`lanes` elements are computed at once, `rounds` times by a workgroup.

    The row is longer than that: one workgroup is none.
    """

    lanes: int = 16
    rounds: int = 1


def row(payload: Handle, parameters: RowParameters) -> None:
    """A part of the row for each workgroup, each of which does all reductions.

    Changes numerics: the order of sums.
    """
    lanes = parameters.lanes
    with each(kernels(payload, "row")) as kernel:
        result = distribute(returned(kernel, "n"), n=lanes * parameters.rounds)
        compute_row(kernel, result, lanes)


def compute_row(kernel: Handle, result: Handle, lanes: int) -> None:
    """Computes what a workgroup has of `result`, `lanes` elements at once, and all reductions.

    The last of the result's loops is over the elements; others, of which a workgroup has one round,
    are before it.
    """
    loops = result.loops
    one = dict.fromkeys(loops[:-1], 1)
    fuse(result, **{loops[-1]: lanes})
    with each(match(kernel, loops, reduced=loops[-1])) as reduction:
        tile_reduction(reduction, **{loops[-1]: lanes})
    generalize(kernel)
    simplify(kernel)
    vectorize(match(kernel, loops), **one, **{loops[-1]: lanes})
    vectorize(match(kernel, loops, reduced=loops[-1]), **one, **{loops[-1]: lanes})
    vectorize(match(kernel, loops[:-1]), **one)  # what the reductions begin with
    hold_sums(kernel)
