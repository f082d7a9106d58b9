"""`propagate-shapes`: says how large every tensor is, and how much memory every function needs."""

from dataclasses import dataclass, fields
from typing import Annotated, ClassVar

from torch_mlir import ir

from llmc.pipelines.option_text import Range
from llmc.pipelines.passes.base import Pass

_Bound = Annotated[int, Range(0, 2**31 - 1)]


@dataclass(frozen=True)
class PropagateShapes(Pass):
    """Writes shapes as expressions of `tokens` and `past`, and the peak of memory as a formula.

    An operation with a dynamic tensor among its results gets the attribute `llmc.shape`, as
    `["1", "tokens", "576"]`, or a list of these where it has several results; a function gets
    `llmc.argument_shapes`, and as `llmc.peak_bytes` the bytes of tensors that it holds at once
    (`shapes.memory` says how they are counted). Symbols are the extents of the module's interface:
    `batch` and `tokens` of the tokens, the number of tokens `past`, and `sequences` and `capacity`
    of the KV cache. Extents that depend on data are `n0`, `n1` and so on.

    The options bound the symbols (0: no bound). What is bounded by that gets `llmc.shape_bound` and
    `llmc.peak_bytes_bound`.
    """

    name: ClassVar[str] = "propagate-shapes"
    tokens: _Bound = 0
    past: _Bound = 0
    batch: _Bound = 0
    sequences: _Bound = 0
    capacity: _Bound = 0

    def apply(self, module: ir.Module) -> None:
        """Writes the attributes anew; fails where extents that must be equal never are."""
        # Here, since sympy takes longer to load than most passes to run.
        from llmc.pipelines.shapes.analysis import summarize
        from llmc.pipelines.shapes.annotation import Annotator
        from llmc.pipelines.shapes.naming import name_symbols

        summaries = summarize(module)
        meanings = name_symbols(summaries)
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        annotator = Annotator({name: bound for name, bound in options.items() if bound})
        for name, summary in summaries.items():
            annotator.annotate(summary, meanings[name])
