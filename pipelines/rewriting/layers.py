"""What the functions of a model are: trunks, parts of them, layers, and kernels."""

from itertools import compress

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.dialects.parameter import STORED
from llmc.pipelines.errors import fail
from llmc.pipelines.kernels.marks import KIND
from llmc.pipelines.rewriting.functions import functions, is_private, symbol_users
from llmc.pipelines.walks import find

PART = "llmc.part"
"""Marks a private function that calls layers as a public one does, for which it works."""

LAYER = "llmc.layer_argument"
"""Says of a layer function which argument holds the number of the layer."""


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


def layer_argument(function: func.FuncOp) -> ir.Value:
    """The argument of a numbered layer function that holds the layer's number.

    PassError where the function is not numbered.
    """
    number = function.attributes.get(LAYER)
    if number is None:
        fail(function, f"layer function has no '{LAYER}': run number-layers first")
    arguments = dict(enumerate(function.arguments))
    argument = arguments.get(number.value) if isinstance(number, ir.IntegerAttr) else None
    if argument is None or not isinstance(argument.type, ir.IndexType):
        fail(function, f"'{LAYER}' must be the number of an argument of type index")
    return argument


def keep_layers(function: func.FuncOp, kept: list[bool]) -> None:
    """Leaves to a layer function the weights of those calls, one layer each, that are `kept`.

    PassError where a weight has no name for one of them.
    """
    for op in find(function.operation, "llmc.parameter"):
        for name in ("sources", STORED):
            if name in op.attributes:
                names = list(op.attributes[name])
                if len(names) != len(kept):
                    fail(op, f"'{name}' must have one for each of the {len(kept)} calls")
                op.attributes[name] = ir.ArrayAttr.get(list(compress(names, kept)))
