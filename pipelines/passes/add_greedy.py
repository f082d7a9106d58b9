"""`add-greedy`: lets the module continue a greedy text by several tokens at once."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, func
from torch_mlir.extras import types as T

from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.repeated_steps import make_repeatable, repeat, steps_to_repeat
from llmc.runtime.abi import DECODE, DECODE_BATCH, GREEDY, GREEDY_BATCH

_GREEDY = {DECODE: GREEDY, DECODE_BATCH: GREEDY_BATCH}


@dataclass(frozen=True)
class AddGreedy(Pass):
    """Adds functions that run `decode` or `decode_batch` several times, on its own best tokens.

    `greedy(tokens, start, sequence, past, count)` returns those tokens, `[count, B]`, and the last
    of them: between its steps nobody waits for the host. What returns no best tokens gets none.
    """

    name: ClassVar[str] = "add-greedy"

    def apply(self, module: ir.Module) -> None:
        """Adds the functions at the end of the module."""
        for name, step in steps_to_repeat(module, _GREEDY):
            with ir.InsertionPoint(module.body), step.location:
                make_repeatable(step)
                _add(name, step)


def _add(name: str, step: func.FuncOp) -> None:
    tokens, *state = step.type.inputs
    i64, (batch, _) = tokens.element_type, tokens.shape
    found = ir.RankedTensorType.get([ir.ShapedType.get_dynamic_size(), batch], i64)
    function = func.FuncOp(name, ([tokens, *state, i64], [found, tokens]))
    places = [argument.location for argument in step.arguments]
    with ir.InsertionPoint(function.add_entry_block([*places, step.location])):
        *given, count = function.arguments
        steps = arith.index_cast(T.index(), count)
        func.ReturnOp(repeat(step, given, steps, lambda _number: []))
