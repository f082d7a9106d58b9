"""The next tokens, by chance: of the most likely ones, or of all."""

from collections.abc import Callable

from torch_mlir import ir
from torch_mlir.dialects import arith, scf, tensor
from torch_mlir.extras import types as T

from llmc.dialects import DrawOfAllOp, DrawOp, TopKOp
from llmc.dialects.draw_of_all import is_undecided
from llmc.dialects.index_notation import index, reduce
from llmc.runtime.abi import CANDIDATES


def drawn(
    logits: ir.Value, top_k: ir.Value, best: ir.Value, options: ir.Value, random: ir.Value
) -> ir.Value:
    """The tokens `[B]` that `random [B]` draws of the `top_k` most likely of `logits [B, V]`.

    With 0 they are drawn of all tokens, which are gone through where the most likely ones do not
    tell. `best [B]` and `options [3]` are those of `llmc.draw`.
    """
    vocabulary = index(logits.type.shape[1])
    is_of_all = arith.cmpi(arith.CmpIPredicate.eq, top_k, index(0))
    # One more, which may tie with the last of them.
    count = arith.select(is_of_all, index(CANDIDATES), arith.addi(top_k, index(1)))
    top = _find_top(logits, arith.minui(count, vocabulary))
    found = DrawOp(logits, *top, best, random, options, top_k, best.type).out

    def draw_of_all() -> ir.Value:
        return DrawOfAllOp(found, logits, *top, random, options, found.type).out

    def draw_if_undecided() -> ir.Value:
        return _found_or(found, _is_any_undecided(found), draw_of_all)

    # Two conditions, for the host waits for the tokens to know the second.
    return _found_or(found, is_of_all, draw_if_undecided)


def _found_or(found: ir.Value, condition: ir.Value, other: Callable[[], ir.Value]) -> ir.Value:
    """What `other` gives on `condition`, else what is `found`."""
    chosen = scf.IfOp(condition, [found.type], has_else=True)
    with ir.InsertionPoint(chosen.then_block):
        scf.yield_([other()])
    with ir.InsertionPoint(chosen.else_block):
        scf.yield_([found])
    return chosen.results[0]


def _find_top(logits: ir.Value, count: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The `count` largest of each row, and the tokens that they are of."""
    shape = [logits.type.shape[0], ir.ShapedType.get_dynamic_size()]
    elements = (logits.type.element_type, T.i64())
    top = TopKOp(logits, count, *(ir.RankedTensorType.get(shape, kind) for kind in elements))
    return top.values, top.places


def _is_any_undecided(found: ir.Value) -> ir.Value:
    if found.type.shape == [1]:  # of which IREE would make a kernel, too
        return is_undecided(tensor.extract(found, [index(0)]))

    def either(token: ir.Value, others: ir.Value) -> ir.Value:
        return arith.ori(others, is_undecided(token))

    return tensor.extract(reduce("b->", either, 0, found, element=T.bool()), [])
