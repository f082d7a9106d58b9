"""Functions in IREE's flow dialect: the dispatches that they make, and whether they stay apart."""

from collections.abc import Container
from functools import cache

from iree.compiler import ir
from iree.compiler.passmanager import PassManager

from llmc.pipelines.walks import find, walk

_INLINING = "inlining_policy"


def inline(module: ir.Module, names: Container[str]) -> None:
    """Inlines the functions that bear one of `names`, and were marked never to be inlined."""
    for name, function in functions(module).items():
        if name in names and _INLINING in function.attributes:
            del function.attributes[_INLINING]
    with module.context:
        PassManager.parse("builtin.module(inline)").run(module.operation)


def separate_arguments(module: ir.Module) -> None:
    """Puts a barrier before what the functions of `module` pass to layers, but for other results.

    IREE 3.13 packs the tensors of a function into one buffer and passes a layer its part of that as
    buffer, size, offset and length. Where one call passes a part and another the whole result of a
    call, it drops the length and takes the size of the buffer for it: the layer reads past its end.
    """
    for function in functions(module).values():
        for call in find(function, "util.call"):
            _separate_arguments(call)


def _separate_arguments(call: ir.Operation) -> None:
    for number, operand in enumerate(call.operands):
        producer = operand.owner
        if (
            isinstance(operand.type, ir.RankedTensorType)
            and not isinstance(producer, ir.Block)
            and producer.name != "util.call"
        ):
            with ir.InsertionPoint(call), call.location:
                barrier = ir.Operation.create(
                    "util.optimization_barrier", [operand.type], [operand]
                )
            call.operands[number] = barrier.result


def count_dispatches(module: ir.Module) -> dict[str, int]:
    """How many kernels a call of each public function dispatches, those of its callees included."""
    named = functions(module)

    @cache
    def count(name: str) -> int:
        total = 0
        for op in walk(named[name]):
            if op.name == "flow.dispatch":
                total += 1
            elif op.name == "util.call":
                total += count(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)
        return total

    return {name: count(name) for name, function in named.items() if _is_public(function)}


def functions(module: ir.Module) -> dict[str, ir.Operation]:
    """Functions by name, in the order of the module."""
    return {
        ir.StringAttr(op.attributes["sym_name"]).value: op.operation
        for op in module.body
        if op.operation.name == "util.func"
    }


def _is_public(function: ir.Operation) -> bool:
    return ir.StringAttr(function.attributes["sym_visibility"]).value == "public"
