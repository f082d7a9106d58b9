"""Weights in panels, as which kernels read them."""

from torch_mlir import ir
from torch_mlir.dialects import linalg, tensor

from llmc.dialects.index_notation import constant


def panels_of(weight: ir.Value, columns: int, transposed: bool = False) -> ir.Value:
    """The panels `[..., N/J, K, J]` of `weight [..., N, K]`, or `[..., K, N]` where transposed.

    J is `columns`. Where that does not divide N the last panel is padded with zeros.
    """
    *experts, outputs, inputs = range(weight.type.rank)
    if transposed:
        outputs, inputs = inputs, outputs
    shape, element = weight.type.shape, weight.type.element_type
    count = shape[outputs]
    panels = -(-count // columns)
    zero = 0.0 if isinstance(element, ir.FloatType) else 0
    return linalg.pack(
        weight,
        tensor.empty([*(shape[dim] for dim in experts), panels, shape[inputs], columns], element),
        [outputs],
        [columns],
        padding_value=constant(zero, element) if count % columns else None,
        outer_dims_perm=[*experts, outputs, inputs],
    )
