"""`add-greedy`: lets the module continue a greedy text by several tokens at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, func, scf, tensor

from llmc.dialects.index_notation import collapse, constant, index, insert, pointwise, size
from llmc.pipelines.passes.base import Pass, trunks
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
        taken = ir.SymbolTable(module.operation)
        for trunk in trunks(module):
            name = _GREEDY.get(trunk.sym_name.value)
            if name is not None and name not in taken and _is_step(trunk):
                with ir.InsertionPoint(module.body), trunk.location:
                    _accept_none(trunk)
                    _add(name, trunk)


def _is_step(trunk: func.FuncOp) -> bool:
    """Whether `trunk` takes tokens, start, sequence and past, and returns tokens like these too."""
    i64 = ir.IntegerType.get_signless(64)
    inputs, results = list(trunk.type.inputs), list(trunk.type.results)
    return inputs[2:] == [i64, i64] and len(results) == 2 and results[1] == inputs[0]


def _add(name: str, step: func.FuncOp) -> None:
    step.attributes["noinline"] = ir.UnitAttr.get()
    tokens, *state = step.type.inputs
    i64, (batch, _) = tokens.element_type, tokens.shape
    found = ir.RankedTensorType.get([ir.ShapedType.get_dynamic_size(), batch], i64)
    function = func.FuncOp(name, ([tokens, *state, i64], [found, tokens]))
    places = [argument.location for argument in step.arguments]
    with ir.InsertionPoint(function.add_entry_block([*places, step.location])):
        given, start, sequence, past, count = function.arguments
        steps = arith.index_cast(ir.IndexType.get(), count)
        room = tensor.empty([steps, size(given, 0)], i64)
        # Not scf.for, where IREE 3.13 does not see that a call's tensors have sizes.
        first = [index(0), given, room]
        loop = scf.WhileOp([value.type for value in first], first)
        with _block(loop.before, first) as (number, *rest):
            is_left = arith.cmpi(arith.CmpIPredicate.slt, number, steps)
            scf.condition(is_left, [number, *rest])
        with _block(loop.after, first) as (number, given, found):
            column = arith.addi(past, arith.index_cast(i64, number))
            arguments = [given, start, sequence, column]
            _, best = func.call(step.type.results, step.sym_name.value, arguments)
            found = insert(collapse(best, [2]), found, [number, 0], [1, size(best, 0)])
            scf.yield_([arith.addi(number, index(1)), best, found])
        _, last, found = loop.results
        func.ReturnOp([found, last])


@contextmanager
def _block(region: ir.Region, like: list[ir.Value]) -> Iterator[list[ir.Value]]:
    """Inserts into a new block of `region`; its arguments, of types as those of `like`."""
    place = ir.Location.current
    block = region.blocks.append(*(value.type for value in like), arg_locs=[place] * len(like))
    with ir.InsertionPoint(block):
        yield list(block.arguments)


def _accept_none(step: func.FuncOp) -> None:
    """Lets `step` run for a token of -1, which is no row of the embedding, as for 0."""
    tokens = step.arguments[0]
    uses = list(tokens.uses)
    with ir.InsertionPoint.at_block_begin(step.entry_block):
        zero = constant(0, tokens.type.element_type)
        rows = pointwise("bt->bt", lambda token, _: arith.maxsi(token, zero), tokens)
    for use in uses:
        use.owner.operands[use.operand_number] = rows
