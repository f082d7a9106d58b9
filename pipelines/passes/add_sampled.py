"""`add-sampled`: lets the module continue a text by several tokens that chance chooses."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, func
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import (
    collapse,
    expand,
    size,
    slice_of,
)
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.drawing import drawn
from llmc.pipelines.rewriting.functions import set_arguments
from llmc.pipelines.rewriting.logits import is_logits
from llmc.pipelines.rewriting.parts import copy_as_part, return_instead
from llmc.pipelines.rewriting.repeated_steps import make_repeatable, repeat, steps_to_repeat
from llmc.runtime.abi import DECODE, DECODE_BATCH, SAMPLED, SAMPLED_BATCH

_SAMPLED = {DECODE: SAMPLED, DECODE_BATCH: SAMPLED_BATCH}


@dataclass(frozen=True)
class AddSampled(Pass):
    """Adds functions that run `decode` or `decode_batch` several times, on tokens that they draw.

    `sampled(tokens, start, sequence, past, top_k, options, random)` draws each of the `top_k` most
    likely ones, or with 0 of all, as `llmc.draw` does, by a number of `random [steps, B]`. It
    returns the tokens, `[steps, B]`, and the last of them. What returns no logits and best tokens
    gets none.
    """

    name: ClassVar[str] = "add-sampled"

    def apply(self, module: ir.Module) -> None:
        """Adds the functions at the end of the module."""
        symbols = ir.SymbolTable(module.operation)
        for name, step in steps_to_repeat(module, _SAMPLED):
            if _has_logits(step):
                with ir.InsertionPoint(module.body), step.location:
                    make_repeatable(step)
                    _add(name, step, symbols)


def _has_logits(trunk: func.FuncOp) -> bool:
    logits, _ = trunk.type.results
    is_straight = len(trunk.body.blocks) == 1
    return is_straight and is_logits(logits) and str(logits.element_type) == "f32"


def _add(name: str, decode: func.FuncOp, symbols: ir.SymbolTable) -> None:
    """Adds the function `name`, and before it that of its steps: `decode`, which then draws."""
    tokens, *state = decode.type.inputs
    dynamic, f32 = ir.ShapedType.get_dynamic_size(), T.f32()
    rows = tokens.shape[0]
    numbers, options, random = (
        ir.RankedTensorType.get(shape, f32) for shape in ([rows], [3], [dynamic, rows])
    )
    step = copy_as_part(decode, f"{name}.step", symbols)
    given = list(range(len(decode.arguments)))
    drawing = set_arguments(step, given, [tokens.element_type, options, numbers])
    return_ = step.entry_block.operations[-1]
    with ir.InsertionPoint(return_), return_.location:
        token = _draw(*return_.operands, *drawing)
    return_instead(step, token, 1)
    found = ir.RankedTensorType.get(random.shape, tokens.element_type)
    inputs = [tokens, *state, tokens.element_type, options, random]
    function = func.FuncOp(name, (inputs, [found, tokens]))
    places = [argument.location for argument in step.arguments]
    with ir.InsertionPoint(function.add_entry_block(places)):
        *arguments, top_k, options, random = function.arguments

        def own(number: ir.Value) -> list[ir.Value]:
            width = size(random, 1)
            return [top_k, options, slice_of(random, [number, 0], [1, width], [width])]

        func.ReturnOp(repeat(step, arguments, size(random, 0), own))


def _draw(
    logits: ir.Value, best: ir.Value, top_k: ir.Value, options: ir.Value, random: ir.Value
) -> ir.Value:
    """The tokens `[B, 1]` that `random [B]` draws."""
    top_k = arith.index_cast(T.index(), top_k)
    tokens = drawn(logits, top_k, collapse(best, [2]), options, random)
    return expand(tokens, [[size(tokens, 0), 1]])
