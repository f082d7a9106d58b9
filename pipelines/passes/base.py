"""What a pass is, and the walks that passes share.

A pass is a small dataclass: its `name` is what a pipeline says, its fields are the pipeline's
options, `apply` does it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NoReturn

from torch_mlir import ir
from torch_mlir.dialects import func


class PassError(Exception):
    """A pass cannot do its work on a module; a diagnostic has said why."""


@dataclass(frozen=True)
class Pass(ABC):
    """A transformation of a module, written in Python.

    `idempotent` claims that a second run changes nothing; a test holds it to that.
    """

    name: ClassVar[str]
    idempotent: ClassVar[bool] = True

    @abstractmethod
    def apply(self, module: ir.Module) -> None:
        """Transforms `module` in place. Its context is current, with an unknown location."""


def fail(op: ir.Operation | ir.OpView, message: str) -> NoReturn:
    """Emits an error at `op` and raises PassError."""
    op.location.emit_error(message)
    raise PassError(message)


def walk(root: ir.Operation) -> Iterator[ir.Operation]:
    """The operations under `root`, parents first. Erase only what is not yet to come."""
    for region in root.regions:
        for block in region:
            for op in list(block):
                yield op.operation
                yield from walk(op.operation)


def find(root: ir.Operation, *names: str) -> list[ir.Operation]:
    """The operations under `root` that bear one of `names`."""
    return [op for op in walk(root) if op.name in names]


def functions(module: ir.Module) -> list[func.FuncOp]:
    """The functions of `module` that have a body."""
    return [op for op in module.body if isinstance(op, func.FuncOp) and not op.is_external]


def trunks(module: ir.Module) -> list[func.FuncOp]:
    """The public functions: one for each variant of the model."""
    return [function for function in functions(module) if not is_layer(function)]


def layer_functions(module: ir.Module) -> list[func.FuncOp]:
    """The private functions: one for each variant and kind of layer."""
    return [function for function in functions(module) if is_layer(function)]


def is_layer(function: func.FuncOp) -> bool:
    """Whether `function` is a layer's."""
    visibility = function.attributes.get("sym_visibility")
    return visibility is not None and ir.StringAttr(visibility).value == "private"


def calls_of(module: ir.Module, function: func.FuncOp) -> list[func.CallOp]:
    """The calls of `function`, in the order in which they run."""
    return [
        op.opview
        for op in find(module.operation, "func.call")
        if ir.FlatSymbolRefAttr(op.attributes["callee"]).value == function.sym_name.value
    ]


def set_arguments(function: func.FuncOp, kept: list[int], added: list[ir.Type]) -> list[ir.Value]:
    """Keeps the arguments numbered `kept`, appends new ones of the types `added`, returned."""
    block = function.entry_block
    for number in reversed(range(len(block.arguments))):
        if number not in kept:
            block.erase_argument(number)
    new = [block.add_argument(type_, function.location) for type_ in added]
    inputs = [argument.type for argument in block.arguments]
    type_ = ir.FunctionType.get(inputs, function.type.results)
    function.attributes["function_type"] = ir.TypeAttr.get(type_)
    return new


def set_operands(call: func.CallOp, operands: list[ir.Value]) -> None:
    """Replaces `call` by one of the same function with `operands`."""
    with ir.InsertionPoint(call), call.location:
        new = func.CallOp([result.type for result in call.results], call.callee.value, operands)
    for old, fresh in zip(call.results, new.results, strict=True):
        old.replace_all_uses_with(fresh)
    call.operation.erase()
