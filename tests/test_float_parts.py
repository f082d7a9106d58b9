"""Parts keep all bits of floats, and what reads but the high ones is near."""

import numpy as np
import pytest

from llmc import dialects
from llmc.dialects.float_parts import FLOATS, PARTS, join, left_out, split
from tests.arrays import Arrays
from tests.lowered import Case, Operand, check, segments


def all_bits(dtype: np.dtype) -> np.ndarray:
    """Each upper half that a number can have, with a lower half of its own; no NaN."""
    upper = np.arange(2**16, dtype=np.uint32)
    bits = upper if dtype == np.float16 else upper << 16 | (upper * 40503) & 0xFFFF
    numbers = bits.astype(f"u{dtype.itemsize}").view(dtype)
    return numbers[~np.isnan(numbers)]


def random_floats(dtype: np.dtype, *shape: int) -> np.ndarray:
    return Arrays().uniform(*shape).astype(dtype)


@pytest.mark.parametrize("parts", FLOATS, ids=lambda parts: parts.dtype.name)
def test_nothing_is_lost(parts):
    numbers = all_bits(parts.dtype)
    high, low = (split(numbers, part) for part in PARTS)
    assert high.nbytes + low.nbytes == numbers.nbytes
    assert join(high, low).astype(parts.dtype).tobytes() == numbers.tobytes()
    nan = np.array([np.nan], parts.dtype)
    assert np.isnan(join(*(split(nan, part) for part in PARTS)))


@pytest.mark.parametrize("parts", FLOATS, ids=lambda parts: parts.dtype.name)
def test_the_high_part_is_near(parts):
    numbers = all_bits(parts.dtype)
    # Those of float16 that are not below 2 have a bit of the exponent in the other part.
    ordinary = np.abs(numbers) >= np.finfo(parts.dtype).tiny
    ordinary &= np.abs(numbers) < (2 if parts.dtype == np.float16 else np.inf)
    numbers = numbers[ordinary]
    # Of float16 3 bits of the mantissa are known, and the next is taken for 1; of float32 7 are.
    least = 2.0**-4 if parts.dtype == np.float16 else 2.0**-7
    assert (np.abs(left_out(numbers)) <= least * np.abs(numbers)).all()
    assert join(split(np.zeros(1, np.float32), "high"), None) == 0


def test_other_numbers_have_no_parts():
    for numbers in (np.ones(3), np.ones(3, np.int8)):
        with pytest.raises(ValueError, match="float"):
            split(numbers, "high")


def test_split_and_join():
    cases = []
    for parts in FLOATS:
        numbers = random_floats(parts.dtype, 3, 5)
        numbers[0, 0] = 70000 if parts.dtype == np.float32 else 7  # has the exponent's highest bit
        given = {part: Operand(split(numbers, part), "nk") for part in PARTS}
        cases += [
            Case(
                f"{part}_{parts.dtype.name}",
                "llmc.split_float",
                [Operand(numbers, "nk")],
                f'part = "{part}"',
                out,
                tolerance=0,
            )
            for part, out in given.items()
        ]
        for whole in (True, False):
            operands = list(given.values())[: 1 + whole]
            y = dialects.JoinFloatOp.reference(*(operand.value for operand in operands))
            case = Case(
                f"join_{parts.dtype.name}_{'whole' if whole else 'rough'}",
                "llmc.join_float",
                operands,
                segments(1, whole),
                Operand(y, "nk"),
                tolerance=0,
            )
            cases += case.in_both("n")
    check(cases)
