"""`add-sampled`: lets the module continue a text by several tokens that chance chooses."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, func, math, scf, tensor

from llmc.dialects import DrawOp, TopKOp
from llmc.dialects.index_notation import (
    collapse,
    constant,
    expand,
    filled,
    index,
    reduce,
    size,
    slice_of,
)
from llmc.pipelines.divisor import divisor
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import set_arguments
from llmc.pipelines.rewriting.logits import is_logits
from llmc.pipelines.rewriting.parts import copy_as_part, return_instead
from llmc.pipelines.rewriting.repeated_steps import make_repeatable, repeat, steps_to_repeat
from llmc.runtime.abi import CANDIDATES, DECODE, DECODE_BATCH, SAMPLED, SAMPLED_BATCH

_PART = 512
"""How many logits are weighed at a time, at most."""

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
    return is_logits(logits) and str(logits.element_type) == "f32"


def _add(name: str, decode: func.FuncOp, symbols: ir.SymbolTable) -> None:
    """Adds the function `name`, and before it that of its steps: `decode`, which then draws."""
    tokens, *state = decode.type.inputs
    dynamic, f32 = ir.ShapedType.get_dynamic_size(), ir.F32Type.get()
    rows = tokens.shape[0]
    numbers, options, random = (
        ir.RankedTensorType.get(shape, f32) for shape in ([rows], [3], [dynamic, rows])
    )
    step = copy_as_part(decode, f"{name}.step", symbols)
    given = list(range(len(decode.arguments)))
    drawing = set_arguments(step, given, [tokens.element_type, options, numbers])
    return_ = step.entry_block.operations[-1]
    with ir.InsertionPoint(return_), return_.location:
        drawn = _draw(*return_.operands, *drawing)
    return_instead(step, drawn, 1)
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
    logits: ir.Value, best: ir.Value, top_k: ir.Value, options: ir.Value, numbers: ir.Value
) -> ir.Value:
    """The tokens `[B, 1]` that `numbers [B]` draw."""
    rows, vocabulary = logits.type.shape
    f32, i64 = logits.type.element_type, best.type.element_type
    top_k = arith.index_cast(ir.IndexType.get(), top_k)
    is_limited = arith.cmpi(arith.CmpIPredicate.ne, top_k, index(0))
    wanted = arith.select(is_limited, top_k, index(CANDIDATES))
    candidates = arith.minui(wanted, index(vocabulary))
    # One more, which may tie with the last of them.
    read = arith.minui(arith.addi(candidates, index(1)), index(vocabulary))
    few = [rows, ir.ShapedType.get_dynamic_size()]
    top = TopKOp(logits, read, *(ir.RankedTensorType.get(few, kind) for kind in (f32, i64)))
    most = collapse(best, [2])
    rest = scf.IfOp(is_limited, [ir.RankedTensorType.get([rows], f32)], has_else=True)
    with ir.InsertionPoint(rest.then_block):
        scf.yield_([filled([size(logits, 0)], 0.0, f32)])
    with ir.InsertionPoint(rest.else_block):
        scf.yield_([_weigh_rest(logits, top.values, candidates, options)])
    drawn = DrawOp(
        top.values, top.places, rest.results[0], most, numbers, options, candidates, most.type
    ).out
    return expand(drawn, [[size(drawn, 0), 1]])


def _weigh_rest(
    logits: ir.Value, values: ir.Value, candidates: ir.Value, options: ir.Value
) -> ir.Value:
    """What the tokens weigh that are less likely than the candidates, `[B]`, the first being 1."""
    rows = size(logits, 0)
    last = arith.subi(candidates, index(1))
    first, least = (slice_of(values, [0, at], [rows, 1], [rows]) for at in (0, last))
    temperature = tensor.extract(options, [index(0)])

    def add(logit: ir.Value, first: ir.Value, least: ir.Value, sum_: ir.Value) -> ir.Value:
        weight = math.exp(arith.divf(arith.subf(logit, first), temperature))
        is_of_rest = arith.cmpf(arith.CmpFPredicate.OLT, logit, least)
        return arith.addf(sum_, arith.select(is_of_rest, weight, constant(0.0, weight.type)))

    width = divisor(logits.type.shape[1], _PART)
    parts = expand(logits, [[rows], [logits.type.shape[1] // width, width]])
    return reduce("bp->b", arith.addf, 0.0, reduce("bpv,b,b->bp", add, 0.0, parts, first, least))
