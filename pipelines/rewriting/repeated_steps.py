"""Functions that run a step of generation several times, on tokens that it gave itself."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from torch_mlir import ir
from torch_mlir.dialects import arith, func, scf, tensor

from llmc.dialects.index_notation import collapse, constant, index, insert, pointwise, size
from llmc.pipelines.rewriting.layers import trunks
from llmc.pipelines.rewriting.threaded import is_threaded

# Of what is inlined into a loop, IREE 3.13 may lay what the loop carries over each other.
_APART = "noinline"


def steps_to_repeat(module: ir.Module, names: Mapping[str, str]) -> list[tuple[str, func.FuncOp]]:
    """The functions of these `names` that are steps, each after the name of what is to repeat it.

    That is what `names` has for it, and nothing bears yet.
    """
    taken = ir.SymbolTable(module.operation)
    found = ((names.get(trunk.sym_name.value), trunk) for trunk in trunks(module))
    return [(name, step) for name, step in found if name and name not in taken and _is_step(step)]


def _is_step(trunk: func.FuncOp) -> bool:
    """Whether `trunk` takes tokens `[B, 1]`, start, sequence and past, and returns tokens too."""
    if not is_threaded(trunk):
        return False
    tokens, results = trunk.type.inputs[0], list(trunk.type.results)
    return tokens.shape[1] == 1 and len(results) == 2 and results[1] == tokens


def make_repeatable(step: func.FuncOp) -> None:
    """Lets `step` be called in a loop, and run for a token below 0, which has no row, as for 0."""
    if _APART in step.attributes:
        return
    step.attributes[_APART] = ir.UnitAttr.get()
    tokens = step.arguments[0]
    uses = list(tokens.uses)
    with ir.InsertionPoint.at_block_begin(step.entry_block):
        zero = constant(0, tokens.type.element_type)
        rows = pointwise("bt->bt", lambda token, _: arith.maxsi(token, zero), tokens)
    for use in uses:
        use.owner.operands[use.operand_number] = rows


def repeat(
    step: func.FuncOp,
    given: list[ir.Value],
    steps: ir.Value,
    more: Callable[[ir.Value], list[ir.Value]],
) -> list[ir.Value]:
    """Calls `step` so many times, here, from the arguments `given` on: in the next columns.

    Its last result are the next tokens; `more(number)` are the arguments that are each step's own.
    Returns the tokens of all steps, `[steps, B]`, and the last of them as a step takes them.
    """
    tokens, start, sequence, past = given
    room = tensor.empty([steps, size(tokens, 0)], tokens.type.element_type)
    # Not scf.for, where IREE 3.13 does not see that a call's tensors have sizes.
    first = [index(0), tokens, room]
    loop = scf.WhileOp([value.type for value in first], first)
    with _block(loop.before, first) as (number, *rest):
        is_left = arith.cmpi(arith.CmpIPredicate.slt, number, steps)
        scf.condition(is_left, [number, *rest])
    with _block(loop.after, first) as (number, last, found):
        column = arith.addi(past, arith.index_cast(past.type, number))
        arguments = [last, start, sequence, column, *more(number)]
        call = func.CallOp(step, arguments)
        chosen = call.results[len(call.results) - 1]
        found = insert(collapse(chosen, [2]), found, [number, 0], [1, size(chosen, 0)])
        scf.yield_([arith.addi(number, index(1)), chosen, found])
    _, last, found = loop.results
    return [found, last]


@contextmanager
def _block(region: ir.Region, like: list[ir.Value]) -> Iterator[list[ir.Value]]:
    """Inserts into a new block of `region`; its arguments, of types as those of `like`."""
    place = ir.Location.current
    block = region.blocks.append(*(value.type for value in like), arg_locs=[place] * len(like))
    with ir.InsertionPoint(block):
        yield list(block.arguments)
