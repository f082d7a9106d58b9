"""What the verifiers of the llmc dialect share: checks that name the operand and its fault."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.block_types import block_format, storage_format
from llmc.dialects.blocks import BlockFormat
from llmc.dialects.cache_cells import CellFormat
from llmc.dialects.declarations import check_declared
from llmc.dialects.mismatch import MismatchError, require

_LARGEST_COUNT = 2**31 - 1  # what kernels hold in an i32
_FLOATS = {
    "f16": (2.0**-14, (2 - 2.0**-10) * 2.0**15),
    "bf16": (2.0**-126, (2 - 2.0**-7) * 2.0**127),
    "f32": (2.0**-126, (2 - 2.0**-23) * 2.0**127),
    "f64": (2.0**-1022, (2 - 2.0**-52) * 2.0**1023),
}
"""The floats of tensors: the least and the largest magnitude of each, but for subnormal ones."""
_INTEGERS = ("i8", "i16", "i32", "i64")

_Format = TypeVar("_Format", bound=BlockFormat | CellFormat)

__all__ = ["MismatchError", "require"]


def verified(check: Callable[[Any], None]) -> Callable[[Any], bool]:
    """Turns a check that raises MismatchError into an MLIR verifier that emits a diagnostic."""

    @wraps(check)
    def verify_invariants(op: Any) -> bool:
        try:
            check_declared(op)
            with op.location:
                check(op)
        except MismatchError as mismatch:
            title = f"{_title(op, mismatch.name)} " if mismatch.name else ""
            op.location.emit_error(f"'{op.OPERATION_NAME}' op {title}{mismatch}")
            return False
        return True

    return verify_invariants


def tensor_of(value: ir.Value, name: str, rank: int | None = None, at_least: int = 0) -> list[Any]:
    """The shape of tensor `name`, an operand or a result; None where dynamic."""
    if not isinstance(value.type, ir.RankedTensorType):
        raise MismatchError(f"must be a ranked tensor, but is {value.type}", name)
    if rank is not None and value.type.rank != rank:
        raise MismatchError(f"must have rank {rank}, but is {value.type}", name)
    if value.type.rank < at_least:
        raise MismatchError(f"must have rank {at_least} or more, but is {value.type}", name)
    type_ = value.type
    return [None if type_.is_dynamic_dim(d) else type_.get_dim_size(d) for d in range(type_.rank)]


def floats(name: str, value: ir.Value, widened_to: ir.Value | None = None) -> None:
    """Tensor `name` holds floats: of the type of `widened_to` or narrower ones, where given."""
    element = value.type.element_type
    if str(element) not in _FLOATS:
        raise MismatchError(f"must hold floats ({', '.join(_FLOATS)}), but is {value.type}", name)
    wide = element if widened_to is None else widened_to.type.element_type
    if element != wide and element.width >= wide.width:
        raise MismatchError(f"must hold {wide} or narrower, but is {value.type}", name)


def integers(name: str, value: ir.Value) -> None:
    """Tensor `name` holds integers, which are signed."""
    if str(value.type.element_type) not in _INTEGERS:
        fault = f"must hold integers ({', '.join(_INTEGERS)}), but is {value.type}"
        raise MismatchError(fault, name)


def numbers(name: str, value: ir.Value) -> None:
    """Tensor `name` holds integers or floats, of any type."""
    if not isinstance(value.type.element_type, ir.IntegerType | ir.FloatType):
        raise MismatchError(f"must hold integers or floats, but is {value.type}", name)


def same(name: str, what: str, actual: int | None, expected: int | None) -> None:
    """Two extents agree, or one of them is dynamic."""
    if actual is not None and expected is not None and actual != expected:
        raise MismatchError(f"must have {what} = {expected}, but has {actual}", name)


def same_element(name: str, value: ir.Value, expected: ir.Value) -> None:
    """Tensor `name` has the element type of `expected`."""
    element_is(name, value, str(expected.type.element_type))


def element_is(name: str, value: ir.Value, element: str) -> None:
    """Tensor `name` has the element type `element`."""
    if str(value.type.element_type) != element:
        raise MismatchError(f"must hold {element}, but is {value.type}", name)


def blocks(name: str, value: ir.Value) -> BlockFormat:
    """Tensor `name` holds blocks, of the format that is returned, and is not empty."""
    return _known(name, value, block_format(value.type))


def stored(name: str, value: ir.Value) -> BlockFormat | CellFormat:
    """Tensor `name` holds blocks or cells, of the format that is returned, and is not empty."""
    return _known(name, value, storage_format(value.type))


def _known(name: str, value: ir.Value, format_: _Format | None) -> _Format:
    if format_ is None:
        raise MismatchError(f"must hold blocks, but is {value.type}", name)
    filled(name, value)
    return format_


def in_blocks(name: str, extent: int | None, values: int) -> int | None:
    """How many blocks of so many values the last dimension of tensor `name` makes, all whole."""
    multiple(name, "its last dimension", extent, values)
    return None if extent is None else extent // values


def multiple(name: str, what: str, actual: int | None, factor: int) -> None:
    """An extent is a multiple of `factor`, or dynamic."""
    if actual is not None and actual % factor:
        fault = f"must have {what} = a multiple of {factor}, but has {actual}"
        raise MismatchError(fault, name)


def filled(name: str, value: ir.Value, *dims: int) -> None:
    """None of `dims` of tensor `name` is known to be empty; none at all where none are given."""
    if 0 in [value.type.shape[dim] for dim in dims or range(value.type.rank)]:
        raise MismatchError(f"must not be empty, but is {value.type}", name)


def at_most(name: str, what: str, actual: int | None, largest: int | None) -> None:
    """An extent is no larger than another, or one of them is dynamic."""
    if actual is not None and largest is not None and actual > largest:
        raise MismatchError(f"must have {what} of at most {largest}, but has {actual}", name)


def averaged(name: str, value: ir.Value) -> None:
    """The element type of tensor `name` has room for its last dimension, to divide sums by."""
    _, largest = _FLOATS[str(value.type.element_type)]
    at_most(name, "a last dimension", value.type.shape[-1], int(largest))


def flag(name: str, attribute: ir.IntegerAttr) -> None:
    """Attribute `name` is 0 or 1."""
    require(attribute.value in (0, 1), f"must be 0 or 1, but is {attribute.value}", name)


def counts(name: str, attribute: ir.IntegerAttr, least: int = 1) -> None:
    """Attribute `name` is from `least` to what an i32 holds."""
    fault = f"must be from {least} to {_LARGEST_COUNT}, but is {attribute.value}"
    require(least <= attribute.value <= _LARGEST_COUNT, fault, name)


def number(name: str, attribute: ir.FloatAttr, of: ir.Value) -> None:
    """Attribute `name` is a number that the element type of `of` has room for."""
    element = str(of.type.element_type)
    _, largest = _FLOATS[element]
    fault = f"must be a finite number of {element}, but is {attribute.value}"
    require(abs(attribute.value) <= largest, fault, name)


def not_negative(name: str, attribute: ir.FloatAttr, of: ir.Value) -> None:
    """Attribute `name` is such a number, and not less than 0."""
    number(name, attribute, of)
    require(attribute.value >= 0, f"must not be negative, but is {attribute.value}", name)


def divisor(name: str, attribute: ir.FloatAttr, of: ir.Value) -> None:
    """Attribute `name` is 0, or such a number that one can divide by."""
    not_negative(name, attribute, of)
    element = str(of.type.element_type)
    least, _ = _FLOATS[element]
    fault = f"must be 0 or at least {least}, as it is of {element}, but is {attribute.value}"
    require(attribute.value == 0 or attribute.value >= least, fault, name)


def typed(name: str, value: ir.Value, expected: ir.Type) -> None:
    """Tensor `name` has the type `expected`, which is as dynamic."""
    if value.type != expected:
        raise MismatchError(f"must be {expected}, but is {value.type}", name)


def shaped(name: str, value: ir.Value, extents: list[int | None]) -> None:
    """Tensor `name` has the shape `extents`, as far as both are static."""
    for dim, actual in enumerate(tensor_of(value, name, len(extents))):
        same(name, f"dimension {dim}", actual, extents[dim])


def static(name: str, value: ir.Value, *dims: int) -> None:
    """Tensor `name` is static in `dims`; in all its dimensions where none are given."""
    for dim in dims or range(value.type.rank):
        if value.type.is_dynamic_dim(dim):
            raise MismatchError(f"must be static in dimension {dim}, but is {value.type}", name)


def like(name: str, value: ir.Value, other: str, expected: ir.Value) -> None:
    """Tensor `name` has the type of `other`, the operand `expected`."""
    if value.type != expected.type:
        fault = f"must be {expected.type} as '{other}' is, but is {value.type}"
        raise MismatchError(fault, name)


def _title(op: Any, name: str) -> str:
    results = [field.name for field in op._fields if isinstance(field, ext.ResultDef)]
    operands = [field.name for field in op._fields if isinstance(field, ext.OperandDef)]
    if results == [name]:
        return "result"
    if name in results:
        return f"result '{name}'"
    return f"{'operand' if name in operands else 'attribute'} '{name}'"
