"""Edits of attributes: drop them, or leave less of them."""

from functools import partial

from torch_mlir import ir

from llmc.dialects import Llmc
from llmc.pipelines.reduction.strategy import Edit
from llmc.pipelines.walks import walk

_OPTIONAL = {"arg_attrs", "res_attrs", "sym_visibility"}


def drop_attributes(module: ir.Module) -> list[Edit]:
    """Drops attributes that an operation can do without."""
    return [
        partial(_drop, op, name)
        for op in walk(module.operation)
        for name in op.attributes
        if name in _OPTIONAL or _is_free(op, name)
    ]


def shorten_lists(module: ir.Module) -> list[Edit]:
    """Leaves the first element of lists, as of the sources of parameters."""
    return [
        partial(_shorten, op, name)
        for op in walk(module.operation)
        for name in op.attributes
        if _is_free(op, name) and isinstance(op.attributes[name], ir.ArrayAttr)
    ]


def zero_constants(module: ir.Module) -> list[Edit]:
    """Leaves zeros of constant tensors."""
    return [
        partial(_zero, op, name)
        for op in walk(module.operation)
        for name in op.attributes
        if isinstance(op.attributes[name], ir.DenseElementsAttr)
    ]


def _is_free(op: ir.Operation, name: str) -> bool:
    """Whether the attribute may be changed without a check.

    MLIR's own operations, and the verifiers that print them, crash without some of theirs.
    """
    dialect, _, _ = op.name.partition(".")
    ours = dialect == Llmc.DIALECT_NAMESPACE and not name.endswith("SegmentSizes")
    return "." in name or ours or not op.context.is_registered_operation(op.name)


def _drop(op: ir.Operation, name: str) -> None:
    del op.attributes[name]


def _shorten(op: ir.Operation, name: str) -> None:
    op.attributes[name] = ir.ArrayAttr.get(list(op.attributes[name])[:1])


def _zero(op: ir.Operation, name: str) -> None:
    type_ = op.attributes[name].type
    element = type_.element_type
    if isinstance(element, ir.FloatType):
        zero = ir.FloatAttr.get(element, 0.0)
    elif isinstance(element, ir.IntegerType | ir.IndexType):
        zero = ir.IntegerAttr.get(element, 0)
    else:
        return
    op.attributes[name] = ir.DenseElementsAttr.get_splat(type_, zero)
