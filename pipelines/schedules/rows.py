"""`rows`: what is done to each of several rows, as `row` does it to one."""

from dataclasses import dataclass

from llmc.pipelines.schedules.handles import Handle, each, kernels, returned
from llmc.pipelines.schedules.row import compute_row
from llmc.pipelines.schedules.schedule import Parameters
from llmc.pipelines.schedules.verbs import distribute


@dataclass(frozen=True)
class RowsParameters(Parameters):
    """`lanes` elements of a row are computed at once."""

    lanes: int = 16


def rows(payload: Handle, parameters: RowsParameters) -> None:
    """A row for each workgroup. Changes numerics: the order of sums."""
    with each(kernels(payload, "rows")) as kernel:
        compute_row(kernel, distribute(returned(kernel, "tn"), t=1), parameters.lanes)
