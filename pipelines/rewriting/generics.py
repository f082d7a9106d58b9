"""Reads a `linalg.generic` back: what it computes, and how it reads its operands."""

from collections.abc import Sequence

from torch_mlir import ir

from llmc.pipelines.clones import clone_with
from llmc.pipelines.rewriting.operations import is_read, made_by, read_from_outside
from llmc.pipelines.walks import find


def applied(op: ir.Operation) -> str:
    """The name of the one operation that the linalg.generic `op` applies to its inputs.

    Empty where `op` is another operation, or its body does more, or takes its inputs otherwise than
    each once and in their order.
    """
    if op.name != "linalg.generic" or len(op.results) != 1:
        return ""
    body = op.regions[0].blocks[0]
    if len(body.operations) != 2:
        return ""
    inner, terminator = body.operations
    inputs = list(body.arguments)[:-1]
    plain = list(inner.operands) == inputs and list(terminator.operands) == list(inner.results)
    return inner.operation.name if plain else ""


def maps(op: ir.Operation) -> list[ir.AffineMap]:
    """The indexing maps of a linalg.generic: of its inputs, then of its outputs."""
    return [ir.AffineMapAttr(map_).value for map_ in op.attributes["indexing_maps"]]


def is_elementwise(op: ir.Operation) -> bool:
    """Whether a linalg.generic computes each element of the same element of all its operands.

    And of nothing else, such as where it stands.
    """
    first, *others = maps(op)
    same = ir.AffineMap.get_identity(first.n_dims)
    return all(map_ == same for map_ in (first, *others)) and not find(op, "linalg.index")


def inputs(op: ir.Operation) -> list[ir.Value]:
    """The inputs of a linalg.generic of one result."""
    return list(op.operands)[:-1]


def is_sum(op: ir.Operation) -> bool:
    """Whether `op` adds two tensors of one type, element by element."""
    is_addition = applied(op) == "arith.addf" and is_elementwise(op)
    return is_addition and len({value.type for value in op.operands}) == 1


def addition_to(value: ir.Value) -> ir.Operation | None:
    """The sum of `value` and another tensor, which alone reads it."""
    readers = [use.owner.operation for use in value.uses]
    return readers[0] if len(readers) == 1 and is_sum(readers[0]) else None


def reads_room(op: ir.Operation) -> bool:
    """Whether a linalg.generic reads what its result is written into."""
    *_, old = op.regions[0].blocks[0].arguments
    return is_read(old)


def captures_constants(op: ir.Operation) -> bool:
    """Whether all that the body of a linalg.generic reads from without is constants."""
    return all(is_constant(value) for value in captured(op))


def is_constant(value: ir.Value) -> bool:
    """Whether `value` is a constant."""
    return made_by(value, "arith.constant") is not None


def integer_constant(value: ir.Value) -> int | None:
    """The integer that `value` is; None where it is no constant."""
    constant = made_by(value, "arith.constant")
    return constant and constant.opview.literal_value


def measured(op: ir.Operation) -> tuple[ir.Value, int] | None:
    """Of which tensor a `tensor.dim` asks for which dimension; None where that is not known.

    None too of another operation, or where the tensor has no such dimension.
    """
    if op.name != "tensor.dim":
        return None
    value, dim = op.operands[0], integer_constant(op.operands[1])
    rank = value.type.rank if isinstance(value.type, ir.RankedTensorType) else 0
    return (value, dim) if dim is not None and 0 <= dim < rank else None


def float_constant(value: ir.Value) -> float | None:
    """The number that `value` is, be it of another type at first; None where it is none."""
    converted = made_by(value, "arith.truncf", "arith.extf")
    constant = made_by(converted.operands[0] if converted else value, "arith.constant")
    number = constant and constant.attributes["value"]
    return ir.FloatAttr(number).value if isinstance(number, ir.FloatAttr) else None


def apply_body(op: ir.Operation, elements: Sequence[ir.Value]) -> ir.Value:
    """What the body of a linalg.generic, which captures but constants, makes of `elements`.

    Computed here. `elements` are for the first of the body's arguments, or for all.
    """
    block = op.regions[0].blocks[0]
    known = dict(zip(block.arguments, elements, strict=False))
    *inner, end = [each.operation for each in block]
    for each in [*(value.owner.operation for value in captured(op)), *inner]:
        clone_with(each, known)
    return known[end.operands[0]]


def captured(op: ir.Operation) -> list[ir.Value]:
    """What the body of a linalg.generic reads from without, each once, be it an operand too."""
    block = op.regions[0].blocks[0]
    own = {*block.arguments, *(result for inner in block for result in inner.operation.results)}
    reads = (value for inner in block for value in read_from_outside(inner.operation))
    return list(dict.fromkeys(value for value in reads if value not in own))
