"""How many bytes a tensor or buffer takes."""

from math import prod

from torch_mlir import ir

_INDEX_BYTES = 8


def bytes_of(type_: ir.RankedTensorType | ir.MemRefType) -> int:
    """The bytes of a tensor or buffer, as if each of its dynamic extents were 1."""
    static = (extent for dim, extent in enumerate(type_.shape) if not type_.is_dynamic_dim(dim))
    return prod(static) * bytes_of_element(type_.element_type)


def bytes_of_element(type_: ir.Type) -> int:
    """The bytes of a number of `type_`."""
    if isinstance(type_, ir.ComplexType):
        return 2 * bytes_of_element(type_.element_type)
    return _INDEX_BYTES if isinstance(type_, ir.IndexType) else -(-type_.width // 8)
