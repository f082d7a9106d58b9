"""`split-layers`: functions of their own for layers whose weights have other formats of blocks."""

from dataclasses import dataclass
from itertools import chain
from typing import Annotated, ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.dialects.parameter import STORED
from llmc.pipelines.errors import fail
from llmc.pipelines.option_text import Range
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import calls_of
from llmc.pipelines.rewriting.layers import LAYER, keep_layers, layer_functions
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class SplitLayers(Pass):
    """Copies a layer function for each way in which its layers' weights are stored.

    A function reads a weight in one format for all its layers, which holds them, and files with
    several formats have wide ones in few layers. The copy of `decode.layer0` for the second way is
    `decode.layer0_1`, and so on. There are at most `ways`: those of most layers, the last for all
    others. Functions that are numbered already stay.
    """

    name: ClassVar[str] = "split-layers"
    ways: Annotated[int, Range(1, 2**20)] = 3

    def apply(self, module: ir.Module) -> None:
        """Adds copies behind the functions, and has calls call them."""
        for function in layer_functions(module):
            ways = self._ways(function)
            if len(ways) > 1 and LAYER not in function.attributes:
                _split(function, calls_of(module, function), ways, module)

    def _ways(self, function: func.FuncOp) -> list[list[int]]:
        """The layers of each way, by number, the first layer's way first."""
        parameters = find(function.operation, "llmc.parameter")
        formats = [list(op.attributes[STORED]) for op in parameters if STORED in op.attributes]
        alike: dict[tuple[ir.Attribute, ...], list[int]] = {}
        for layer, way in enumerate(zip(*formats, strict=False)):
            alike.setdefault(way, []).append(layer)
        by_count = sorted(alike.values(), key=len, reverse=True)
        others = sorted(chain(*by_count[self.ways - 1 :]))
        return sorted([*by_count[: self.ways - 1], *([others] if others else [])])


def _split(
    function: func.FuncOp, calls: list[func.CallOp], ways: list[list[int]], module: ir.Module
) -> None:
    """Leaves to `function` the layers of the first of `ways`, and to a copy those of each other."""
    copies = [function]
    for number in range(1, len(ways)):
        name = f"{function.sym_name.value}_{number}"
        if name in ir.SymbolTable(module.operation):
            fail(function, f"the name of its copy, '{name}', is taken")
        with ir.InsertionPoint.after(copies[-1]):
            copies.append(function.operation.clone().opview)
        copies[-1].attributes["sym_name"] = ir.StringAttr.get(name)
    for copy, layers in zip(copies, ways, strict=True):
        keep_layers(copy, [number in layers for number in range(len(calls))])
        for number in layers:
            calls[number].attributes["callee"] = ir.FlatSymbolRefAttr.get(copy.sym_name.value)
