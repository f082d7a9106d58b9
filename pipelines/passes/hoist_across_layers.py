"""`hoist-across-layers`: computes once what every layer would compute alike."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.pipelines.clones import clone_with
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import calls_of, set_arguments, set_operands
from llmc.pipelines.rewriting.layers import layer_functions
from llmc.pipelines.rewriting.operations import ancestor_in, is_used, needed_for, read_from_outside
from llmc.pipelines.rewriting.purity import is_pure

_WEIGHT = "llmc.parameter"
_HIDDEN = 0
"""Which argument layers change: where there is one layer alone, its calls pass the same, too."""
# What costs no more than to hand its result in.
_CHEAP = (
    "arith.constant",
    "linalg.fill",
    "tensor.cast",
    "tensor.collapse_shape",
    "tensor.empty",
    "tensor.expand_shape",
    "tensor.extract_slice",
    "tensor.from_elements",
    "tensor.reshape",
    "tensor.splat",
)


@dataclass(frozen=True)
class HoistAcrossLayers(Pass):
    """Moves out of a layer function what is the same for all of its calls.

    That is what pure operations make of arguments for which every call passes one and the same
    value, like masks and tables made of positions, but not of the first, which is what layers
    change. It is computed before the first call and handed in as new arguments, which come last.
    Weights stay, for they differ from layer to layer, and so does what is no more than a constant,
    a size, or another shape of an argument. So does what is made of constants alone: IREE computes
    that once wherever it stands, but where it is handed in, version 3.13 may define the global that
    holds it behind those that are made of it, and then fails.
    """

    name: ClassVar[str] = "hoist-across-layers"

    def apply(self, module: ir.Module) -> None:
        """Rewrites every layer function that is called, all from one block, and its calls."""
        for function in layer_functions(module):
            calls = calls_of(module, function)
            blocks = {call.operation.block for call in calls}
            if len(blocks) == 1 and len(function.body.blocks) == 1:
                _hoist(function, calls)


def _hoist(function: func.FuncOp, calls: list[func.CallOp]) -> None:
    values = {
        argument: calls[0].operands[number]
        for number, argument in enumerate(function.arguments)
        if number != _HIDDEN
        and all(call.operands[number] == calls[0].operands[number] for call in calls)
    }
    alike = _alike(function, set(values))
    wanted = _wanted(function, alike, set(values))
    if not wanted:
        return
    moved = needed_for(wanted, alike)
    with ir.InsertionPoint(calls[0]):
        for op in moved:
            clone_with(op, values)
    every = list(range(len(function.arguments)))
    for value, argument in zip(
        wanted, set_arguments(function, every, [value.type for value in wanted]), strict=True
    ):
        value.replace_all_uses_with(argument)
    for call in calls:
        set_operands(call, [*call.operands, *(values[value] for value in wanted)])
    for op in reversed(moved):
        if not is_used(op):
            op.erase()


def _alike(function: func.FuncOp, shared: set[ir.Value]) -> list[ir.Operation]:
    """The operations that compute the same at every call, given the arguments that are shared."""
    known, alike = set(shared), []
    for op in function.entry_block:
        movable = op.operation.name != _WEIGHT and is_pure(op.operation)
        if movable and known.issuperset(read_from_outside(op.operation)):
            alike.append(op.operation)
            known.update(op.results)
    return alike


def _wanted(
    function: func.FuncOp, alike: list[ir.Operation], shared: set[ir.Value]
) -> list[ir.Value]:
    """What of `alike` others use, if it takes `shared` arguments and computing tensors."""
    made_of_shared, costly = set(shared), set[ir.Value]()
    for op in alike:
        read = read_from_outside(op)
        makes_tensor = any(isinstance(result.type, ir.ShapedType) for result in op.results)
        if not made_of_shared.isdisjoint(read):
            made_of_shared.update(op.results)
            if (makes_tensor and op.name not in _CHEAP) or not costly.isdisjoint(read):
                costly.update(op.results)

    def is_wanted(value: ir.Value) -> bool:
        users = [ancestor_in(function.entry_block, use.owner.operation) for use in value.uses]
        return value in costly and any(user not in alike for user in users)

    return [value for op in alike for value in op.results if is_wanted(value)]
