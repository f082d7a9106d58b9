"""Products by the high bits of a matrix are as near to whole ones as is said beforehand."""

from collections.abc import Callable

import numpy as np
import pytest

from llmc import dialects
from llmc.dialects.block_parts import HIGH, pack_planes, unpack_planes
from llmc.dialects.blocks import Q4_0, Q8_0, decode
from llmc.dialects.float_parts import join, split
from llmc.dialects.rough_products import metric, spread
from tests.arrays import Arrays
from tests.lowered import Case, Operand, check, segments

Product = Callable[[np.ndarray, np.ndarray], np.ndarray]


@pytest.fixture
def arrays() -> Arrays:
    return Arrays()


def by_blocks(x: np.ndarray, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The product by blocks, and the row that x is rounded to."""
    values, scales = dialects.QuantizeRowsOp.reference(x, 32)
    y = dialects.QuantizedLinearOp.reference(values, blocks, scales)
    return y, values * np.repeat(scales, 32, -1)


def by_floats(x: np.ndarray, matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return matrix.astype(np.float32) @ x, x


def rough_blocks(blocks: np.ndarray) -> np.ndarray:
    return unpack_planes(pack_planes(blocks, HIGH, 8), None, len(blocks))


def rough_floats(matrix: np.ndarray) -> np.ndarray:
    return join(split(matrix, "high"), None)


KINDS = {
    "q8_0": (Q8_0.encode, rough_blocks, by_blocks),
    "f16": (np.float16, rough_floats, by_floats),
    "f32": (np.float32, rough_floats, by_floats),
}


@pytest.mark.parametrize("length", [32, 96, 1280])
@pytest.mark.parametrize(("stored", "rough", "product"), KINDS.values(), ids=KINDS)
def test_spread_bounds_what_is_left_out(stored, rough, product, length, arrays):
    matrix = stored(arrays.uniform(200, length))
    near, measure = rough(matrix), metric(matrix)
    # Random rows, and those that a row's left-out bits are multiplied by as badly as can be.
    worst = (decode(matrix).astype(np.float32) - decode(near)) / measure**2
    farthest = 0.0
    for x in (*arrays.uniform(50, length), *worst):
        (y, row), (about, _) = product(x, matrix), product(x, near)
        bound = spread(matrix, measure) * np.linalg.norm(row * measure)
        farthest = max(farthest, (np.abs(y - about) / bound).max())
    # Rounding, which is counted in, is much of the bound where little else is left out.
    assert (0.9 if stored is not np.float32 else 0.6) < farthest < 1


def test_what_is_not_finite_has_no_bound():
    matrix = np.ones((3, 4), np.float16)
    matrix[0, 0], matrix[2, 3] = np.inf, np.nan
    measure = np.ones(4, np.float32)
    assert np.isfinite(spread(matrix, measure)).tolist() == [False, True, False]
    # Nor have products, whatever the length of x.
    assert not (spread(matrix, metric(matrix)) * np.float32(0) == 0).any()


def test_other_matrices_have_no_high_bits(arrays):
    numbers = arrays.uniform(4, 32)
    for matrix in (Q4_0.encode(numbers), numbers[None], numbers.astype(np.float64)):
        for read in (metric, lambda matrix: spread(matrix, np.ones(32, np.float32))):
            with pytest.raises(ValueError, match="is no matrix of q8_0, float16 or float32"):
                read(matrix)
    for matrix in (Q8_0.encode(arrays.uniform(4, 64)), arrays.uniform(4, 64)):
        with pytest.raises(ValueError, match="is no metric of a matrix of 64 columns"):
            spread(matrix, np.ones(32, np.float32))


def test_rough_metric_and_spread(arrays):
    cases = []
    for name, (stored, *_) in KINDS.items():
        numbers = arrays.uniform(11, 96)
        numbers[:, 32:64] = 0
        given = Operand(stored(numbers), "nk")
        nothing = Operand(stored(np.zeros_like(numbers)), "nk")
        factors = Operand(metric(given.value), "m")
        far = Operand(spread(given.value, factors.value), "n")
        ones = Operand(metric(nothing.value), "m")
        assert (ones.value == 1).all()
        # The factor of an empty column is 32 times that of the others, and so is its error.
        cases += [
            Case(f"columns_{name}", "llmc.rough_metric", [given], "", factors, tolerance=2**-16),
            Case(f"no_columns_{name}", "llmc.rough_metric", [nothing], "", ones, tolerance=2**-20),
            Case(f"rows_{name}", "llmc.rough_spread", [given, factors], "", far, tolerance=2**-20),
        ]
    check(cases)


@pytest.mark.parametrize("quantized", [True, False])
def test_screened_argmax(quantized, arrays):
    exact, x = arrays.uniform(3, 11), arrays.uniform(3, 64)
    exact[1, [2, 7]] = 5  # a tie
    exact[2, 4] = np.nan
    values, scales = dialects.QuantizeRowsOp.reference(x, 32) if quantized else (x, None)
    given = [
        exact,
        exact + np.float32(0.25),
        values,
        np.ones(64, np.float32),
        np.full(11, 9, np.float32),
        *([scales] if quantized else []),
    ]
    best = dialects.ScreenedArgmaxOp.reference(*given)
    assert best.tolist()[1:] == [2, -1]
    letters = ("rn", "rn", "rk", "k", "n", "rg")
    operands = [Operand(*each) for each in zip(given, letters, strict=False)]
    attributes = segments(1, 1, 1, 1, 1, quantized)
    case = Case(
        "rows", "llmc.screened_argmax", operands, attributes, Operand(best, "r"), tolerance=0
    )
    check(case.in_both("r"))
