"""Edits of operations: erase them, or cut what ties them together."""

from functools import partial

from torch_mlir import ir

from llmc.pipelines.reduction.stand_in import is_stand_in, stand_in
from llmc.pipelines.reduction.strategy import Edit
from llmc.pipelines.rewriting.operations import is_read, is_used
from llmc.pipelines.walks import walk


def erase_unused(module: ir.Module) -> list[Edit]:
    """Erases operations whose results nobody uses."""
    return [partial(_erase_if_unused, op) for op in walk(module.operation) if len(op.results)]


def erase_operations(module: ir.Module) -> list[Edit]:
    """Erases operations; an operand of the same type, or else a stand-in, replaces a result."""
    return [
        partial(erase, op)
        for op in walk(module.operation)
        if not op.has_trait(ir.IsTerminatorTrait) and op.parent != module.operation
    ]


def detach_operands(module: ir.Module) -> list[Edit]:
    """Lets operations use arguments and stand-ins instead of each other's results."""
    return [
        partial(_detach, op, number)
        for op in walk(module.operation)
        for number, operand in enumerate(op.operands)
        if not is_stand_in(operand)
    ]


def erase(op: ir.Operation) -> None:
    """Erases `op`; its results are replaced where they are used."""
    for result in op.results:
        if is_read(result):
            result.replace_all_uses_with(_replacement(result, op))
    op.erase()


def _erase_if_unused(op: ir.Operation) -> None:
    if not is_used(op):
        op.erase()


def _detach(op: ir.Operation, number: int) -> None:
    op.operands[number] = stand_in(op.operands[number].type, op)


def _replacement(result: ir.Value, op: ir.Operation) -> ir.Value:
    for operand in op.operands:
        if operand.type == result.type and operand.owner != op:  # its own in a graph region
            return operand
    return stand_in(result.type, op)
