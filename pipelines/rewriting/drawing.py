"""The next tokens, by chance: of the most likely ones, or of all."""

from torch_mlir import ir
from torch_mlir.dialects import arith, math, scf, tensor
from torch_mlir.extras import types as T

from llmc.dialects import DrawOp, NucleusOp, ReachOp, TopKOp
from llmc.dialects.index_notation import (
    constant,
    filled,
    index,
    insert,
    loop_index,
    pointwise,
    reduce,
    size,
    slice_of,
)
from llmc.dialects.row_parts import in_parts
from llmc.dialects.top_k import goes_before
from llmc.runtime.abi import CANDIDATES, UNDECIDED

_Float = arith.CmpFPredicate


def draw_of_top(
    logits: ir.Value, top_k: ir.Value, best: ir.Value, options: ir.Value, random: ir.Value
) -> ir.Value:
    """The tokens `[B]` that `random [B]` draws of the `top_k` most likely of `logits [B, V]`.

    `best [B]` and `options [3]` are those of `llmc.draw`.
    """
    vocabulary = index(logits.type.shape[1])
    count = arith.minui(top_k, vocabulary)
    # One more, which may tie with the last of them.
    values, tokens = _find_top(logits, arith.minui(arith.addi(count, index(1)), vocabulary))
    no_rest = filled([size(logits, 0)], 0.0, logits.type.element_type)
    return DrawOp(values, tokens, no_rest, best, random, options, count, best.type).out


def draw_of_all(logits: ir.Value, best: ir.Value, options: ir.Value, random: ir.Value) -> ir.Value:
    """Like `draw_of_top`, of all tokens: the most likely ones in order, then the others in theirs.

    Mostly one of the former is drawn. The others are gone through where it does not tell; of them
    those that are as likely as the last of top_p are kept, too.
    """
    count = min(CANDIDATES, logits.type.shape[1])
    values, tokens = _find_top(logits, index(count))
    ends = [_column(values, 0), _column(values, count - 1), _column(tokens, count - 1)]
    rest = _weigh_rest(logits, ends, options)
    found = DrawOp(values, tokens, rest, best, random, options, index(count), best.type).out
    drawn = scf.IfOp(_is_any_undecided(found), [found.type], has_else=True)
    with ir.InsertionPoint(drawn.then_block):
        shape = [size(logits, 0), count]
        values, tokens = (slice_of(top, [0, 0], shape, shape) for top in (values, tokens))
        kept = _keep(_weigh_all(logits, values, ends, options), options)
        scf.yield_([_decide(found, tokens, kept, random)])
    with ir.InsertionPoint(drawn.else_block):
        scf.yield_([found])
    return drawn.results[0]


def _find_top(logits: ir.Value, count: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The `count` largest of each row, and the tokens that they are of."""
    shape = [logits.type.shape[0], ir.ShapedType.get_dynamic_size()]
    elements = (logits.type.element_type, T.i64())
    top = TopKOp(logits, count, *(ir.RankedTensorType.get(shape, kind) for kind in elements))
    return top.values, top.places


def _column(x: ir.Value, column: int) -> ir.Value:
    rows = size(x, 0)
    return slice_of(x, [0, column], [rows, 1], [rows])


def _weigh_rest(logits: ir.Value, ends: list[ir.Value], options: ir.Value) -> ir.Value:
    """What all tokens weigh, `[B]`, that are less likely than the candidates.

    The `ends [B]` of these are the first one's logit, which weighs 1, and the last one's, with its
    token.
    """
    parts = in_parts(logits)
    width = index(parts.type.shape[2])

    def add(logit: ir.Value, *ends_and_sum: ir.Value) -> ir.Value:
        *ends, sum_ = ends_and_sum
        token = arith.addi(arith.muli(loop_index(1), width), loop_index(2))
        return arith.addf(sum_, _weigh_if_rest(logit, token, ends, options))

    sums = reduce("bpv,b,b,b->bp", add, 0.0, parts, *ends)
    return reduce("bp->b", arith.addf, 0.0, sums)


def _weigh_all(
    logits: ir.Value, values: ir.Value, ends: list[ir.Value], options: ir.Value
) -> ir.Value:
    """What tokens weigh: the candidates, of logits `values [B, C]`, then all `V`: `[B, C + V]`.

    Among all, the candidates weigh 0.
    """

    def weigh(value: ir.Value, first: ir.Value, _: ir.Value) -> ir.Value:
        return _weigh(value, first, options)

    def weigh_rest(logit: ir.Value, *ends_and_old: ir.Value) -> ir.Value:
        *ends, _ = ends_and_old
        return _weigh_if_rest(logit, loop_index(1), ends, options)

    candidates = pointwise("bc,b->bc", weigh, values, ends[0])
    rest = pointwise("bv,b,b,b->bv", weigh_rest, logits, *ends)
    rows, (count, vocabulary) = size(logits, 0), (x.type.shape[1] for x in (values, logits))
    # Not tensor.concat, for which IREE 3.13 transposes what has a dynamic number of rows.
    weights = tensor.empty([rows, count + vocabulary], rest.type.element_type)
    weights = insert(candidates, weights, [0, 0], [rows, count])
    return insert(rest, weights, [0, count], [rows, vocabulary])


def _weigh_if_rest(
    logit: ir.Value, token: ir.Value, ends: list[ir.Value], options: ir.Value
) -> ir.Value:
    """What a token weighs, but 0 if it is a candidate."""
    first, least, last = ends
    own = arith.index_cast(last.type, token)
    weight = _weigh(logit, first, options)
    return arith.select(goes_before(least, last, logit, own), weight, constant(0.0, weight.type))


def _weigh(logit: ir.Value, first: ir.Value, options: ir.Value) -> ir.Value:
    temperature = tensor.extract(options, [index(0)])
    return math.exp(arith.divf(arith.subf(logit, first), temperature))


def _keep(weights: ir.Value, options: ir.Value) -> ir.Value:
    """`weights [B, N]` of the tokens that top_p and min_p leave, 0 for the others."""

    def keep_likely(weight: ir.Value, _: ir.Value) -> ir.Value:
        is_likely = arith.cmpf(_Float.OGE, weight, tensor.extract(options, [index(2)]))
        return arith.select(is_likely, weight, constant(0.0, weight.type))

    top_p = slice_of(options, [1], [1], [1])
    return pointwise("bn->bn", keep_likely, NucleusOp(weights, top_p, weights.type).out)


def _is_any_undecided(found: ir.Value) -> ir.Value:
    def is_undecided(token: ir.Value, others: ir.Value) -> ir.Value:
        return arith.ori(others, _is_undecided(token))

    i1 = T.bool()
    return tensor.extract(reduce("b->", is_undecided, 0, found, element=i1), [])


def _is_undecided(token: ir.Value) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.eq, token, constant(UNDECIDED, token.type))


def _decide(found: ir.Value, tokens: ir.Value, weights: ir.Value, random: ir.Value) -> ir.Value:
    """What is `found [B]`; where it is undecided, the token that `random [B]` draws by `weights`.

    These are `[B, C + V]`, first those of the `tokens [B, C]`.
    """
    count = index(tokens.type.shape[1])
    places = ReachOp(weights, random, found.type).out

    def choose(token: ir.Value, place: ir.Value, _: ir.Value) -> ir.Value:
        place = arith.index_cast(count.type, place)
        is_candidate = arith.cmpi(arith.CmpIPredicate.ult, place, count)
        candidate = arith.select(is_candidate, place, index(0))
        candidate = tensor.extract(tokens, [loop_index(0), candidate])
        other = arith.index_cast(token.type, arith.subi(place, count))
        drawn = arith.select(is_candidate, candidate, other)
        return arith.select(_is_undecided(token), drawn, token)

    return pointwise("b,b->b", choose, found, places)
