"""`region`: what is computed of small tensors between kernels, as when heads are put together."""

from dataclasses import dataclass

from llmc.pipelines.schedules.handles import Handle, each, kernels
from llmc.pipelines.schedules.schedule import Parameters
from llmc.pipelines.schedules.verbs import generalize, one_workgroup, simplify


@dataclass(frozen=True)
class RegionParameters(Parameters):
    """There are none: a workgroup computes all."""


def region(payload: Handle, _: RegionParameters) -> None:
    """One workgroup: several would take longer to begin than the one to end."""
    with each(kernels(payload, "region")) as kernel:
        generalize(kernel)
        simplify(kernel)
        one_workgroup(kernel)
