"""`to-iree`: hands state and parameters over to IREE."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.bind_parameters import RECIPE
from llmc.pipelines.passes.thread_kv_cache import CACHE, SHARERS
from llmc.pipelines.rewriting.layers import layer_functions
from llmc.pipelines.walks import find
from llmc.runtime.abi import PARAMETER_SCOPE

_OPERATIONS = {
    "bufferization.alloc_tensor": "flow.tensor.alloca",
    "llmc.bitcast": "flow.tensor.bitcast",
    "ml_program.global_load": "util.global.load",
    "ml_program.global_load_const": "util.global.load",
    "ml_program.global_store": "util.global.store",
}
"""What takes the place of operations, with the same operands and results."""


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
        """Rewrites globals, and what is done with them and with memory, and marks the layers."""
        module.context.allow_unregistered_dialects = True
        for op in find(module.operation, "ml_program.global"):
            _replace_global(op)
        for op in find(module.operation, *_OPERATIONS):
            if op.name != "bufferization.alloc_tensor" or op.opview.copy is None:
                _replace(op)
        for function in layer_functions(module):
            function.attributes["noinline"] = ir.UnitAttr.get()


def _replace_global(op: ir.Operation) -> None:
    kept = ("sym_name", "sym_visibility", "type", RECIPE, CACHE, SHARERS)
    attributes = {name: op.attributes[name] for name in kept if name in op.attributes}
    initial_value = _initial_value(op)
    if initial_value is not None:
        attributes["initial_value"] = initial_value
    if initial_value is None or "is_mutable" in op.attributes:
        attributes["is_mutable"] = ir.UnitAttr.get()
    with ir.InsertionPoint(op), op.location:
        ir.Operation.create("util.global", attributes=attributes)
    op.erase()


def _initial_value(op: ir.Operation) -> ir.Attribute | None:
    """What a global begins as: a parameter of the archive, a constant, or None for anything."""
    if RECIPE in op.attributes:
        scope, name = ir.StringAttr.get(PARAMETER_SCOPE), op.attributes["sym_name"]
        type_ = op.attributes["type"].value
        return ir.Attribute.parse(f"#flow.parameter.named<{scope}::{name}> : {type_}")
    value = op.attributes.get("value", None)
    return value if isinstance(value, ir.DenseElementsAttr) else None


def _replace(op: ir.Operation) -> None:
    with ir.InsertionPoint(op), op.location:
        new = ir.Operation.create(
            _OPERATIONS[op.name],
            results=[result.type for result in op.results],
            operands=list(op.operands),
            attributes=_attributes(op),
        )
    for old, fresh in zip(op.results, new.results, strict=True):
        old.replace_all_uses_with(fresh)
    op.erase()


def _attributes(op: ir.Operation) -> dict[str, ir.Attribute]:
    """Those of the operation that takes the place of `op`."""
    if op.name == "llmc.bitcast":
        return {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0])}
    return {"global": op.attributes["global"]} if "global" in op.attributes else {}
