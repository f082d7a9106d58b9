"""Scheduled kernels compute what they did, whatever the shapes and the parameters."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch_mlir import ir
from torch_mlir.dialects import arith, linalg, math, tensor
from torch_mlir.extras import types as T

from llmc.dialects import QuantizedLinearOp
from llmc.dialects.block_bytes import to_blocks
from llmc.dialects.block_types import block_type
from llmc.dialects.blocks import Q4_0, Q4_1
from llmc.dialects.index_notation import (
    constant,
    contract,
    pointwise,
    reduce,
    sizes,
)
from llmc.pipelines.passes.lower_llmc import LowerLlmc
from llmc.pipelines.passes.store_blocks_as_bytes import StoreBlocksAsBytes
from tests.scheduled import KernelCase

_FEW = settings(max_examples=8, derandomize=True)
_SIZE = st.integers(1, 40)
_LANES = st.sampled_from([4, 8, 16])


def _random(*shape: int, element: type = np.float32) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(element)


def _add(a: ir.Value, b: ir.Value, _: ir.Value) -> ir.Value:
    return arith.addf(a, b)


@_FEW
@given(
    tokens=_SIZE,
    outputs=_SIZE,
    inputs=_SIZE,
    narrow=st.booleans(),
    stored=st.sampled_from(["nk", "kn"]),
    bias=st.booleans(),
    dynamic=st.booleans(),
    rows=st.integers(1, 7),
    columns=st.integers(1, 33),
)
@example(
    tokens=3,
    outputs=5,
    inputs=4,
    narrow=True,
    stored="kn",
    bias=False,
    dynamic=False,
    rows=2,
    columns=4,
)
def test_matmul(tokens, outputs, inputs, narrow, stored, bias, dynamic, rows, columns):
    element = np.float16 if narrow else np.float32
    shape = (outputs, inputs) if stored == "nk" else (inputs, outputs)
    arguments = [_random(tokens, inputs), _random(*shape, element=element), _random(outputs)]

    def build(x: ir.Value, w: ir.Value, b: ir.Value) -> ir.Value:
        y = contract(f"tk,{stored}->tn", x, w)
        return pointwise("tn,n->tn", _add, y, b) if bias else y

    case = KernelCase("matmul", build, arguments, dynamic=0 if dynamic else None)
    actual = case.run(f"matmul{{rows={rows} columns={columns}}}")
    x, w, b = (argument.astype(np.float64) for argument in arguments)
    expected = np.einsum(f"tk,{stored}->tn", x, w) + (b if bias else 0)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-5)


@_FEW
@given(
    outputs=_SIZE,
    inputs=st.integers(1, 100),
    narrow=st.booleans(),
    flat=st.booleans(),
    bias=st.booleans(),
    rows=st.integers(1, 9),
    lanes=_LANES,
)
def test_matvec(outputs, inputs, narrow, flat, bias, rows, lanes):
    """Of a vector, or of a matrix of one row."""
    element = np.float16 if narrow else np.float32
    t = "" if flat else "t"
    arguments = [
        _random(*([inputs] if flat else [1, inputs])),
        _random(outputs, inputs, element=element),
        _random(outputs),
    ]

    def build(x: ir.Value, w: ir.Value, b: ir.Value) -> ir.Value:
        y = contract(f"{t}k,nk->{t}n", x, w)
        return pointwise(f"{t}n,n->{t}n", _add, y, b) if bias else y

    actual = KernelCase("matvec", build, arguments).run(f"matvec{{rows={rows} lanes={lanes}}}")
    x, w, b = (argument.astype(np.float64) for argument in arguments)
    np.testing.assert_allclose(actual, x @ w.T + (b if bias else 0), rtol=0, atol=2e-5)


@_FEW
@given(
    outputs=_SIZE,
    blocks=st.integers(1, 9),
    format_=st.sampled_from([Q4_0, Q4_1]),
    bias=st.booleans(),
    rows=st.integers(1, 17),
    unroll=st.integers(1, 4),
)
def test_matvec_q4(outputs, blocks, format_, bias, rows, unroll):
    x, b = _random(1, blocks * format_.values), _random(outputs)
    weight = format_.encode(_random(outputs, blocks * format_.values))

    def build(x: ir.Value, w: ir.Value, b: ir.Value) -> ir.Value:
        blocks = to_blocks(w, block_type(format_))
        type_ = ir.RankedTensorType.get([1, outputs], T.f32())
        return QuantizedLinearOp(x, blocks, type_, bias=b if bias else None).out

    arguments = [x, weight.view(np.int8).reshape(outputs, blocks, -1), b]
    case = KernelCase("matvec_q4", build, arguments, passes=[LowerLlmc(), StoreBlocksAsBytes()])
    actual = case.run(f"matvec_q4{{rows={rows} unroll={unroll}}}")
    expected = QuantizedLinearOp.reference(x.astype(np.float64), weight, bias=b if bias else None)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-5)


@st.composite
def _shape_and_dynamic(
    draw: st.DrawFn, least: int, rows: bool = True
) -> tuple[list[int], int | None]:
    """A shape of `least` dimensions or more, and which of them is dynamic, the rows' length too."""
    shape = draw(st.lists(st.integers(1, 20), min_size=least, max_size=4))
    return shape, draw(st.none() | st.integers(0, len(shape) - (1 if rows else 2)))


@_FEW
@given(_shape_and_dynamic(1), _LANES)
def test_elementwise(shape_and_dynamic, lanes):
    shape, dynamic = shape_and_dynamic
    letters = "abcd"[: len(shape)]
    twice = f"{letters},{letters}->{letters}"
    # A dynamic row is as long as a row of x; IREE is told of x's dimensions alone.
    arguments = [_random(*shape), _random(*shape[-1:])]
    broadcast = dynamic != len(shape) - 1

    def build(x: ir.Value, w: ir.Value) -> ir.Value:
        e = pointwise(f"{letters}->{letters}", lambda x, _: math.exp(x), x)
        m = e
        if broadcast:
            m = pointwise(
                f"{letters},{letters[-1]}->{letters}", lambda x, w, _: arith.mulf(x, w), e, w
            )
        return pointwise(twice, _add, e, m)

    case = KernelCase("elementwise", build, arguments, dynamic)
    actual = case.run(f"elementwise{{lanes={lanes}}}")
    x, w = (argument.astype(np.float64) for argument in arguments)
    expected = np.exp(x) * (1 + (w if broadcast else 1))
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@_FEW
@given(_shape_and_dynamic(2), _LANES)
def test_reduction_of_a_norm(shape_and_dynamic, lanes):
    shape, dynamic = shape_and_dynamic
    letters = "abcd"[: len(shape)]

    def build(x: ir.Value) -> ir.Value:
        def scale(x: ir.Value, total: ir.Value, _: ir.Value) -> ir.Value:
            return arith.mulf(x, math.rsqrt(arith.addf(total, constant(1e-5, total.type))))

        squares = reduce(
            f"{letters}->{letters[:-1]}",
            lambda x, total: arith.addf(total, arith.mulf(x, x)),
            0.0,
            x,
        )
        return pointwise(f"{letters},{letters[:-1]}->{letters}", scale, x, squares)

    (x,) = arguments = [_random(*shape)]
    actual = KernelCase("reduction", build, arguments, dynamic).run(f"reduction{{lanes={lanes}}}")
    expected = x / np.sqrt((x.astype(np.float64) ** 2).sum(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@_FEW
@given(_shape_and_dynamic(2, rows=False), _LANES)
def test_reduction_of_a_softmax(shape_and_dynamic, lanes):
    shape, dynamic = shape_and_dynamic

    def build(x: ir.Value) -> ir.Value:
        room = tensor.empty(sizes(x), x.type.element_type)
        return linalg.softmax([x.type], x, room, x.type.rank - 1)

    (x,) = arguments = [_random(*shape)]
    actual = KernelCase("reduction", build, arguments, dynamic).run(f"reduction{{lanes={lanes}}}")
    powers = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(actual, powers / powers.sum(-1, keepdims=True), rtol=1e-5, atol=1e-6)


@_FEW
@given(shape=st.lists(st.integers(1, 20), min_size=2, max_size=4), most=st.booleans(), lanes=_LANES)
def test_reduction_alone(shape, most, lanes):
    letters = "abcd"[: len(shape)]

    def build(x: ir.Value) -> ir.Value:
        body, start = (arith.maximumf, -np.inf) if most else (arith.addf, 0.0)
        return reduce(f"{letters}->{letters[:-1]}", body, start, x)

    (x,) = arguments = [_random(*shape)]
    actual = KernelCase("reduction", build, arguments).run(f"reduction{{lanes={lanes}}}")
    expected = x.max(-1) if most else x.astype(np.float64).sum(-1)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)
