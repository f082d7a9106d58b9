"""An operation by itself, as if it were a kernel, and copies of it."""

from collections.abc import Mapping

from torch_mlir import ir
from torch_mlir.dialects import func


def alone(op: ir.Operation) -> ir.Module:
    """A module of one function, which does what `op` does to operands of any origin.

    Each operand is an argument, though several may be one value.
    """
    module = ir.Module.create(op.location)
    types = [[value.type for value in values] for values in (op.operands, op.results)]
    with ir.InsertionPoint(module.body), op.location:
        function = func.FuncOp("alone", (types[0], types[1]))
    with ir.InsertionPoint(function.add_entry_block()), op.location:
        copy = op.clone()
        for number, argument in enumerate(function.arguments):
            copy.operands[number] = argument
        func.ReturnOp(copy.results)
    return module


def copied_alone(function: func.FuncOp) -> ir.Module:
    """A module of a copy of `function`."""
    module = ir.Module.create(function.location)
    module.body.append(function.operation.clone())
    return module


def copied(op: ir.Operation, operands: Mapping[ir.Value, ir.Value]) -> ir.Operation:
    """A copy of `op`, here, of what takes the place of each of its operands."""
    copy = op.clone()
    for number, value in enumerate(op.operands):
        copy.operands[number] = operands[value]
    return copy
