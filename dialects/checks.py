"""What the verifiers of the llmc dialect share: checks that name the operand and its fault."""

from collections.abc import Callable
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext

SEGMENTS = "operandSegmentSizes"


class MismatchError(Exception):
    """An operand or attribute is not as the operation says."""


def verified(check: Callable[[Any], None]) -> Callable[[Any], bool]:
    """Turns a check that raises MismatchError into an MLIR verifier that emits a diagnostic."""

    def verify_invariants(op: Any) -> bool:
        try:
            if _is_as_declared(op):
                check(op)
        except MismatchError as mismatch:
            op.location.emit_error(f"'{op.OPERATION_NAME}' op {mismatch}")
            return False
        return True

    return verify_invariants


def tensor_of(value: ir.Value, name: str, rank: int | None = None) -> list[Any]:
    """The shape of tensor `name`, an operand or the result `out`; None where dynamic."""
    if not isinstance(value.type, ir.RankedTensorType):
        raise MismatchError(f"{_title(name)} must be a ranked tensor, but is {value.type}")
    if rank is not None and value.type.rank != rank:
        raise MismatchError(f"{_title(name)} must have rank {rank}, but is {value.type}")
    type_ = value.type
    return [None if type_.is_dynamic_dim(d) else type_.get_dim_size(d) for d in range(type_.rank)]


def floats(name: str, value: ir.Value, widened_to: ir.Value | None = None) -> None:
    """Tensor `name` holds floats: of the type of `widened_to` or narrower ones, where given."""
    element = value.type.element_type
    if not isinstance(element, ir.FloatType):
        raise MismatchError(f"{_title(name)} must hold floats, but is {value.type}")
    wide = element if widened_to is None else widened_to.type.element_type
    if element != wide and element.width >= wide.width:
        raise MismatchError(f"{_title(name)} must hold {wide} or narrower, but is {value.type}")


def integers(name: str, value: ir.Value) -> None:
    """Tensor `name` holds integers."""
    if not isinstance(value.type.element_type, ir.IntegerType):
        raise MismatchError(f"{_title(name)} must hold integers, but is {value.type}")


def same(name: str, what: str, actual: int | None, expected: int | None) -> None:
    """Two extents agree, or one of them is dynamic."""
    if actual is not None and expected is not None and actual != expected:
        raise MismatchError(f"{_title(name)} must have {what} = {expected}, but has {actual}")


def same_element(name: str, value: ir.Value, expected: ir.Value) -> None:
    """Tensor `name` has the element type of `expected`."""
    element = expected.type.element_type
    if value.type.element_type != element:
        raise MismatchError(f"{_title(name)} must hold {element}, but is {value.type}")


def shaped(name: str, value: ir.Value, extents: list[int | None]) -> None:
    """Tensor `name` has the shape `extents`, as far as both are static."""
    for dim, actual in enumerate(tensor_of(value, name, len(extents))):
        same(name, f"dimension {dim}", actual, extents[dim])


def static(name: str, value: ir.Value, *dims: int) -> None:
    """Tensor `name` is static in `dims`; in all its dimensions where none are given."""
    for dim in dims or range(value.type.rank):
        open_ = value.type.is_dynamic_dim(dim)
        require(not open_, f"{_title(name)} must be static in dimension {dim}, but is {value.type}")


def require(condition: bool, message: str) -> None:
    """Raises MismatchError with `message` unless `condition` holds."""
    if not condition:
        raise MismatchError(message)


def _title(name: str) -> str:
    return "result" if name == "out" else f"operand '{name}'"


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
