"""What the importer writes again and again, in linalg and tensor operations."""

from collections.abc import Callable

from torch_mlir import ir
from torch_mlir.dialects import arith, cf, linalg, math, tensor
from torch_mlir.extras import types as T

from llmc.dialects import LinearOp
from llmc.dialects.attributes import i64
from llmc.dialects.index_notation import (
    as_value,
    constant,
    index,
    loop_index,
    pointwise,
    size,
    sizes,
    slice_of,
)
from tests.programs.scope import f32


def linear(
    x: ir.Value, weight: ir.Value, *, bias: ir.Value | None = None, transposed: bool = False
) -> ir.Value:
    """`llmc.linear`, whose result is f32."""
    outputs = weight.type.shape[1 if transposed else 0]
    type_ = f32(*x.type.shape[:-1], outputs)
    return LinearOp(x, weight, i64(int(transposed)), type_, bias=bias).out


def look_up(ids: ir.Value, table: ir.Value, bound: int | None = None) -> ir.Value:
    """Rows `[B, T, N]` of a table, as torch-mlir writes it; up to `bound` with its checks."""

    def row(which: ir.Value, _: ir.Value) -> ir.Value:
        place = arith.index_cast(T.index(), which)
        if bound is not None:
            below = arith.cmpi(arith.CmpIPredicate.slt, place, index(bound))
            cf.assert_(below, "index must be smaller than dim size")
        return tensor.extract(table, [place, loop_index(2)])

    element, width = table.type.element_type, table.type.shape[1]
    return pointwise("bt->btn", row, ids, element=element, n=width)


def last_token(x: ir.Value) -> ir.Value:
    """`[B, T, N]` -> `[B, 1, N]`, the last row in torch's words: -1, brought into range."""
    batch, tokens, width = sizes(x)
    if isinstance(tokens, int):
        place: int | ir.Value = tokens - 1
    else:
        type_ = T.i64()
        count = arith.index_cast(type_, tokens)
        before = arith.addi(count, constant(-1, type_))
        place = arith.minsi(arith.maxsi(before, constant(0, type_)), count)
        place = arith.index_cast(T.index(), place)
    extents = [batch, 1, width]
    return slice_of(x, [0, place, 0], extents, extents)


def add(a: ir.Value, b: ir.Value) -> ir.Value:
    """The sum of tensors of one type, as a generic."""
    return _elementwise(arith.addf, a, b)


def multiply(a: ir.Value, b: ir.Value) -> ir.Value:
    """The product of tensors of one type, as a generic."""
    return _elementwise(arith.mulf, a, b)


def _elementwise(function: Callable[..., ir.Value], *operands: ir.Value) -> ir.Value:
    letters = "abcdefgh"[: operands[0].type.rank]
    notation = f"{','.join([letters] * len(operands))}->{letters}"
    return pointwise(notation, lambda *elements: function(*elements[:-1]), *operands)


def _sigmoid(x: ir.Value) -> ir.Value:
    one = constant(1.0, x.type)
    return arith.divf(one, arith.addf(one, math.exp(arith.negf(x))))


FUNCTIONS: dict[str, Callable[[ir.Value], ir.Value]] = {
    # As torch-mlir writes it: a sigmoid, and then a product.
    "silu": lambda x: multiply(x, FUNCTIONS["sigmoid"](x)),
    "sigmoid": lambda x: _elementwise(_sigmoid, x),
    "tanh": lambda x: _elementwise(math.tanh, x),
    "half": lambda x: _elementwise(lambda e: arith.mulf(e, constant(0.5, e.type)), x),
    "square": lambda x: FUNCTIONS["tanh"](multiply(x, x)),
}


def permuted(x: ir.Value, order: list[int]) -> ir.Value:
    """A linalg.transpose."""
    extents = sizes(x)
    room = tensor.empty([extents[dim] for dim in order], x.type.element_type)
    return linalg.transpose(x, outs=[room], permutation=order).result[0]


def filled_like(rows: ir.Value, value: float, columns: int) -> ir.Value:
    """`[R, columns]` of one value, R being the rows of `rows`."""
    room = tensor.empty([size(rows, 0), columns], rows.type.element_type)
    return linalg.fill(constant(value, rows.type.element_type), outs=[room])


def reshape(x: ir.Value, shape: list[int | ir.Value | None], known: int) -> ir.Value:
    """A `tensor.reshape` as torch-mlir writes `view(.., -1, ..)`: the extent None is computed.

    It is `known`, which the result's type says.
    """
    type_ = T.i64()

    def as_i64(extent: int | ir.Value) -> ir.Value:
        return arith.index_cast(type_, as_value(extent))

    total, others = constant(1, type_), constant(1, type_)
    for extent in sizes(x):
        total = arith.muli(total, as_i64(extent))
    for extent in shape:
        if extent is not None:
            others = arith.muli(others, as_i64(extent))
    inferred = arith.divui(total, others)
    extents = [inferred if extent is None else as_i64(extent) for extent in shape]
    table = tensor.from_elements(ir.RankedTensorType.get([len(shape)], type_), extents)
    static = [known if e is None else e if isinstance(e, int) else -1 for e in shape]
    return tensor.reshape(f32(*static), x, table)
