"""What the verifiers of the llmc dialect share: checks that name the operand and its fault."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.block_types import block_format
from llmc.dialects.blocks import VALUES, BlockFormat

SEGMENTS = "operandSegmentSizes"


class MismatchError(Exception):
    """What is wrong with an operation; with what it declares under `name`, where given."""

    def __init__(self, fault: str, name: str | None = None) -> None:
        super().__init__(fault)
        self.name = name


def verified(check: Callable[[Any], None]) -> Callable[[Any], bool]:
    """Turns a check that raises MismatchError into an MLIR verifier that emits a diagnostic."""

    @wraps(check)
    def verify_invariants(op: Any) -> bool:
        try:
            if _is_as_declared(op):
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
    if not isinstance(element, ir.FloatType):
        raise MismatchError(f"must hold floats, but is {value.type}", name)
    wide = element if widened_to is None else widened_to.type.element_type
    if element != wide and element.width >= wide.width:
        raise MismatchError(f"must hold {wide} or narrower, but is {value.type}", name)


def integers(name: str, value: ir.Value) -> None:
    """Tensor `name` holds integers."""
    if not isinstance(value.type.element_type, ir.IntegerType):
        raise MismatchError(f"must hold integers, but is {value.type}", name)


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
    format_ = block_format(value.type)
    if format_ is None:
        raise MismatchError(f"must hold blocks of {VALUES} values, but is {value.type}", name)
    filled(name, value)
    return format_


def in_blocks(name: str, extent: int | None) -> int | None:
    """How many blocks the last dimension of tensor `name` makes, which is a multiple of 32."""
    multiple(name, "its last dimension", extent, VALUES)
    return None if extent is None else extent // VALUES


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


def flag(name: str, attribute: ir.IntegerAttr) -> None:
    """Attribute `name` is 0 or 1."""
    require(attribute.value in (0, 1), f"attribute '{name}' must be 0 or 1, not {attribute.value}")


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


def require(condition: bool, message: str) -> None:
    """Raises MismatchError with `message` unless `condition` holds."""
    if not condition:
        raise MismatchError(message)


def _title(op: Any, name: str) -> str:
    results = [field.name for field in op._fields if isinstance(field, ext.ResultDef)]
    if results == [name]:
        return "result"
    return f"{'result' if name in results else 'operand'} '{name}'"


def _is_as_declared(op: Any) -> bool:
    """Whether `op` has the operands, attributes and results that its class declares.

    Where it has not, a check could not read it. MLIR's own verifier of the declaration, which runs
    after ours, says what is wrong, except for the sizes of operand segments.
    """
    kinds = (ext.OperandDef, ext.ResultDef, ext.AttributeDef)
    operands, results, attributes = ([f for f in op._fields if isinstance(f, k)] for k in kinds)
    if any(operand.default_is_none for operand in operands):
        _check_segments(op, operands)
    elif len(op.operands) != len(operands):
        return False
    return len(op.results) == len(results) and all(
        attribute.name in op.attributes
        and isinstance(op.attributes[attribute.name], attribute.constraint)
        for attribute in attributes
    )


def _check_segments(op: Any, operands: list[ext.OperandDef]) -> None:
    """Each operand is there once, or not at all where it is optional."""
    names = ", ".join(operand.name for operand in operands)
    expected = f"attribute '{SEGMENTS}' must be an array of i32, 0 or 1 for each of {names}"
    require(SEGMENTS in op.attributes, expected)
    sizes = op.attributes[SEGMENTS]
    require(isinstance(sizes, ir.DenseI32ArrayAttr) and len(sizes) == len(operands), expected)
    for size, operand in zip(sizes, operands, strict=True):
        least = 0 if operand.default_is_none else 1
        require(least <= size <= 1, f"operand '{operand.name}' has {size} values in '{SEGMENTS}'")
    total = sum(sizes)
    require(
        total == len(op.operands),
        f"there are {len(op.operands)} operands, but '{SEGMENTS}' names {total}",
    )
