"""Block formats are as documented, and what operations on blocks compute is their references."""

import gguf
import numpy as np
import pytest
import torch

from llmc import dialects
from llmc.dialects.blocks import (
    FORMATS,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q6_G16,
    Q8_0,
    BlockFormat,
    common_format,
    fitting,
    recode,
    round_half_away,
)
from llmc.pipelines.passes.bind_parameters import BindParameters
from llmc.pipelines.passes.lower_llmc import LowerLlmc
from llmc.pipelines.passes.quantize_activations import QuantizeActivations
from llmc.pipelines.passes.quantize_weights import QuantizeWeights
from llmc.pipelines.passes.store_blocks_as_bytes import StoreBlocksAsBytes
from tests.arrays import Arrays, assert_same, twin
from tests.compiled import load
from tests.lowered import Case, Operand, check, segments

EACH_FORMAT = pytest.mark.parametrize("format_", FORMATS.values(), ids=FORMATS)
OF_GGUF = (Q4_0, Q4_1, Q8_0)


@pytest.fixture
def arrays() -> Arrays:
    return Arrays()


def in_gguf(format_: BlockFormat) -> gguf.GGMLQuantizationType:
    return gguf.GGMLQuantizationType[format_.name.upper()]


def rows_of_many_kinds(arrays: Arrays, values: int) -> np.ndarray:
    """Random rows of three blocks, and those where a scale or a choice is special."""
    x = arrays.uniform(9, 3 * values)
    x[0] = 0
    x[1] = 1
    x[2, :values] = np.arange(values)
    x[3] *= 1e-4
    x[4, 5], x[4, 20] = 2, -2  # the first of two is the largest
    x[5, 5], x[5, 20] = -2, 2
    x[6] = np.abs(x[6]) + 1
    return x


def random_blocks(arrays: Arrays, format_: BlockFormat, *shape: int) -> np.ndarray:
    """Blocks with every pattern of bits, whose values are between -1 and 1."""
    blocks = np.zeros(shape, format_.dtype)
    blocks["packed"] = arrays.integers(256, *blocks["packed"].shape)
    blocks["scale"] = arrays.uniform(*shape) / 2**format_.bits
    if format_.has_minimum:
        blocks["minimum"] = arrays.uniform(*shape) / 2
    return blocks


def on_grid(arrays: Arrays, format_: BlockFormat) -> np.ndarray:
    """Rows whose scale is a power of two, so that arithmetic on them is exact, ties included."""
    half_steps = 127 if format_ == Q8_0 else format_.most
    values = format_.values
    x = arrays.integers(2 * half_steps + 1, 6, 2 * values) - half_steps
    if format_.offset:
        extreme = 2 * format_.offset
        x[:, 7::values] = extreme * np.array([[-1], [1], [-1], [1], [-1], [1]])
        x[::3, 19::values] = extreme
    elif format_.has_minimum:
        x[:, 7::values], x[:, 19::values] = -half_steps, half_steps
    else:
        x[:, 7::values] = 254
    x[5, :values] = 0
    return (x / 16).astype(np.float32)


def test_halves_are_rounded_away_from_0():
    """Of a half and the floats beside it, what doubles give, in which the sum is exact."""
    halves = np.arange(-300, 301, dtype=np.float32) / 2
    for x in (halves, *(np.nextafter(halves, np.float32(to)) for to in (-np.inf, np.inf))):
        expected = np.copysign(np.floor(np.abs(x.astype(np.float64)) + 0.5), x)
        assert (round_half_away(x) == expected).all()


@EACH_FORMAT
def test_integers_are_packed_however_they_lie(arrays, format_):
    stored = arrays.integers(2**format_.bits, format_.values, 5).astype(np.uint8).T
    assert (format_.unpack(format_.pack(stored)) == stored).all()


@pytest.mark.parametrize("format_", OF_GGUF, ids=lambda format_: format_.name)
def test_blocks_are_ggufs(arrays, format_):
    x = rows_of_many_kinds(arrays, format_.values)
    blocks, theirs = format_.encode(x), gguf.quantize(x, in_gguf(format_))
    assert (format_.values, format_.bytes) == gguf.GGML_QUANT_SIZES[in_gguf(format_)]
    assert blocks.tobytes() == theirs.tobytes()
    assert_same(format_.decode(blocks), gguf.dequantize(theirs, in_gguf(format_)), tolerance=0)


@pytest.mark.parametrize("format_", [Q5_0, Q5_1], ids=lambda format_: format_.name)
def test_blocks_of_5_bits_are_ggufs_in_another_order(arrays, format_):
    x = rows_of_many_kinds(arrays, format_.values)
    blocks, theirs = format_.encode(x), gguf.quantize(x, in_gguf(format_))
    assert (format_.values, format_.bytes) == gguf.GGML_QUANT_SIZES[in_gguf(format_)]
    assert_same(format_.decode(blocks), gguf.dequantize(theirs, in_gguf(format_)), tolerance=0)
    # Four bits of a value and of that 16 after it; a fifth of every fourth value, then.
    packed = blocks["packed"][8, 0].astype(int)
    stored = format_.integers(blocks)[8, 0].astype(int) + format_.offset
    assert (packed[:16] == (stored[:16] & 15 | (stored[16:] & 15) << 4)).all()
    fifths = [sum((stored[i + 4 * k] >> 4) << k for k in range(8)) for i in range(4)]
    assert packed[16:].tolist() == fifths


@pytest.mark.parametrize("values", [64, 128])
def test_larger_blocks(arrays, values):
    """Blocks as int4_g64 and int4_g128 are said to be, value by value."""
    format_, x = FORMATS[f"int4_g{values}"], rows_of_many_kinds(arrays, values)
    blocks = format_.encode(x)
    assert (blocks.shape, format_.bytes) == ((9, 3), 4 + values // 2)
    for row, number in np.ndindex(blocks.shape):
        stored = blocks[row, number].tobytes()
        scale, minimum = map(float, np.frombuffer(stored[:4], np.float16))
        fours = [byte & 15 for byte in stored[4:]] + [byte >> 4 for byte in stored[4:]]
        meant = np.array([scale * q + minimum for q in fours])
        part = slice(number * values, (number + 1) * values)
        assert_same(format_.decode(blocks)[row, part], meant.astype(np.float32))
        # The nearest of 16 values; the minimum and 15 scales are rounded to float16.
        rounded = 2**-11 * (15 * scale + abs(minimum)) + 16 * 2**-25
        assert np.abs(meant - x[row, part]).max() <= 0.5 * scale + rounded


def test_which_blocks_fill_rows():
    names = {
        (name, length): format_ and format_.name
        for name in FORMATS
        for length in (32, 48, 576, 1024)
        if (format_ := fitting(FORMATS[name], length)) != FORMATS[name]
    }
    assert names == {
        **{(name, 48): None for name in FORMATS if name != "q6_g16"},
        ("int4_g64", 32): "q4_1",
        ("int4_g128", 32): "q4_1",
        ("int4_g128", 576): "int4_g64",
    }


@EACH_FORMAT
def test_dequantize(arrays, format_):
    cases = []
    for name, blocks in [
        ("row", random_blocks(arrays, format_, 3)),
        ("matrix", random_blocks(arrays, format_, 5, 2)),
        ("stack", random_blocks(arrays, format_, 2, 3, 1)),
    ]:
        values, lead = dialects.DequantizeOp.reference(blocks), "abc"[: blocks.ndim - 1]
        case = Case(
            name,
            "llmc.dequantize",
            [Operand(blocks, f"{lead}k")],
            "",
            Operand(values, f"{lead}k"),
            tolerance=2**-23,  # a product and a sum may be rounded as one
        )
        cases += case.in_both(f"{lead}k")
    check(cases)


@EACH_FORMAT
def test_fields(arrays, format_):
    blocks = random_blocks(arrays, format_, 3, 2)
    cases = []
    for field in ("integers", *format_.floats):
        values = dialects.BlockFieldOp.reference(blocks, field)
        result = Operand(values, "nbs" if field == "integers" else "nb")
        operands, attributes = [Operand(blocks, "nb")], f'field = "{field}"'
        cases.append(Case(field, "llmc.block_field", operands, attributes, result, tolerance=0))
    check(cases)


def test_integers_lie_in_the_order_of_values(arrays):
    blocks = random_blocks(arrays, Q4_0, 3, 2)
    pairs = dialects.BlockFieldOp.reference(blocks, "integers").view(np.uint8)
    values = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(3, 2, 32).astype(np.int8) - 8
    np.testing.assert_array_equal(values, Q4_0.integers(blocks))


@EACH_FORMAT
def test_quantize(arrays, format_):
    x = on_grid(arrays, format_)
    blocks = dialects.QuantizeOp.reference(x, format_)
    if format_ in OF_GGUF:
        assert blocks.tobytes() == gguf.quantize(x, in_gguf(format_)).tobytes()
    elif format_ in (Q5_0, Q5_1):
        theirs = gguf.dequantize(gguf.quantize(x, in_gguf(format_)), in_gguf(format_))
        assert_same(format_.decode(blocks), theirs, tolerance=0)
    else:
        # Half a step, or all of one where a value and its negative are the largest.
        assert np.abs(format_.decode(blocks) - x).max() == (2 if format_.offset else 1) / 16
    case = Case(
        "quantize",
        "llmc.quantize",
        [Operand(x, "nk")],
        "",
        Operand(blocks, "nk"),
        tolerance=0,
    )
    check(case.in_both("nk"))


def test_quantize_rows(arrays):
    x = on_grid(arrays, Q8_0)
    values, scales = dialects.QuantizeRowsOp.reference(x, Q8_0.values)
    theirs = gguf.quantize(x, in_gguf(Q8_0)).view(Q8_0.dtype)
    assert_same(scales.astype(np.float16), theirs["scale"], tolerance=0)
    assert_same(values.reshape(*scales.shape, -1), theirs["packed"].view(np.int8), tolerance=0)
    case = Case(
        "matrix",
        "llmc.quantize_rows",
        [Operand(x, "tk")],
        "group = 32 : i64",
        [Operand(values, "tk"), Operand(scales, "tb")],
        tolerance=0,
    )
    row = Case(
        "row",
        "llmc.quantize_rows",
        [Operand(x[0], "k")],
        "group = 32 : i64",
        [Operand(values[0], "k"), Operand(scales[0], "b")],
        tolerance=0,
    )
    check([*case.in_both("tkb"), *row.in_both("kb")])


@EACH_FORMAT
def test_quantized_linear(arrays, format_):
    reference = dialects.QuantizedLinearOp.reference
    cases = []
    for batch, tokens, outputs, count, bias in [(1, 1, 7, 2, False), (2, 3, 5, 3, True)]:
        x = arrays.uniform(batch, tokens, count * format_.values)
        weight = random_blocks(arrays, format_, outputs, count)
        shift = arrays.uniform(outputs) if bias else None
        shifts = [Operand(shift, "n")] if bias else []
        y = reference(x, weight, bias=shift)
        on_floats = Case(
            f"floats_{tokens}",
            "llmc.quantized_linear",
            [Operand(x, "btk"), Operand(weight, "nc"), *shifts],
            segments(1, 1, 0, bias),
            Operand(y, "btn"),
        )
        values, scales = dialects.QuantizeRowsOp.reference(x, format_.values)
        quantized = reference(values, weight, scales, shift)
        # A value is off by half a scale at most, and a weight is at most 1.
        assert np.abs(quantized - y).max() <= 0.5 * format_.values * scales.sum(-1).max()
        on_integers = Case(
            f"integers_{tokens}",
            "llmc.quantized_linear",
            [Operand(values, "btk"), Operand(weight, "nc"), Operand(scales, "btc"), *shifts],
            segments(1, 1, 1, bias),
            Operand(quantized, "btn"),
        )
        cases += [*on_floats.in_both("bt"), *on_integers.in_both("bt")]
    check(cases)


@pytest.mark.parametrize(
    ("formats", "common"),
    [
        ([Q5_0], Q5_0),
        ([Q4_1, Q4_0], Q4_1),
        ([Q4_0, Q5_0], Q5_0),
        ([Q4_1, Q5_0], Q5_1),
        ([Q5_1, Q6_G16], Q8_0),
        ([Q4_1, Q8_0], Q8_0),
    ],
)
def test_the_smallest_format_that_holds_all(formats, common):
    assert common_format(formats) == common


@EACH_FORMAT
@pytest.mark.parametrize("to", FORMATS.values(), ids=FORMATS)
def test_blocks_of_another_format(arrays, format_, to):
    blocks = random_blocks(arrays, format_, 5, 8)
    blocks["scale"][0] *= -1
    values = format_.decode(blocks)
    found = recode(blocks, to)
    as_wide = to.values == format_.values and to.bits >= format_.bits
    if as_wide and (to.has_minimum or not format_.has_minimum):
        assert (to.decode(found) == values).all()
    else:
        assert (found == to.encode(values)).all()


def test_embedding(arrays):
    tables = {
        "wide": arrays.uniform(9, 5),
        "narrow": arrays.uniform(9, 5).astype(np.float16),
        **{name: random_blocks(arrays, each, 9, 2) for name, each in FORMATS.items()},
    }
    cases = []
    for (name, table), shape in zip(
        tables.items(),
        [(4,), (2, 3), (1, 4), (3,), (2, 2), (1,), (2,), (3, 1), (5,), (2, 1)],
        strict=True,
    ):
        ids, lead = arrays.integers(9, *shape), "bt"[-len(shape) :]
        rows = dialects.EmbeddingOp.reference(ids, table).astype(np.float32)
        if name == "wide":
            assert_same(rows, twin("embedding", ids, table))
        case = Case(
            name,
            "llmc.embedding",
            [Operand(ids, lead), Operand(table, "vk")],
            "",
            Operand(rows, f"{lead}k"),
            tolerance=2**-23,
        )
        cases += [*case.in_both(lead)]
    check(cases)


LAYER = """
  func.func @layer(%x: tensor<?x384xf32>) -> tensor<?x6xf32> {
    %w = "llmc.parameter"() {sources = ["w"]} : () -> tensor<6x384xf32>
    %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
       : (tensor<?x384xf32>, tensor<6x384xf32>) -> tensor<?x6xf32>
    return %y : tensor<?x6xf32>
  }"""


@EACH_FORMAT
@pytest.mark.parametrize("activations", [(), (QuantizeActivations(),)], ids=["floats", "integers"])
def test_a_quantized_layer_of_a_model(arrays, format_, activations, tmp_path):
    x, weight = arrays.uniform(3, 384), arrays.uniform(6, 384)
    steps = (QuantizeWeights(format_.name), *activations, BindParameters(), LowerLlmc())
    weights = {"w": torch.from_numpy(weight)}
    layer = load(LAYER, (*steps, StoreBlocksAsBytes()), weights, tmp_path)("layer")
    values, scales = x, None
    if activations:
        values, scales = dialects.QuantizeRowsOp.reference(x, format_.values)
    blocks = format_.encode(weight)
    expected = dialects.QuantizedLinearOp.reference(values, blocks, scales)
    assert_same(layer(x).to_host(), expected)
