"""The functions of a module and its other symbols: what they are for, who calls them."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.pipelines.rewriting.operations import upwards

LOAD = "ml_program.global_load"
_GLOBALS = ("ml_program.global", "util.global")


def functions(module: ir.Module) -> list[func.FuncOp]:
    """The functions of `module` that have a body."""
    return [op for op in module.body if isinstance(op, func.FuncOp) and not op.is_external]


def is_private(op: ir.Operation) -> bool:
    """Whether the symbol that `op` defines is seen in its module alone."""
    visibility = op.attributes.get("sym_visibility")
    return visibility is not None and ir.StringAttr(visibility).value == "private"


def globals_with(module: ir.Module, attribute: str) -> list[ir.Operation]:
    """The globals that bear `attribute`, be they MLIR's or, once `to-iree` has run, IREE's."""
    return [
        op.operation
        for op in module.body
        if op.operation.name in _GLOBALS and attribute in op.operation.attributes
    ]


def loads_constant(op: ir.Operation) -> bool:
    """Whether `op` loads a global that nothing writes, as a weight is."""
    if op.name != LOAD:
        return False
    *_, module = upwards(op)
    name = ir.FlatSymbolRefAttr(op.attributes["global"]).value
    return "is_mutable" not in ir.SymbolTable(module)[name].operation.attributes


def callee(call: ir.Operation) -> str:
    """The name of the function that `func.call` calls."""
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def calls_of(module: ir.Module, function: func.FuncOp) -> list[func.CallOp]:
    """The calls of `function`, in the order in which they run."""
    users = symbol_users(module)[function.sym_name.value]
    return [user.opview for user in users if user.name == "func.call"]


def symbol_users(module: ir.Module) -> dict[str, list[ir.Operation]]:
    """The operations that name each of the module's symbols, in order.

    A module within the module has symbols of its own.
    """
    users = defaultdict(list)
    for op in _walk_own(module.operation):
        named = (_symbols(op.attributes[name]) for name in op.attributes)
        for symbol in dict.fromkeys(chain.from_iterable(named)):
            users[symbol].append(op)
    return users


def _walk_own(root: ir.Operation) -> Iterator[ir.Operation]:
    for region in root.regions:
        for block in region:
            for op in block:
                yield op.operation
                if op.name != "builtin.module":
                    yield from _walk_own(op.operation)


def _symbols(attribute: ir.Attribute) -> Iterator[str]:
    if isinstance(attribute, ir.FlatSymbolRefAttr):
        yield attribute.value
    elif isinstance(attribute, ir.SymbolRefAttr):
        yield attribute.value[0]
    elif isinstance(attribute, ir.ArrayAttr):
        for element in attribute:
            yield from _symbols(element)
    elif isinstance(attribute, ir.DictAttr):
        for named in attribute:
            yield from _symbols(named.attr)


def set_type(function: func.FuncOp, results: Sequence[ir.Type]) -> None:
    """Gives `function` the type of its block's arguments and of `results`."""
    inputs = [argument.type for argument in function.arguments]
    type_ = ir.FunctionType.get(inputs, list(results))
    function.attributes["function_type"] = ir.TypeAttr.get(type_)


def set_arguments(function: func.FuncOp, kept: list[int], added: list[ir.Type]) -> list[ir.Value]:
    """Keeps the arguments numbered `kept`, appends new ones of the types `added`, returned."""
    block = function.entry_block
    for number in reversed(range(len(block.arguments))):
        if number not in kept:
            block.erase_argument(number)
    new = [block.add_argument(type_, function.location) for type_ in added]
    set_type(function, function.type.results)
    if "arg_attrs" in function.attributes:
        given = function.attributes["arg_attrs"]
        named = [given[number] for number in sorted(kept)] + [ir.DictAttr.get({})] * len(added)
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(named)
    return new


def set_operands(call: func.CallOp, operands: list[ir.Value]) -> None:
    """Replaces `call` by one of the same function with `operands`."""
    with ir.InsertionPoint(call), call.location:
        new = func.CallOp([result.type for result in call.results], call.callee.value, operands)
    for old, fresh in zip(call.results, new.results, strict=True):
        old.replace_all_uses_with(fresh)
    call.operation.erase()
