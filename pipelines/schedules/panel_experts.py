"""`panel_expert_matvec`: rows times the matrices of their experts, laid out in panels."""

from llmc.pipelines.schedules.handles import Handle, each, kernels, result
from llmc.pipelines.schedules.panel_matvec import PanelMatvecParameters, multiply_row
from llmc.pipelines.schedules.prefetch import ROWS
from llmc.pipelines.schedules.verbs import prefetch_first, simplify


def panel_expert_matvec(payload: Handle, parameters: PanelMatvecParameters) -> None:
    """What `panel_matvec` does, for each row by the matrix of its expert.

    Changes numerics: the order of sums.
    """
    with each(kernels(payload, "panel_expert_matvec")) as kernel:
        multiply_row(kernel, parameters, lambda kernel: result(kernel, ""))
        prefetch_first(kernel, ROWS, parameters.ahead)
        simplify(kernel)
