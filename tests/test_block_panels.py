"""Panels hold the bytes of the blocks, and operations on panels compute their references."""

import numpy as np
import pytest
import torch

from llmc import dialects
from llmc.dialects.block_panels import pack_blocks, unpack_blocks
from llmc.dialects.blocks import FORMATS, BlockFormat
from llmc.pipelines.passes.bind_parameters import BindParameters
from llmc.pipelines.passes.lower_llmc import LowerLlmc
from llmc.pipelines.passes.pack_blocks import PackBlocks
from llmc.pipelines.passes.quantize_weights import QuantizeWeights
from tests.arrays import Arrays, assert_same
from tests.compiled import load
from tests.lowered import Case, Operand, check, segments

EACH_FORMAT = pytest.mark.parametrize("format_", FORMATS.values(), ids=FORMATS)


@pytest.fixture
def arrays() -> Arrays:
    return Arrays()


def random_blocks(arrays: Arrays, format_: BlockFormat, rows: int, count: int) -> np.ndarray:
    return format_.encode(arrays.uniform(rows, count * format_.values))


@EACH_FORMAT
def test_where_each_byte_lies(arrays, format_):
    blocks, columns = random_blocks(arrays, format_, 11, 3), 4
    panels = pack_blocks(blocks, columns).view(np.uint8)
    assert panels.shape == (3, 3, columns * format_.bytes)
    for row, block in np.ndindex(blocks.shape):
        cell, column = panels[row // columns, block], row % columns
        given, at = blocks[row, block], 0
        for field in format_.floats:
            halves = cell[at : at + 2 * columns].view("<f2")
            assert halves[column] == given[field]
            at += 2 * columns
        for group, part in enumerate(given["packed"].reshape(-1, 4)):
            start = at + (group * columns + column) * 4
            assert (cell[start : start + 4] == part).all()
    assert not panels[2].reshape(3, -1, columns, 2)[:, 0, 3:].any()  # the scale of row 12


@EACH_FORMAT
@pytest.mark.parametrize(("rows", "columns"), [(16, 8), (11, 4), (3, 16)])
def test_panels_are_unpacked(arrays, format_, rows, columns):
    blocks = random_blocks(arrays, format_, rows, 2)
    assert (unpack_blocks(pack_blocks(blocks, columns), format_, rows) == blocks).all()


def test_panels_of_experts_are_those_of_each(arrays):
    experts = np.stack([random_blocks(arrays, FORMATS["q4_1"], 11, 2) for _ in range(3)])
    panels = pack_blocks(experts, 4)
    assert (panels == np.stack([pack_blocks(expert, 4) for expert in experts])).all()
    assert (unpack_blocks(panels, FORMATS["q4_1"], 11) == experts).all()
    packed = Case(
        "packed",
        "llmc.pack_blocks",
        [Operand(experts, "enb")],
        "columns = 4 : i64",
        Operand(panels, "epbs"),
        tolerance=0,
    )
    check([packed])


def test_numbers_are_no_blocks(arrays):
    with pytest.raises(ValueError, match="no matrix of blocks"):
        pack_blocks(arrays.uniform(4, 32), 4)


@EACH_FORMAT
def test_pack_blocks(arrays, format_):
    cases = []
    for rows, count in [(8, 2), (11, 3)]:
        blocks = random_blocks(arrays, format_, rows, count)
        panels = Operand(dialects.PackBlocksOp.reference(blocks, 4), "pks")
        given = [Operand(blocks, "nk")]
        cases.append(Case(f"rows{rows}", "llmc.pack_blocks", given, "columns = 4 : i64", panels))
    check(cases)


@EACH_FORMAT
def test_packed_quantized_linear(arrays, format_):
    cases = []
    for batch, tokens, outputs, count, bias in [(1, 1, 8, 2, False), (2, 3, 11, 3, True)]:
        x = arrays.uniform(batch, tokens, count * format_.values)
        blocks = random_blocks(arrays, format_, outputs, count)
        panels, shift = pack_blocks(blocks, 4), arrays.uniform(outputs) if bias else None
        y = dialects.PackedQuantizedLinearOp.reference(x, panels, format_.name, outputs, shift)
        values, scales = dialects.QuantizeRowsOp.reference(x, format_.values)
        assert_same(y, dialects.QuantizedLinearOp.reference(values, blocks, scales, shift))
        case = Case(
            f"tokens{tokens}",
            "llmc.packed_quantized_linear",
            [Operand(x, "btk"), Operand(panels, "pcs"), *([Operand(shift, "n")] if bias else [])],
            f'{segments(1, 1, bias)}, format = "{format_.name}"',
            Operand(y.astype(np.float32), "btn"),
        )
        cases += case.in_both("bt")
    check(cases)


@EACH_FORMAT
def test_packed_embedding(arrays, format_):
    cases = []
    for number, shape in enumerate([(5,), (2, 3)]):
        blocks = random_blocks(arrays, format_, 11, 2)
        panels, ids = pack_blocks(blocks, 4), arrays.integers(11, *shape)
        rows = dialects.PackedEmbeddingOp.reference(ids, panels, format_.name)
        assert_same(rows, format_.decode(blocks)[ids])
        lead = "bt"[-len(shape) :]
        case = Case(
            f"shape{number}",
            "llmc.packed_embedding",
            [Operand(ids, lead), Operand(panels, "pcs")],
            f'format = "{format_.name}"',
            Operand(rows, f"{lead}k"),
            tolerance=2**-23,
        )
        cases += case.in_both(lead)
    check(cases)


TIED = """
  func.func @tied(%x: tensor<?x384xf32>, %i: tensor<?xi64>)
      -> (tensor<?x6xf32>, tensor<?x384xf32>) {
    %w = "llmc.parameter"() {sources = ["w"], llmc.stored = ["q4_1"]} : () -> tensor<6x384xf32>
    %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
       : (tensor<?x384xf32>, tensor<6x384xf32>) -> tensor<?x6xf32>
    %e = "llmc.embedding"(%i, %w) : (tensor<?xi64>, tensor<6x384xf32>) -> tensor<?x384xf32>
    return %y, %e : tensor<?x6xf32>, tensor<?x384xf32>
  }"""


@EACH_FORMAT
@pytest.mark.parametrize("stored", ["numbers", "blocks"])
def test_a_tied_weight_of_a_model(arrays, format_, stored, tmp_path):
    x, ids = arrays.uniform(3, 384), arrays.integers(6, 5)
    # Blocks that encoding would not give back show that they stay what they are.
    blocks = format_.encode(arrays.uniform(6, 384))
    blocks["scale"] *= -1
    weight = blocks if stored == "blocks" else torch.from_numpy(format_.decode(blocks))
    if stored == "numbers":
        blocks = format_.encode(weight.numpy())
    steps = (QuantizeWeights(format_.name), PackBlocks(columns=4), BindParameters(), LowerLlmc())
    y, rows = load(TIED, steps, {"w": weight}, tmp_path)("tied")(x, ids)
    values, scales = dialects.QuantizeRowsOp.reference(x, format_.values)
    # Up to 12 products of blocks and as many of minima are summed in float32, to less than 64.
    expected = dialects.QuantizedLinearOp.reference(values, blocks, scales)
    assert_same(y.to_host(), expected, tolerance=24 * 64 * 2**-24)
    assert_same(rows.to_host(), format_.decode(blocks)[ids], tolerance=2**-22)
