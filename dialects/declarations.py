"""Whether an operation has what its class declares, in words that name what is wrong.

Runs before MLIR's own verifier of the declaration, which names nothing, and before any check that
reads operands and attributes.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.mismatch import MismatchError, require

SEGMENTS = "operandSegmentSizes"

_KINDS = {
    ir.ArrayAttr: "an array",
    ir.FloatAttr: "a number of type f64",
    ir.IndexType: "an index",
    ir.IntegerAttr: "a number of type i64",
    ir.StringAttr: "a string",
}
_NUMBERS = {ir.FloatAttr: "f64", ir.IntegerAttr: "i64"}


def check_declared(op: Any) -> None:
    """Raises MismatchError unless `op` has the operands, results and attributes it declares."""
    operands, results, attributes = _declared(op.__class__)
    require(len(op.regions) == 0, f"must have no regions, but has {len(op.regions)}")
    require(len(op.successors) == 0, f"must have no successors, but has {len(op.successors)}")
    if any(operand.default_is_none for operand in operands):
        _check_segments(op, operands)
    else:
        _check_count("operand", op.operands, operands)
    _check_count("result", op.results, results)
    for operand in operands:
        if operand.constraint is not Any:
            _check_operand(getattr(op, operand.name), operand)
    for attribute in attributes:
        _check_attribute(op, attribute)


@cache
def _declared(class_: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """The operands, results and attributes that a class of operations declares."""
    kinds = (ext.OperandDef, ext.ResultDef, ext.AttributeDef)
    operands, results, attributes = ([f for f in class_._fields if isinstance(f, k)] for k in kinds)
    return operands, results, attributes


def _check_count(what: str, values: Sequence[ir.Value], fields: Sequence[Any]) -> None:
    if len(values) != len(fields):
        names = f": {_listed(fields)}" if fields else ""
        raise MismatchError(f"must have {len(fields)} {what}s{names}, but has {len(values)}")


def _check_operand(value: ir.Value | None, operand: ext.OperandDef) -> None:
    if value is None or isinstance(value.type, operand.constraint):
        return
    raise MismatchError(f"must be {_KINDS[operand.constraint]}, but is {value.type}", operand.name)


def _check_attribute(op: Any, declared: ext.AttributeDef) -> None:
    kind = declared.constraint
    if declared.name not in op.attributes:
        raise MismatchError(f"must be {_KINDS[kind]}, but is missing", declared.name)
    attribute = op.attributes[declared.name]
    is_right = isinstance(attribute, kind)
    if is_right and kind in _NUMBERS:
        is_right = str(attribute.type) == _NUMBERS[kind]
    if not is_right:
        raise MismatchError(f"must be {_KINDS[kind]}, but is {attribute}", declared.name)


def _check_segments(op: Any, operands: Sequence[ext.OperandDef]) -> None:
    """Each operand is there once, or not at all where it is optional."""
    expected = f"must be an array of i32, 0 or 1 for each of {_listed(operands)}"
    if SEGMENTS not in op.attributes:
        raise MismatchError(f"{expected}, but is missing", SEGMENTS)
    sizes = op.attributes[SEGMENTS]
    if not isinstance(sizes, ir.DenseI32ArrayAttr) or len(sizes) != len(operands):
        raise MismatchError(f"{expected}, but is {sizes}", SEGMENTS)
    for size, operand in zip(sizes, operands, strict=True):
        least = 0 if operand.default_is_none else 1
        if not least <= size <= 1:
            counts = "0 or 1 values" if operand.default_is_none else "1 value"
            fault = f"must have {counts} in '{SEGMENTS}', but has {size}"
            raise MismatchError(fault, operand.name)
    there = [operand for size, operand in zip(sizes, operands, strict=True) if size]
    _check_count("operand", op.operands, there)


def _listed(fields: Sequence[Any]) -> str:
    return ", ".join(f"'{field.name}'" for field in fields)
