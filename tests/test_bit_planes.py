"""Bit planes keep all bits of blocks, and what reads but the high ones is as near as they say."""

import numpy as np
import pytest

from llmc import dialects
from llmc.dialects.bit_planes import (
    HIGH,
    LOW,
    PLANES,
    metric,
    pack_planes,
    spread,
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
        for read in (lambda x: pack_planes(x, HIGH, 4), metric, lambda x: spread(x, np.ones(32))):
            with pytest.raises(ValueError, match="no matrix of q8_0 blocks"):
                read(blocks)
    with pytest.raises(ValueError, match="is no metric"):
        spread(random_blocks(arrays, 4, 2), np.ones(32))


@pytest.mark.parametrize("count", [1, 3, 40])
def test_spread_bounds_what_is_left_out(arrays, count):
    blocks = random_blocks(arrays, 200, count)
    rough = unpack_planes(pack_planes(blocks, HIGH, 8), None, 200)
    farthest = 0.0
    measure = metric(blocks)
    # Random rows, and those that a row's left-out bits are multiplied by as badly as can be.
    worst = (Q8_0.decode(blocks) - Q8_0.decode(rough)) / measure**2
    for x in (*arrays.uniform(50, 32 * count), *worst):
        values, scales = dialects.QuantizeRowsOp.reference(x, 32)
        y, about = (
            dialects.QuantizedLinearOp.reference(values, each, scales) for each in (blocks, rough)
        )
        measured = values.reshape(count, 32) * scales[:, None] * measure.reshape(count, 32)
        bound = spread(blocks, measure) * np.linalg.norm(measured)
        farthest = max(farthest, (np.abs(y - about) / bound).max())
    assert 0.9 < farthest < 1


def test_pack_planes(arrays):
    cases = []
    for (name, part), rows in [(each, rows) for each in PLANES.items() for rows in (8, 11)]:
        blocks = random_blocks(arrays, rows, 3)
        panels = Operand(pack_planes(blocks, part, 4), "pks")
        attributes = f'columns = 4 : i64, part = "{name}"'
        given = [Operand(blocks, "nk")]
        cases.append(Case(f"{name}{rows}", "llmc.pack_planes", given, attributes, panels))
    check(cases)


def test_plane_metric_and_spread(arrays):
    blocks = random_blocks(arrays, 11, 3)
    blocks["scale"][:, 1] = 0
    given, nothing = Operand(blocks, "nk"), Operand(np.zeros_like(blocks), "nk")
    factors = Operand(metric(blocks), "m")
    far = Operand(spread(blocks, metric(blocks)), "n")
    ones = Operand(metric(np.zeros_like(blocks)), "m")
    assert (ones.value == 1).all()
    check(
        [
            Case("columns", "llmc.plane_metric", [given], "", factors, tolerance=2**-20),
            Case("no_columns", "llmc.plane_metric", [nothing], "", ones, tolerance=2**-20),
            Case("rows", "llmc.plane_spread", [given, factors], "", far, tolerance=2**-20),
        ]
    )


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


def test_screened_argmax(arrays):
    exact, (values, scales) = (
        arrays.uniform(3, 11),
        dialects.QuantizeRowsOp.reference(arrays.uniform(3, 64), 32),
    )
    exact[1, [2, 7]] = 5  # a tie
    exact[2, 4] = np.nan
    given = [
        exact,
        exact + np.float32(0.25),
        values,
        scales,
        np.ones(64, np.float32),
        np.full(11, 9, np.float32),
    ]
    best = dialects.ScreenedArgmaxOp.reference(*given)
    assert best.tolist()[1:] == [2, -1]
    operands = [
        Operand(each, letters)
        for each, letters in zip(given, ("rn", "rn", "rk", "rg", "k", "n"), strict=True)
    ]
    case = Case("rows", "llmc.screened_argmax", operands, "", Operand(best, "r"), tolerance=0)
    check(case.in_both("r"))
