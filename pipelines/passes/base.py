"""What a pass is, and what passes ask of operations and values.

A pass is a small dataclass: its `name` is what a pipeline says, its fields are the pipeline's
options, `apply` does it.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NoReturn

from torch_mlir import ir
from torch_mlir.dialects import func, linalg

from llmc.pipelines.option_text import check_ranges
from llmc.pipelines.schedules.handles import KIND
from llmc.pipelines.walks import find, walk

PART = "llmc.part"
"""Marks a private function that calls layers as a public one does, for which it works."""


class PassError(Exception):
    """A pass cannot do its work on a module; a diagnostic has said why."""


@dataclass(frozen=True)
class Pass(ABC):
    """A transformation of a module, written in Python.

    `idempotent` claims that a second run changes nothing; a test holds it to that.
    """

    name: ClassVar[str]
    idempotent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_ranges(self)

    @abstractmethod
    def apply(self, module: ir.Module) -> None:
        """Transforms `module` in place. Its context is current, with an unknown location."""


def fail(op: ir.Operation | ir.OpView, message: str) -> NoReturn:
    """Emits an error at `op` and raises PassError."""
    op.location.emit_error(message)
    raise PassError(message)


def made_by(value: ir.Value, *names: str) -> ir.Operation | None:
    """The operation that makes `value`, if it bears one of `names`."""
    owner = value.owner
    is_it = not isinstance(owner, ir.Block) and owner.operation.name in names
    return owner.operation if is_it else None


def keeps_order(transposition: linalg.TransposeOp) -> bool:
    """Whether the elements follow each other as before: only dimensions of extent 1 are moved."""
    shape = transposition.input.type.shape
    long = [dim for dim in transposition.permutation if shape[dim] != 1]
    return long == sorted(long)


def read_from_outside(op: ir.Operation) -> list[ir.Value]:
    """What `op`, and what it holds, reads from outside, each once, in the order of reading."""
    within = [op, *walk(op)]
    blocks = [block for inner in within for region in inner.regions for block in region]
    own = {argument for block in blocks for argument in block.arguments}
    own |= {result for inner in within for result in inner.results}
    reads = (value for inner in within for value in inner.operands)
    return list(dict.fromkeys(value for value in reads if value not in own))


def needed_for(wanted: list[ir.Value], ops: list[ir.Operation]) -> list[ir.Operation]:
    """Those of `ops`, which follow each other, that compute `wanted`, in order."""
    needed, found = set(wanted), []
    for op in reversed(ops):
        if needed.intersection(op.results):
            found.append(op)
            needed.update(read_from_outside(op))
    return found[::-1]


def upwards(op: ir.Operation) -> Iterator[ir.Operation]:
    """The operation and those that hold it, the innermost first."""
    yield op
    if op.attached and op.parent is not None:
        yield from upwards(op.parent.operation)


def is_read(value: ir.Value) -> bool:
    """Whether any operation has `value` as an operand."""
    return any(True for _ in value.uses)


def is_used(op: ir.Operation) -> bool:
    """Whether anything reads a result of `op`."""
    return any(map(is_read, op.results))


def globals_with(module: ir.Module, attribute: str) -> list[ir.Operation]:
    """The globals that bear `attribute`, be they MLIR's or, once `to-iree` has run, IREE's."""
    found = find(module.operation, "ml_program.global", "util.global")
    return [op for op in found if attribute in op.attributes]


def ancestor_in(block: ir.Block, op: ir.Operation) -> ir.Operation | None:
    """The operation of `block` that is `op` or holds it; None where there is none."""
    while op.parent is not None:
        if op.block == block:
            return op
        op = op.parent.operation
    return None


def functions(module: ir.Module) -> list[func.FuncOp]:
    """The functions of `module` that have a body."""
    return [op for op in module.body if isinstance(op, func.FuncOp) and not op.is_external]


def trunks(module: ir.Module) -> list[func.FuncOp]:
    """The public functions, one for each variant of the model, and parts of them."""
    return [
        function
        for function in functions(module)
        if not is_layer(function) and KIND not in function.attributes
    ]


def layer_functions(module: ir.Module) -> list[func.FuncOp]:
    """The private functions that are merely called: one for each variant and kind of layer."""
    users = symbol_users(module)
    return [
        function
        for function in functions(module)
        if is_layer(function)
        and all(user.name == "func.call" for user in users[function.sym_name.value])
    ]


def is_layer(function: func.FuncOp) -> bool:
    """Whether `function` is a layer's, and neither a kernel's nor a part of a public function."""
    of_another = KIND in function.attributes or PART in function.attributes
    return is_private(function.operation) and not of_another


def is_private(op: ir.Operation) -> bool:
    """Whether the symbol that `op` defines is seen in its module alone."""
    visibility = op.attributes.get("sym_visibility")
    return visibility is not None and ir.StringAttr(visibility).value == "private"


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
        for name in op.attributes:
            for symbol in dict.fromkeys(_symbols(op.attributes[name])):
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
