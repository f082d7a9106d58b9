"""The two parts of blocks keep all their bits."""

import numpy as np
import pytest

from llmc import dialects
from llmc.dialects.block_parts import (
    HIGH,
    LOW,
    PLANES,
    pack_planes,
    unpack_planes,
)
from llmc.dialects.blocks import Q4_0, Q8_0
from tests.arrays import Arrays, assert_same
from tests.lowered import Case, Operand, check, segments


@pytest.fixture
def arrays() -> Arrays:
    return Arrays()


def random_blocks(arrays: Arrays, rows: int, count: int) -> np.ndarray:
    blocks = Q8_0.encode(arrays.uniform(rows, 32 * count))
    blocks["packed"][0] = 128  # -128, which no encoder makes, but a file may hold
    return blocks


@pytest.mark.parametrize("columns", [4, 16])
def test_nothing_is_lost(arrays, columns):
    blocks = random_blocks(arrays, 11, 3)
    high, low = (pack_planes(blocks, part, columns) for part in (HIGH, LOW))
    assert high.shape[2] + low.shape[2] == columns * Q8_0.bytes
    assert (unpack_planes(high, low, 11) == blocks).all()
    rough = unpack_planes(high, None, 11)
    assert (rough["scale"] == blocks["scale"]).all()
    assert (rough["packed"] >> 2 == blocks["packed"] >> 2).all()
    assert (rough["packed"] & 3 == 2).all()


def test_a_shift_and_a_mask_give_a_word(arrays):
    columns = 4
    blocks = random_blocks(arrays, 9, 2)
    stored = Q8_0.integers(blocks).view(np.uint8) + np.uint8(128)
    for part in (HIGH, LOW):
        panels = pack_planes(blocks, part, columns).view(np.uint8)
        for start, plane in part.starts:
            for row, block, value in np.ndindex(*stored.shape):
                word, byte = divmod(value, 4)
                place = start + 4 * (word % plane.bits)
                at = columns * place + 4 * (row % columns) + byte
                found = panels[row // columns, block, at] >> plane.bits * (word // plane.bits)
                assert (found << plane.place) & plane.mask == stored[row, block, value] & plane.mask


def test_other_blocks_have_no_planes(arrays):
    for blocks in (Q4_0.encode(arrays.uniform(4, 32)), random_blocks(arrays, 4, 1)[None]):
        with pytest.raises(ValueError, match="no matrix of q8_0 blocks"):
            pack_planes(blocks, HIGH, 4)


def test_pack_planes(arrays):
    cases = []
    for (name, part), rows in [(each, rows) for each in PLANES.items() for rows in (8, 11)]:
        blocks = random_blocks(arrays, rows, 3)
        panels = Operand(pack_planes(blocks, part, 4), "pks")
        attributes = f'columns = 4 : i64, part = "{name}"'
        given = [Operand(blocks, "nk")]
        cases.append(Case(f"{name}{rows}", "llmc.pack_planes", given, attributes, panels))
    check(cases)


def test_plane_linear(arrays):
    cases = []
    for batch, tokens, outputs, count, whole in [(1, 1, 8, 2, True), (2, 3, 11, 3, False)]:
        x = arrays.uniform(batch, tokens, count * 32)
        blocks = random_blocks(arrays, outputs, count)
        high, low = (pack_planes(blocks, part, 4) for part in (HIGH, LOW))
        y = dialects.PlaneLinearOp.reference(x, high, outputs, low if whole else None)
        values, scales = dialects.QuantizeRowsOp.reference(x, 32)
        if whole:
            assert_same(y, dialects.QuantizedLinearOp.reference(values, blocks, scales))
        case = Case(
            f"tokens{tokens}",
            "llmc.plane_linear",
            [Operand(x, "btk"), Operand(high, "pcs"), *([Operand(low, "pcs")] if whole else [])],
            segments(1, 1, whole),
            Operand(y.astype(np.float32), "btn"),
        )
        cases += case.in_both("bt")
    check(cases)


def test_plane_embedding(arrays):
    cases = []
    for number, shape in enumerate([(5,), (2, 3)]):
        blocks, ids = random_blocks(arrays, 11, 2), arrays.integers(11, *shape)
        high, low = (pack_planes(blocks, part, 4) for part in (HIGH, LOW))
        # The table ends with the last panel.
        rows = dialects.PlaneEmbeddingOp.reference(ids, high, low)
        assert_same(rows, Q8_0.decode(blocks)[ids])
        lead = "bt"[-len(shape) :]
        case = Case(
            f"shape{number}",
            "llmc.plane_embedding",
            [Operand(ids, lead), Operand(high, "pcs"), Operand(low, "pcs")],
            "",
            Operand(rows, f"{lead}k"),
            tolerance=2**-23,
        )
        cases += case.in_both(lead)
    check(cases)
