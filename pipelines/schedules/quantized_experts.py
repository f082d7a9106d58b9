"""`quantized_expert_matvec`, `quantized_expert_matmul`: rows times the matrices of experts."""

from llmc.pipelines.schedules.handles import Handle, each, kernels
from llmc.pipelines.schedules.quantized_matmul import QuantizedMatmulParameters, multiply_rows
from llmc.pipelines.schedules.quantized_matvec import QuantizedMatvecParameters, multiply_row


def quantized_expert_matvec(payload: Handle, parameters: QuantizedMatvecParameters) -> None:
    """What `quantized_matvec` does, for each row by the matrix of its expert.

    Changes numerics: the order of sums.
    """
    with each(kernels(payload, "quantized_expert_matvec")) as kernel:
        multiply_row(kernel, parameters)


def quantized_expert_matmul(payload: Handle, parameters: QuantizedMatmulParameters) -> None:
    """What `quantized_matmul` does, for each expert by its rows.

    Changes numerics: the order of sums.
    """
    with each(kernels(payload, "quantized_expert_matmul")) as kernel:
        multiply_rows(kernel, parameters)
