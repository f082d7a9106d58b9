"""`norm_rows`: norms of many rows, with their reductions."""

from dataclasses import dataclass

from llmc.pipelines.schedules.handles import Handle, each, kernels, returned
from llmc.pipelines.schedules.row import compute_row
from llmc.pipelines.schedules.schedule import Parameters
from llmc.pipelines.schedules.verbs import distribute


@dataclass(frozen=True)
class NormRowsParameters(Parameters):
    """`lanes` elements of a row are computed at once."""

    lanes: int = 16


def norm_rows(payload: Handle, parameters: NormRowsParameters) -> None:
    """A row for each workgroup. Changes numerics: the order of sums."""
    with each(kernels(payload, "norm_rows")) as kernel:
        compute_row(kernel, distribute(returned(kernel, "tn"), t=1), parameters.lanes)
