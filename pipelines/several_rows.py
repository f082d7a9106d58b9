"""Tensors of several rows, as many as tokens or sequences: their first extent alone is open."""

from torch_mlir import ir


def has_rows(type_: ir.Type) -> bool:
    """Whether tensors of `type_` are several rows."""
    return open_dims(type_) == [0]


def open_dims(type_: ir.Type) -> list[int]:
    """The dimensions of a tensor whose extent its type does not say; none of what is no tensor."""
    if not isinstance(type_, ir.RankedTensorType):
        return []
    return [dim for dim in range(type_.rank) if type_.is_dynamic_dim(dim)]


def one_row(type_: ir.RankedTensorType) -> ir.RankedTensorType:
    """The type of a single one of several rows, with a first extent of 1."""
    return ir.RankedTensorType.get([1, *type_.shape[1:]], type_.element_type)
