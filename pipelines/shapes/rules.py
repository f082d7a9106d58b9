"""How shapes and integers go through operations: a rule for each operation that has one.

A rule says what is known of an operation's results. Operations without one yield tensors whose
dynamic extents are symbols of their own.
"""

from collections.abc import Callable, Sequence

import sympy
from sympy import Expr
from torch_mlir import ir
from torch_mlir.dialects import affine, arith, linalg, tensor  # noqa: F401 (views of operations)

from llmc.dialects.block_types import cell_format
from llmc.dialects.cache_cells import COLUMNS
from llmc.dialects.index_notation import kept_dims, mixed_numbers
from llmc.pipelines.shapes.expressions import is_natural, symbol, unknown_integer
from llmc.pipelines.shapes.facts import Facts, Shape, is_integer, is_tensor, same

Rule = Callable[[ir.Operation, Facts], None]

_SHORT = 16
"""How many elements a tensor of integers may have for us to remember them."""

_CACHE_RANK = 5


def apply_rule(op: ir.Operation, facts: Facts) -> None:
    """Adds to `facts` what is known of the results of `op`; fails where extents contradict."""
    rule = RULES.get(op.name)
    if rule is None and op.name.startswith("linalg."):
        rule = _destination_passing
    if rule is not None:
        rule(op, facts)
    elif op.name.partition(".")[0] in ("arith", "math") and op.results and is_tensor(op.results[0]):
        _elementwise(op, facts)


def _constant(op: ir.Operation, facts: Facts) -> None:
    value = op.attributes["value"]
    if isinstance(value, ir.IntegerAttr):
        facts.set_integer(op.results[0], sympy.Integer(value.value))
    elif _has_short_integers(value):
        facts.set_elements(op.results[0], [sympy.Integer(int(each)) for each in value])


def _has_short_integers(value: ir.Attribute) -> bool:
    """Whether `value` is a few numbers of a type that Python's bindings can read."""
    if not isinstance(value, ir.DenseIntElementsAttr) or len(value) > _SHORT:
        return False
    element = value.type.element_type
    return isinstance(element, ir.IndexType) or element.width in (1, 8, 16, 32, 64)


def _integers(function: Callable[..., Expr]) -> Rule:
    """Of an operation on integers; on tensors it is elementwise."""

    def rule(op: ir.Operation, facts: Facts) -> None:
        if is_tensor(op.results[0]):
            _elementwise(op, facts)
        elif is_integer(op.results[0]) and all(map(is_integer, op.operands)):
            facts.set_integer(op.results[0], function(*map(facts.integer, op.operands)))

    return rule


def _quotient(round_: Callable[[Expr], Expr]) -> Callable[[Expr, Expr], Expr]:
    """A division of numbers that are not negative; of others nothing is known."""

    def quotient(a: Expr, b: Expr) -> Expr:
        # A divisor of 0 does not occur, and nobody would be told.
        known = is_natural(a) and is_natural(b) and not b.is_zero
        return round_(a / b) if known else unknown_integer()

    return quotient


def _remainder(a: Expr, b: Expr) -> Expr:
    return a - b * _quotient(sympy.floor)(a, b)


def _unsigned(function: Callable[[Expr, Expr], Expr]) -> Callable[[Expr, Expr], Expr]:
    """`function` of numbers that are not negative, which others are taken for otherwise."""

    def checked(a: Expr, b: Expr) -> Expr:
        return function(a, b) if is_natural(a) and is_natural(b) else unknown_integer()

    return checked


def _select(op: ir.Operation, facts: Facts) -> None:
    choice, yes, no = op.operands
    if is_integer(yes) and facts.integer(yes) == facts.integer(no):
        facts.set_integer(op.results[0], facts.integer(yes))
    elif is_tensor(choice) or (is_tensor(yes) and facts.shape(yes) == facts.shape(no)):
        facts.set_shape(op.results[0], facts.shape(yes), op)


def _elementwise(op: ir.Operation, facts: Facts) -> None:
    shapes = [facts.shape(operand) for operand in op.operands if is_tensor(operand)]
    for shape in shapes[1:]:
        for extent, other in zip(shapes[0], shape, strict=False):
            same(op, extent, other)
    for result in op.results:
        if shapes and is_tensor(result) and len(facts.shape(result)) == len(shapes[0]):
            facts.set_shape(result, shapes[0], op)


def _affine(combine: Callable[..., Expr]) -> Rule:
    def rule(op: ir.Operation, facts: Facts) -> None:
        map_ = ir.AffineMapAttr(op.attributes["map"]).value
        operands = [facts.integer(operand) for operand in op.operands]
        dims, symbols = operands[: map_.n_dims], operands[map_.n_dims :]
        results = [_evaluate(each, dims, symbols) for each in map_.results]
        facts.set_integer(op.results[0], combine(*results))

    return rule


def _evaluate(expression: ir.AffineExpr, dims: list[Expr], symbols: list[Expr]) -> Expr:
    if isinstance(expression, ir.AffineConstantExpr):
        return sympy.Integer(expression.value)
    if isinstance(expression, ir.AffineDimExpr):
        return dims[expression.position]
    if isinstance(expression, ir.AffineSymbolExpr):
        return symbols[expression.position]
    left, right = (_evaluate(each, dims, symbols) for each in (expression.lhs, expression.rhs))
    return _AFFINE[type(expression)](left, right)


def _dim(op: ir.Operation, facts: Facts) -> None:
    source, dim = op.operands
    shape, number = facts.shape(source) if is_tensor(source) else (), facts.integer(dim)
    if number.is_Integer and 0 <= number < len(shape):
        facts.set_integer(op.results[0], shape[int(number)])


def _sized(op: ir.Operation, facts: Facts) -> None:
    """The operands are the dynamic extents, in their order."""
    sizes = iter(map(facts.integer, op.operands))
    type_ = ir.RankedTensorType(op.results[0].type)
    extents = [
        next(sizes) if type_.is_dynamic_dim(dim) else sympy.Integer(type_.get_dim_size(dim))
        for dim in range(type_.rank)
    ]
    facts.set_shape(op.results[0], extents, op)


def _leading(number: int, but: int = 0) -> Rule:
    """Dynamic extents of the results are those of an operand, but for its last `but` ones."""

    def rule(op: ir.Operation, facts: Facts) -> None:
        shape = facts.shape(op.operands[number])
        shape = shape[: len(shape) - but]
        for result in op.results:
            own = facts.shape(result)
            leading = [
                given if mine.is_Dummy else mine for given, mine in zip(shape, own, strict=False)
            ]
            facts.set_shape(result, [*leading, *own[len(leading) :]], op)

    return rule


def _decode_attention(op: ir.Operation, facts: Facts) -> None:
    attention = op.opview
    batch, _ = facts.shape(attention.query)
    facts.set_shape(attention.out, [batch, facts.shape(attention.out)[1]], op)
    for new, old in (
        (attention.new_keys, attention.keys),
        (attention.new_values, attention.values),
    ):
        facts.set_shape(new, facts.shape(old), op)


def _cast(op: ir.Operation, facts: Facts) -> None:
    source, result = op.operands[0], op.results[0]
    if is_tensor(source) and is_tensor(result):
        facts.set_shape(result, facts.shape(source), op)


def _expand_shape(op: ir.Operation, facts: Facts) -> None:
    view = op.opview
    extents = _mixed(view.static_output_shape, view.output_shape, facts)
    groups = [[each.value for each in group] for group in view.reassociation]
    for extent, group in zip(facts.shape(view.src), groups, strict=True):
        same(op, extent, sympy.Mul(*(extents[dim] for dim in group)))
    facts.set_shape(view.result, extents, op)


def _collapse_shape(op: ir.Operation, facts: Facts) -> None:
    view = op.opview
    shape = facts.shape(view.src)
    groups = [[each.value for each in group] for group in view.reassociation]
    extents = [sympy.Mul(*(shape[dim] for dim in group)) for group in groups]
    facts.set_shape(view.result, extents, op)


def _extract_slice(op: ir.Operation, facts: Facts) -> None:
    view = op.opview
    sizes = _mixed(view.static_sizes, view.sizes, facts)
    facts.set_shape(view.result, [sizes[dim] for dim in kept_dims(view)], op)


def _updated(op: ir.Operation, facts: Facts) -> None:
    """The result is the second operand, changed in places."""
    facts.set_shape(op.results[0], facts.shape(op.operands[1]), op)


def _pad(op: ir.Operation, facts: Facts) -> None:
    view = op.opview
    low = _mixed(view.static_low, view.low, facts)
    high = _mixed(view.static_high, view.high, facts)
    extents = [sum(each) for each in zip(facts.shape(view.source), low, high, strict=True)]
    facts.set_shape(view.result, extents, op)


def _concat(op: ir.Operation, facts: Facts) -> None:
    view = op.opview
    shapes = [facts.shape(each) for each in view.inputs]
    extents = list(shapes[0])
    for shape in shapes[1:]:
        for dim, extent in enumerate(shape):
            if dim == view.dim.value:
                extents[dim] += extent
            else:
                same(op, extents[dim], extent)
    facts.set_shape(view.result, extents, op)


def _reshape(op: ir.Operation, facts: Facts) -> None:
    _, shape = op.operands
    elements = facts.elements(shape)
    if elements is not None and is_tensor(op.results[0]):
        facts.set_shape(op.results[0], elements, op)


def _from_elements(op: ir.Operation, facts: Facts) -> None:
    if len(op.operands) <= _SHORT and all(map(is_integer, op.operands)):
        facts.set_elements(op.results[0], [facts.integer(operand) for operand in op.operands])


def _destination_passing(op: ir.Operation, facts: Facts) -> None:
    """The results have the shapes of the last operands."""
    destinations = list(op.operands)[-len(op.results) :] if op.results else []
    for destination, result in zip(destinations, op.results, strict=True):
        if is_tensor(destination):
            facts.set_shape(result, facts.shape(destination), op)
    if "indexing_maps" in op.attributes:
        _check_loops(op, facts)


def _check_loops(op: ir.Operation, facts: Facts) -> None:
    """Operands that one loop runs over are as large as each other."""
    extents: dict[int, Expr] = {}
    maps = [each.value for each in ir.ArrayAttr(op.attributes["indexing_maps"])]
    for operand, map_ in zip(op.operands, maps, strict=False):
        shape: Shape = facts.shape(operand) if is_tensor(operand) else ()
        for extent, loop in zip(shape, map_.results, strict=False):
            if isinstance(loop, ir.AffineDimExpr):
                same(op, extents.setdefault(loop.position, extent), extent)


def _cache_read(op: ir.Operation, facts: Facts) -> None:
    view = op.opview
    heads = facts.shape(view.cache)[2]
    batch, columns = facts.integer(view.batch), facts.integer(view.columns)
    # The batch is that of the type where this is static.
    own, _, _, channels = facts.shape(view.out)
    extents = [batch if own.is_Dummy else own, heads, columns, channels]
    facts.set_shape(view.out, extents, op)


def _top_k(op: ir.Operation, facts: Facts) -> None:
    rows, _ = facts.shape(op.opview.x)
    for result in op.results:
        facts.set_shape(result, [rows, facts.integer(op.opview.count)], op)


def _cache_load(op: ir.Operation, facts: Facts) -> None:
    """A KV cache `[layers, sequences, heads, capacity, channels]`; other globals are static."""
    type_ = op.results[0].type
    if is_tensor(op.results[0]) and type_.rank >= _CACHE_RANK:
        layers, _, heads, _, *row = facts.shape(op.results[0])
        capacity = symbol("capacity")
        if cell_format(type_) or type_.rank > _CACHE_RANK:  # or the bytes of cells
            capacity = sympy.ceiling(capacity / COLUMNS)
        facts.set_shape(op.results[0], [layers, symbol("sequences"), heads, capacity, *row], op)


def _mixed(static: Sequence[int], dynamic: Sequence[ir.Value], facts: Facts) -> list[Expr]:
    """Numbers of which the dynamic ones are operands."""
    return [
        sympy.Integer(number) if isinstance(number, int) else facts.integer(number)
        for number in mixed_numbers(static, dynamic)
    ]


_AFFINE: dict[type, Callable[[Expr, Expr], Expr]] = {
    ir.AffineAddExpr: lambda a, b: a + b,
    ir.AffineMulExpr: lambda a, b: a * b,
    ir.AffineModExpr: _remainder,
    ir.AffineFloorDivExpr: _quotient(sympy.floor),
    ir.AffineCeilDivExpr: _quotient(sympy.ceiling),
}

RULES: dict[str, Rule] = {
    "arith.constant": _constant,
    "arith.addi": _integers(lambda a, b: a + b),
    "arith.subi": _integers(lambda a, b: a - b),
    "arith.muli": _integers(lambda a, b: a * b),
    "arith.divui": _integers(_quotient(sympy.floor)),
    "arith.divsi": _integers(_quotient(sympy.floor)),
    "arith.floordivsi": _integers(_quotient(sympy.floor)),
    "arith.ceildivui": _integers(_quotient(sympy.ceiling)),
    "arith.ceildivsi": _integers(_quotient(sympy.ceiling)),
    "arith.remui": _integers(_remainder),
    "arith.remsi": _integers(_remainder),
    "arith.minsi": _integers(sympy.Min),
    "arith.minui": _integers(_unsigned(sympy.Min)),
    "arith.maxsi": _integers(sympy.Max),
    "arith.maxui": _integers(_unsigned(sympy.Max)),
    "arith.index_cast": _integers(lambda a: a),
    "arith.index_castui": _integers(lambda a: a),
    "arith.extsi": _integers(lambda a: a),
    "arith.select": _select,
    "affine.apply": _affine(lambda a: a),
    "affine.min": _affine(sympy.Min),
    "affine.max": _affine(sympy.Max),
    "tensor.cast": _cast,
    "tensor.collapse_shape": _collapse_shape,
    "tensor.concat": _concat,
    "tensor.dim": _dim,
    "tensor.empty": _sized,
    "tensor.expand_shape": _expand_shape,
    "tensor.extract_slice": _extract_slice,
    "tensor.from_elements": _from_elements,
    "tensor.generate": _sized,
    "tensor.insert": _updated,
    "tensor.insert_slice": _updated,
    "tensor.pad": _pad,
    "tensor.reshape": _reshape,
    "flow.tensor.alloca": _sized,
    "linalg.pack": _updated,
    "linalg.unpack": _updated,
    "ml_program.global_load": _cache_load,
    "util.global.load": _cache_load,
    "llmc.add_rms_norm": _leading(0),
    "llmc.argmax": _leading(0),
    "llmc.attention": _leading(0),
    "llmc.attention_part": _leading(0),
    "llmc.blocks_to_bytes": _leading(0),
    "llmc.bytes_to_blocks": _leading(0, but=1),
    "llmc.cache_allocate": _sized,
    "llmc.cache_append": _leading(0),
    "llmc.cache_read": _cache_read,
    "llmc.cached_attention": _leading(0),
    "llmc.combine_experts": _leading(1),
    "llmc.combine_grouped_experts": _leading(2),
    "llmc.decode_attention": _decode_attention,
    "llmc.decode_attention_part": _decode_attention,
    "llmc.dequantize": _leading(0, but=1),
    "llmc.draw": _leading(0, but=1),
    "llmc.draw_of_all": _leading(0),
    "llmc.embedding": _leading(0),
    "llmc.expert_linear": _leading(1),
    "llmc.group_rows": _leading(0),
    "llmc.grouped_expert_linear": _leading(0),
    "llmc.grouped_quantized_expert_linear": _leading(0),
    "llmc.join_float": _elementwise,
    "llmc.layer_norm": _leading(0),
    "llmc.linear": _leading(0),
    "llmc.packed_embedding": _leading(0),
    "llmc.packed_expert_linear": _leading(1),
    "llmc.packed_linear": _leading(0),
    "llmc.packed_quantized_expert_linear": _leading(1),
    "llmc.packed_quantized_linear": _leading(0),
    "llmc.plane_embedding": _leading(0),
    "llmc.plane_linear": _leading(0),
    "llmc.quantize": _leading(0, but=1),
    "llmc.quantize_rows": _leading(0, but=1),
    "llmc.quantized_linear": _leading(0, but=1),
    "llmc.rms_norm": _leading(0),
    "llmc.rotary": _leading(0),
    "llmc.route": _leading(0, but=1),
    "llmc.scale_columns": _leading(0),
    "llmc.scored_route": _leading(0, but=1),
    "llmc.screened_argmax": _leading(0),
    "llmc.split_float": _elementwise,
    "llmc.take_rows": _leading(0),
    "llmc.top_k": _top_k,
}
