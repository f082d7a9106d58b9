"""Builds a function of a layer, makes kernels of it, and runs the result through IREE."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import func
from torch_mlir.extras import types as T
from torch_mlir.passmanager import PassManager

from llmc.pipelines.passes import DispatchKernels, ScheduleKernels
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.layers import LAYER
from llmc.pipelines.walks import walk
from tests.scheduled import call, new_context, type_of


def compute_by_kernels(
    build: Callable[..., list[ir.Value]],
    arrays: Sequence[np.ndarray],
    layer: int,
    outline: Sequence[Pass | str],
    left: Sequence[str],
    open_dims: Mapping[int, int] | None = None,
) -> list[np.ndarray]:
    """What kernels make of a function of `arrays`, f32, and the number of a layer.

    `build(*arguments, number)` writes it, `outline` makes the kernels, by passes of ours or MLIR's.
    It must then be nothing but kernels and operations whose names begin with one of `left`.
    `open_dims` has, by the number of an array, the dimension of which the function does not know
    the extent.
    """
    with new_context(), ir.Location.unknown():
        module = ir.Module.create()
        types: list[ir.Type] = [
            type_of(array, (open_dims or {}).get(number)) for number, array in enumerate(arrays)
        ]
        types.append(T.index())
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("layer", (types, []))
        function.attributes[LAYER] = ir.IntegerAttr.get(T.index(), len(arrays))
        with ir.InsertionPoint(function.add_entry_block()):
            results = build(*function.arguments)
            func.ReturnOp(results)
        whole = ir.FunctionType.get(types, [result.type for result in results])
        function.attributes["function_type"] = ir.TypeAttr.get(whole)
        for pass_ in (*outline, ScheduleKernels(), DispatchKernels()):
            if isinstance(pass_, str):
                PassManager.parse(f"builtin.module({pass_})").run(module.operation)
            else:
                pass_.apply(module)
            module.operation.verify()
        PassManager.parse("builtin.module(canonicalize)").run(module.operation)
        (layer_function,) = (op for op in module.body if isinstance(op, func.FuncOp))
        names = {op.name for op in walk(layer_function.operation)}
        assert not [name for name in names if not name.startswith(tuple(left))]
        return call(module, "layer", [*arrays, layer])
