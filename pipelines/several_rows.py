"""Tensors of several rows, as many as tokens or sequences: their first extent alone is open."""

from torch_mlir import ir


def has_rows(type_: ir.Type) -> bool:
    """Whether tensors of `type_` are several rows."""
    if not isinstance(type_, ir.RankedTensorType) or not type_.rank:
        return False
    return type_.is_dynamic_dim(0) and not any(map(type_.is_dynamic_dim, range(1, type_.rank)))


def one_row(type_: ir.RankedTensorType) -> ir.RankedTensorType:
    """The type of a single one of several rows, with a first extent of 1."""
    return ir.RankedTensorType.get([1, *type_.shape[1:]], type_.element_type)
