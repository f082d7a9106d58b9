"""`to-iree`: hands state and parameters over to IREE."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from llmc.pipelines.passes.base import Pass, find, layer_functions
from llmc.pipelines.passes.bind_parameters import RECIPE
from llmc.pipelines.passes.thread_kv_cache import CACHE, SHARERS
from llmc.runtime.abi import PARAMETER_SCOPE


@dataclass(frozen=True)
class ToIREE(Pass):
    """Turns ml_program globals into IREE's, weights into named parameters, and keeps layers apart.

    IREE's dialects are unknown to this MLIR: their operations are built unregistered and print in
    the generic form, which IREE reads. Globals keep what llmc knows of them as attributes. Layer
    functions are marked never to be inlined, so that IREE compiles a kind of layer once however
    many layers there are.
    """

    name: ClassVar[str] = "to-iree"

    def apply(self, module: ir.Module) -> None:
        """Rewrites globals, their loads and stores, and marks the layers."""
        module.context.allow_unregistered_dialects = True
        for op in find(module.operation, "ml_program.global"):
            _replace_global(op)
        for op in find(module.operation, "ml_program.global_load"):
            with ir.InsertionPoint(op), op.location:
                load = ir.Operation.create(
                    "util.global.load",
                    results=[op.results[0].type],
                    attributes={"global": op.attributes["global"]},
                )
            op.results[0].replace_all_uses_with(load.result)
            op.erase()
        for op in find(module.operation, "ml_program.global_store"):
            with ir.InsertionPoint(op), op.location:
                ir.Operation.create(
                    "util.global.store",
                    operands=list(op.operands),
                    attributes={"global": op.attributes["global"]},
                )
            op.erase()
        for op in find(module.operation, "bufferization.alloc_tensor"):
            if op.opview.copy is not None:
                continue
            with ir.InsertionPoint(op), op.location:
                room = ir.Operation.create(
                    "flow.tensor.alloca",
                    results=[op.results[0].type],
                    operands=list(op.opview.dynamic_sizes),
                )
            op.results[0].replace_all_uses_with(room.result)
            op.erase()
        for op in find(module.operation, "llmc.bitcast"):
            with ir.InsertionPoint(op), op.location:
                view = ir.Operation.create(
                    "flow.tensor.bitcast",
                    results=[op.results[0].type],
                    operands=list(op.operands),
                    attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0])},
                )
            op.results[0].replace_all_uses_with(view.result)
            op.erase()
        for function in layer_functions(module):
            function.attributes["noinline"] = ir.UnitAttr.get()


def _replace_global(op: ir.Operation) -> None:
    kept = ("sym_name", "sym_visibility", "type", RECIPE, CACHE, SHARERS)
    attributes = {name: op.attributes[name] for name in kept if name in op.attributes}
    if RECIPE in op.attributes:
        scope, name = ir.StringAttr.get(PARAMETER_SCOPE), op.attributes["sym_name"]
        type_ = op.attributes["type"].value
        attributes["initial_value"] = ir.Attribute.parse(
            f"#flow.parameter.named<{scope}::{name}> : {type_}"
        )
    else:
        attributes["is_mutable"] = ir.UnitAttr.get()
    with ir.InsertionPoint(op), op.location:
        ir.Operation.create("util.global", attributes=attributes)
    op.erase()
