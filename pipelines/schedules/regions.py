"""`regions`: what `region` does of small tensors, for each of several rows."""

from dataclasses import dataclass

from llmc.pipelines.schedules.handles import Handle, each, kernels
from llmc.pipelines.schedules.schedule import Parameters
from llmc.pipelines.schedules.verbs import generalize, simplify, workgroup_for_each_row


@dataclass(frozen=True)
class RegionsParameters(Parameters):
    """There are none: a workgroup computes a row."""


def regions(payload: Handle, _: RegionsParameters) -> None:
    """A row for each workgroup."""
    with each(kernels(payload, "regions")) as kernel:
        generalize(kernel)
        workgroup_for_each_row(kernel)
        simplify(kernel)
