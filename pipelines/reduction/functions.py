"""Edits of what a module defines at its top: symbols, and functions' bodies and signatures."""

from functools import partial

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.pipelines.reduction.operations import erase
from llmc.pipelines.reduction.stand_in import stand_in
from llmc.pipelines.reduction.strategy import Edit
from llmc.pipelines.rewriting.functions import (
    calls_of,
    functions,
    set_arguments,
    set_operands,
    set_type,
    symbol_users,
)
from llmc.pipelines.rewriting.operations import is_read
from llmc.pipelines.walks import find


def erase_symbols(module: ir.Module) -> list[Edit]:
    """Erases what the module defines, together with all that refers to it."""
    return [partial(_erase_symbol, module, op.operation) for op in module.body]


def empty_functions(module: ir.Module) -> list[Edit]:
    """Makes functions external."""
    return [partial(_empty, function) for function in functions(module)]


def drop_results(module: ir.Module) -> list[Edit]:
    """Drops results of functions, from their returns and from their calls."""
    return [
        partial(_drop_result, module, function, number)
        for function in functions(module)
        for number in range(len(function.type.results))
    ]


def drop_arguments(module: ir.Module) -> list[Edit]:
    """Drops arguments of functions, and the operands of their calls."""
    return [
        partial(_drop_argument, module, function, number)
        for function in functions(module)
        for number in range(len(function.arguments))
    ]


def _erase_symbol(module: ir.Module, op: ir.Operation) -> None:
    if "sym_name" in op.attributes:
        name = ir.StringAttr(op.attributes["sym_name"]).value
        for user in reversed(symbol_users(module)[name]):
            if user.parent != module.operation:
                erase(user)
    op.erase()


def _empty(function: func.FuncOp) -> None:
    with ir.InsertionPoint(function):
        func.FuncOp(function.sym_name.value, function.type, visibility="private")
    function.operation.erase()


def _drop_result(module: ir.Module, function: func.FuncOp, number: int) -> None:
    kept = [k for k in range(len(function.type.results)) if k != number]
    for end in find(function.operation, "func.return"):
        func.ReturnOp([end.operands[k] for k in kept], ip=ir.InsertionPoint(end))
        end.erase()
    types = [function.type.results[k] for k in kept]
    set_type(function, types)
    for call in calls_of(module, function):
        dropped = call.operation.results[number]
        if is_read(dropped):
            dropped.replace_all_uses_with(stand_in(dropped.type, call.operation))
        new = func.CallOp(types, call.callee.value, list(call.operands), ip=ir.InsertionPoint(call))
        for old, fresh in zip(kept, new.results, strict=True):
            call.operation.results[old].replace_all_uses_with(fresh)
        call.operation.erase()


def _drop_argument(module: ir.Module, function: func.FuncOp, number: int) -> None:
    argument = function.arguments[number]
    if is_read(argument):
        first = function.entry_block.operations[0].operation
        argument.replace_all_uses_with(stand_in(argument.type, first, unlike=[argument]))
    kept = [k for k in range(len(function.arguments)) if k != number]
    calls = calls_of(module, function)
    set_arguments(function, kept, [])
    for call in calls:
        set_operands(call, [call.operands[k] for k in kept])
