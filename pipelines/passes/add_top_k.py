"""`add-top-k`: lets the module find the most likely tokens, for those who draw one of them."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, func
from torch_mlir.extras import types as T

from llmc.dialects import TopKOp
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.layers import trunks
from llmc.pipelines.rewriting.logits import is_logits
from llmc.runtime.abi import TOP_K


@dataclass(frozen=True)
class AddTopK(Pass):
    """Adds a function `top_k(logits, count)`: the largest of each row and where they stand.

    It takes what public functions return first, logits `[B, V]` of one type but for B: whoever
    draws a token need not read all of them. A module that returns none gets no such function.
    """

    name: ClassVar[str] = "add-top-k"

    def apply(self, module: ir.Module) -> None:
        """Adds the function at the end of the module."""
        taken = ir.SymbolTable(module.operation)
        first = [trunk.type.results[0] for trunk in trunks(module) if trunk.type.results]
        kinds = {(type_.shape[1], type_.element_type) for type_ in first if is_logits(type_)}
        if len(kinds) == 1 and TOP_K not in taken:
            with ir.InsertionPoint(module.body):
                _add(*kinds.pop())


def _add(vocabulary: int, element: ir.Type) -> None:
    dynamic, i64 = ir.ShapedType.get_dynamic_size(), T.i64()
    logits = ir.RankedTensorType.get([dynamic, vocabulary], element)
    values, tokens = (ir.RankedTensorType.get([dynamic] * 2, kind) for kind in (element, i64))
    function = func.FuncOp(TOP_K, ([logits, i64], [values, tokens]))
    with ir.InsertionPoint(function.add_entry_block()):
        x, count = function.arguments
        found = TopKOp(x, arith.index_cast(T.index(), count), values, tokens)
        func.ReturnOp([found.values, found.places])
