"""Private functions that are a part of public ones, as layers are not."""

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.pipelines.rewriting.functions import set_type
from llmc.pipelines.rewriting.layers import PART


def copy_as_part(step: func.FuncOp, name: str, symbols: ir.SymbolTable) -> func.FuncOp:
    """A private copy of `step` named `name`, or otherwise where that is taken."""
    copy = step.operation.clone(ip=ir.InsertionPoint(step)).opview
    copy.attributes["sym_name"] = ir.StringAttr.get(name)
    symbols.insert(copy.operation)
    copy.attributes["sym_visibility"] = ir.StringAttr.get("private")
    copy.attributes[PART] = ir.UnitAttr.get()
    return copy


def return_instead(step: func.FuncOp, value: ir.Value, number: int) -> None:
    """Makes `value`, which takes the place of result `number`, all that `step` returns."""
    return_ = step.entry_block.operations[-1]
    with ir.InsertionPoint(return_), return_.location:
        func.ReturnOp([value])
    return_.operation.erase()
    set_type(step, [value.type])
    if "res_attrs" in step.attributes:
        kept = list(step.attributes["res_attrs"])[number]
        step.attributes["res_attrs"] = ir.ArrayAttr.get([kept])
