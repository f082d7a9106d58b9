"""`row`: what is done to one row, element by element and with reductions of it, as in norms."""

from dataclasses import dataclass

from llmc.pipelines.schedules.handles import Handle, each, kernels, match, returned
from llmc.pipelines.schedules.schedule import Parameters
from llmc.pipelines.schedules.verbs import (
    distribute,
    fuse,
    generalize,
    keep_in_registers,
    lower_reductions,
    read_in_place,
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
        fuse(result, n=lanes)
        with each(match(kernel, "n", reduced="n")) as reduction:
            tile_reduction(reduction, n=lanes)
        generalize(kernel)
        simplify(kernel)
        vectorize(match(kernel, "n"), n=lanes)
        vectorize(match(kernel, "n", reduced="n"), n=lanes)
        vectorize(match(kernel, ""))  # what the reductions begin with
        simplify(kernel)
        read_in_place(kernel)
        keep_in_registers(kernel)
        simplify(kernel)
        lower_reductions(kernel)
