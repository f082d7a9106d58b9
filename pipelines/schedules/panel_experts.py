"""`panel_expert_matvec`, `panel_expert_matmul`: rows times the matrices of experts, in panels."""

from llmc.pipelines.schedules.handles import Handle, each, kernels, result
from llmc.pipelines.schedules.panel_matmul import PanelMatmulParameters, multiply_rows
from llmc.pipelines.schedules.panel_matvec import PanelMatvecParameters, multiply_row


def panel_expert_matvec(payload: Handle, parameters: PanelMatvecParameters) -> None:
    """What `panel_matvec` does, for each row by the matrix of its expert.

    Changes numerics: the order of sums.
    """
    with each(kernels(payload, "panel_expert_matvec")) as kernel:
        multiply_row(kernel, parameters, lambda kernel: result(kernel, ""))


def panel_expert_matmul(payload: Handle, parameters: PanelMatmulParameters) -> None:
    """What `panel_matmul` does, for each expert by its rows.

    Changes numerics: the order of sums.
    """
    with each(kernels(payload, "panel_expert_matmul")) as kernel:
        multiply_rows(kernel, parameters, lambda kernel: result(kernel, ""))
