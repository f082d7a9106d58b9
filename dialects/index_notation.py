"""Builds linalg operations from index notation, the way one writes them on paper.

    contract("tk,nk->tn", x, w)              sum over k of x[t, k] * w[n, k]
    reduce("tn->t", arith.maximumf, lowest, x)
    pointwise("tn,t->tn", lambda x, m, _: arith.subf(x, m), x, m)

Each letter is a loop; sizes come from the operands that bear the letter. `1` is a dimension of one
element that is broadcast. Shapes may be dynamic. Results have the first operand's element type.
"""

from collections.abc import Callable, Iterable, Mapping
from math import prod
from string import ascii_uppercase
from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg, tensor
from torch_mlir.extras import types as T

Size: TypeAlias = int | ir.Value
Body = Callable[..., ir.Value]


def letters(count: int) -> str:
    """Letters for `count` dimensions that need no names of their own: A, B, C."""
    return ascii_uppercase[:count]


def constant(value: float | int, type_: ir.Type) -> ir.Value:
    """A scalar constant of `type_`."""
    return arith.ConstantOp(type_, value).result


def index(value: int) -> ir.Value:
    """A constant of index type."""
    return constant(value, T.index())


def byte(bits: int) -> ir.Value:
    """A constant i8 of these bits, of which the highest is its sign."""
    return constant(bits - 256 if bits > 127 else bits, T.i8())


def size(value: ir.Value, dim: int) -> Size:
    """The extent of `value`'s dimension `dim`: an int where static, else an index value."""
    if value.type.is_dynamic_dim(dim):
        return tensor.DimOp(value, index(dim)).result
    return value.type.get_dim_size(dim)


def sizes(value: ir.Value) -> list[Size]:
    """All extents of a tensor."""
    return [size(value, dim) for dim in range(value.type.rank)]


def mixed_numbers(static: Iterable[int], dynamic: Iterable[ir.Value]) -> list[Size]:
    """Extents or offsets as an operation holds them: `static`, in whose gaps are the `dynamic`."""
    values, unknown = iter(dynamic), ir.ShapedType.get_dynamic_size()
    return [next(values) if number == unknown else number for number in static]


def as_value(extent: Size) -> ir.Value:
    """An extent as an index value."""
    return index(extent) if isinstance(extent, int) else extent


def filled(extents: list[Size], value: float | int, element: ir.Type) -> ir.Value:
    """A tensor of `extents` with every element `value`."""
    return linalg.fill(constant(value, element), outs=[tensor.empty(extents, element)])


def reduce(
    notation: str,
    body: Body,
    start: float | int,
    *operands: ir.Value,
    element: ir.Type | None = None,
    **given: Size,
) -> ir.Value:
    """Folds `body(*elements, accumulator)` over the letters that the result lacks.

    `element` is the result's element type, `given` the size of letters that no operand bears.
    """
    result, loops, extents = _parse(notation, operands, given)
    element = element or operands[0].type.element_type
    out = filled([extents[letter] for letter in result], start, element)
    return _generic(notation, loops, body, operands, out)


def contract(notation: str, *operands: ir.Value) -> ir.Value:
    """The sum of products that `notation` spells, accumulated in the first operand's type."""

    def multiply_add(x: ir.Value, y: ir.Value, accumulator: ir.Value) -> ir.Value:
        return arith.addf(accumulator, arith.mulf(x, widened(y, x.type)))

    return reduce(notation, multiply_add, 0.0, *operands)


def pointwise(
    notation: str, body: Body, *operands: ir.Value, element: ir.Type | None = None, **given: Size
) -> ir.Value:
    """`body(*elements, old)` at every point of the result; `old` is undefined.

    `element` is the result's element type, `given` the size of letters that no operand bears.
    """
    result, loops, extents = _parse(notation, operands, given)
    element = element or operands[0].type.element_type
    out = tensor.empty([extents[letter] for letter in result], element)
    return _generic(notation, loops, body, operands, out)


def widened(value: ir.Value, type_: ir.Type) -> ir.Value:
    """A float, or a vector of them, as one of `type_`, which may be its own."""
    return value if value.type == type_ else arith.extf(type_, value)


def loop_index(position: int) -> ir.Value:
    """Inside a body: the value of the loop at `position`.

    Loops are in this order: the result's letters, those of `given` that it lacks, the others as the
    operands bear them.
    """
    return linalg.IndexOp(position).result


def expand(value: ir.Value, groups: list[list[Size]]) -> ir.Value:
    """Splits each dimension of `value` into the extents of its group."""
    shape = [extent for group in groups for extent in group]
    return tensor.expand_shape(
        ir.RankedTensorType.get(_static(shape), value.type.element_type),
        value,
        _reassociation(groups),
        [extent for extent in shape if not isinstance(extent, int)],
        _static(shape),
    )


def collapse(value: ir.Value, groups: list[int]) -> ir.Value:
    """Merges `value`'s dimensions, `groups[i]` of them into result dimension i."""
    shape, at = [], 0
    for count in groups:
        extents = [value.type.shape[dim] for dim in range(at, at + count)]
        dynamic = any(extent == ir.ShapedType.get_dynamic_size() for extent in extents)
        shape.append(ir.ShapedType.get_dynamic_size() if dynamic else prod(extents))
        at += count
    return tensor.collapse_shape(
        ir.RankedTensorType.get(shape, value.type.element_type),
        value,
        _reassociation([[0] * count for count in groups]),
    )


def slice_of(
    value: ir.Value, offsets: list[Size], extents: list[Size], shape: list[Size]
) -> ir.Value:
    """The part of `value` at `offsets` of `extents`, unit dimensions dropped to give `shape`."""
    return tensor.extract_slice(
        ir.RankedTensorType.get(_static(shape), value.type.element_type),
        value,
        *_mixed(offsets, extents),
    )


def slice_of_rows(value: ir.Value, start: int, count: int) -> ir.Value:
    """`count` elements of each row of `value [..., N]`, from `start` on."""
    *leading, _ = sizes(value)
    extents: list[Size] = [*leading, count]
    return slice_of(value, [*[0] * len(leading), start], extents, extents)


def part(value: ir.Value, first: Size, count: Size) -> ir.Value:
    """`count` elements of `value [N, ...]` along its first dimension, from number `first` on."""
    _, *rest = value.type.shape
    extents: list[Size] = [count, *rest]
    return slice_of(value, [first, *[0] * len(rest)], extents, extents)


def kept_dims(cut: tensor.ExtractSliceOp) -> list[int]:
    """The dimensions of its source that a slice has in its result: extents of 1 may be dropped."""
    kept: list[int] = []
    shape = cut.result.type.shape
    for dim, extent in enumerate(cut.static_sizes):
        if len(kept) < len(shape) and extent == shape[len(kept)]:
            kept.append(dim)
    return kept


def insert(value: ir.Value, into: ir.Value, offsets: list[Size], extents: list[Size]) -> ir.Value:
    """`into` with `value` written at `offsets`, where it covers `extents`."""
    return tensor.insert_slice(value, into, *_mixed(offsets, extents))


def filled_up(value: ir.Value, dim: int, extent: int) -> ir.Value:
    """`value` with zeros after it, to make `extent` elements of dimension `dim`."""
    extents, element = sizes(value), value.type.element_type
    if extents[dim] == extent:
        return value
    zero = 0.0 if isinstance(element, ir.FloatType) else 0
    zeros = filled([*extents[:dim], extent, *extents[dim + 1 :]], zero, element)
    return insert(value, zeros, [0] * len(extents), extents)


def _mixed(offsets: list[Size], extents: list[Size]) -> tuple:
    ones = [1] * len(offsets)
    dynamic = [[s for s in part if not isinstance(s, int)] for part in (offsets, extents)]
    return *dynamic, [], _static(offsets), _static(extents), ones


def _static(extents: list[Size]) -> list[int]:
    unknown = ir.ShapedType.get_dynamic_size()
    return [extent if isinstance(extent, int) else unknown for extent in extents]


def _reassociation(groups: list[list]) -> list[list[int]]:
    out, at = [], 0
    for group in groups:
        out.append(list(range(at, at + len(group))))
        at += len(group)
    return out


def _parse(
    notation: str, operands: tuple[ir.Value, ...], given: Mapping[str, Size]
) -> tuple[str, str, dict[str, Size]]:
    inputs, result = notation.split("->")
    extents: dict[str, Size] = dict(given)
    for letters, operand in zip(inputs.split(","), operands, strict=True):
        for dim, letter in enumerate(letters):
            known = extents.get(letter)
            if letter != "1" and not isinstance(known, int):
                static = not operand.type.is_dynamic_dim(dim)
                if known is None or static:
                    extents[letter] = size(operand, dim)
    loops = result + "".join(letter for letter in extents if letter not in result)
    return result, loops, extents


def _generic(
    notation: str, loops: str, body: Body, operands: tuple[ir.Value, ...], out: ir.Value
) -> ir.Value:
    inputs, result = notation.split("->")
    maps = [_map(letters, loops) for letters in [*inputs.split(","), result]]
    kinds = ["parallel" if letter in result else "reduction" for letter in loops]
    op = linalg.GenericOp([out.type], list(operands), [out], maps, kinds)
    types = [value.type.element_type for value in (*operands, out)]
    block = op.regions[0].blocks.append(*types, arg_locs=None)
    with ir.InsertionPoint(block):
        linalg.YieldOp([body(*block.arguments)])
    return op.results[0]


def _map(letters: str, loops: str) -> ir.AffineMap:
    results = [
        ir.AffineConstantExpr.get(0) if letter == "1" else ir.AffineDimExpr.get(loops.index(letter))
        for letter in letters
    ]
    return ir.AffineMap.get(len(loops), 0, results)
