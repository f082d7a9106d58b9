"""`number-layers`: tells each layer function which of its layers it is called for."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, func
from torch_mlir.extras import types as T

from llmc.pipelines.errors import fail
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import calls_of, set_arguments, set_operands
from llmc.pipelines.rewriting.layers import LAYER, layer_functions
from llmc.pipelines.rewriting.operations import is_read, upwards


@dataclass(frozen=True)
class NumberLayers(Pass):
    """Appends `%layer: index` to layer functions and drops arguments that they do not use.

    The n-th call of a function is for layer n of its kind; all are in one function. The layer's
    attribute `llmc.layer_argument` says which argument it is; one that has it is numbered already.
    """

    name: ClassVar[str] = "number-layers"

    def apply(self, module: ir.Module) -> None:
        """Rewrites layer functions and their calls. PassError where several functions call one."""
        for function in layer_functions(module):
            if LAYER in function.attributes:
                continue
            calls = calls_of(module, function)
            if len({_function_around(call) for call in calls}) > 1:
                fail(function, "a layer is called from several functions")
            kept = [
                number for number, argument in enumerate(function.arguments) if is_read(argument)
            ]
            set_arguments(function, kept, [T.index()])
            function.attributes[LAYER] = ir.IntegerAttr.get(T.index(), len(kept))
            for number, call in enumerate(calls):
                with ir.InsertionPoint(call):
                    layer = arith.ConstantOp(T.index(), number).result
                set_operands(call, [call.operands[k] for k in kept] + [layer])


def _function_around(call: func.CallOp) -> ir.Operation:
    return next(op for op in upwards(call.operation) if op.name == "func.func")
