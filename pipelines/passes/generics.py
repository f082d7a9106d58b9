"""Reads a `linalg.generic` back: what it computes, and how it reads its operands."""

from torch_mlir import ir


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
    """Whether a linalg.generic reads and writes all its operands at one and the same point."""
    first, *others = maps(op)
    return all(map_ == ir.AffineMap.get_identity(first.n_dims) for map_ in (first, *others))
