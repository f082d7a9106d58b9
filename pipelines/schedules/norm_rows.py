"""`norm_rows`: norms of many rows, with their reductions."""

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
class NormRowsParameters(Parameters):
    """`lanes` elements of a row are computed at once."""

    lanes: int = 16


def norm_rows(payload: Handle, parameters: NormRowsParameters) -> None:
    """A row for each workgroup. Changes numerics: the order of sums."""
    lanes = parameters.lanes
    with each(kernels(payload, "norm_rows")) as kernel:
        result = distribute(returned(kernel, "tn"), t=1)
        fuse(result, n=lanes)
        with each(match(kernel, "tn", reduced="n")) as reduction:
            tile_reduction(reduction, n=lanes)
        generalize(kernel)
        simplify(kernel)
        vectorize(match(kernel, "tn"), t=1, n=lanes)
        vectorize(match(kernel, "tn", reduced="n"), t=1, n=lanes)
        vectorize(match(kernel, "t"), t=1)  # what the reductions begin with
        simplify(kernel)
        read_in_place(kernel)
        keep_in_registers(kernel)
        simplify(kernel)
        lower_reductions(kernel)
