"""`remove-dead-parameters`: removes weights and state, arguments and results that nothing reads."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func
from torch_mlir.extras import types as T

from llmc.pipelines.passes.base import Pass
from llmc.pipelines.recipes.recipe import recipe_of
from llmc.pipelines.rewriting.functions import (
    calls_of,
    is_private,
    set_arguments,
    set_type,
    symbol_users,
)
from llmc.pipelines.rewriting.layers import LAYER, layer_functions
from llmc.pipelines.rewriting.operations import is_read, is_used, made_by
from llmc.pipelines.walks import find, walk

_GLOBALS = ("ml_program.global", "util.global")
_LOADS = ("ml_program.global_load", "util.global.load")
_STORES = ("ml_program.global_store", "util.global.store")
_ROOM = ("llmc.cache_allocate", "bufferization.alloc_tensor", "flow.tensor.alloca")


@dataclass(frozen=True)
class RemoveDeadParameters(Pass):
    """Removes what nothing reads of weights, of private globals, and of private functions.

    These are weight expressions without uses, globals that are at most stored to, with the stores,
    and arguments and results that the function or all of its calls ignore. Functions that are not
    called, or used otherwise, keep theirs, and each layer's function the argument that numbers it.
    """

    name: ClassVar[str] = "remove-dead-parameters"

    def apply(self, module: ir.Module) -> None:
        """Removes until there is nothing left to remove."""
        while _remove_values(module) or _remove_globals(module) or _remove_operands(module):
            pass


def _remove_values(module: ir.Module) -> bool:
    """Erases weight expressions and loads of globals that nothing uses; whether there were any."""
    removed = False
    for op in reversed(list(walk(module.operation))):
        if len(op.results) != 1 or is_used(op):
            continue
        if op.name in _LOADS or recipe_of(op.results[0]):
            op.erase()
            removed = True
    return removed


def _remove_globals(module: ir.Module) -> bool:
    """Erases private globals that nothing loads; whether there were any."""
    users = symbol_users(module)
    dead = [
        op
        for op in (op.operation for op in module.body if op.operation.name in _GLOBALS)
        if is_private(op) and all(user.name in _STORES for user in users[_name(op)])
    ]
    for op in dead:
        for store in users[_name(op)]:
            stored = store.operands[0]
            store.erase()
            room = made_by(stored, *_ROOM)
            if room and not is_used(room):
                room.erase()
        op.erase()
    return bool(dead)


def _remove_operands(module: ir.Module) -> bool:
    """Drops arguments and results of a private function; whether there is one with any to drop."""
    for function in layer_functions(module):
        calls = calls_of(module, function)
        if not calls:
            continue
        arguments = [
            number
            for number, argument in enumerate(function.arguments)
            if is_read(argument) or number == _layer_argument(function)
        ]
        results = [
            number
            for number in range(len(function.type.results))
            if any(is_read(call.results[number]) for call in calls)
        ]
        if len(arguments) < len(function.arguments) or len(results) < len(function.type.results):
            _rewrite(function, calls, arguments, results)
            return True
    return False


def _rewrite(
    function: func.FuncOp, calls: list[func.CallOp], arguments: list[int], results: list[int]
) -> None:
    """Keeps the arguments and results of these numbers alone."""
    layer = _layer_argument(function)
    if layer in arguments:
        number = arguments.index(layer)
        function.attributes[LAYER] = ir.IntegerAttr.get(T.index(), number)
    set_arguments(function, arguments, [])
    _set_results(function, results)
    for call in calls:
        operands = [call.operands[number] for number in arguments]
        kept = [call.results[number] for number in results]
        with ir.InsertionPoint(call), call.location:
            new = func.CallOp([value.type for value in kept], call.callee.value, operands)
        for old, fresh in zip(kept, new.results, strict=True):
            old.replace_all_uses_with(fresh)
        call.operation.erase()


def _set_results(function: func.FuncOp, kept: list[int]) -> None:
    for op in find(function.operation, "func.return"):
        with ir.InsertionPoint(op), op.location:
            func.ReturnOp([op.operands[number] for number in kept])
        op.erase()
    set_type(function, [function.type.results[number] for number in kept])
    if "res_attrs" in function.attributes:
        given = function.attributes["res_attrs"]
        function.attributes["res_attrs"] = ir.ArrayAttr.get([given[number] for number in kept])


def _layer_argument(function: func.FuncOp) -> int | None:
    number = function.attributes.get(LAYER)
    return number.value if isinstance(number, ir.IntegerAttr) else None


def _name(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value
