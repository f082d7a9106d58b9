"""The Walsh-Hadamard transform of blocks of 32 numbers: an orthogonal one, and its own inverse.

Products of two vectors stay what they are if both are transformed, and a channel that is larger
than all others, as keys have, no longer makes the steps coarse in which its block is rounded.
Ashkboos et al., "QuaRot", 2024.

It takes five stages, each of sums and differences of numbers 1, 2, 4, 8 and 16 apart, in this order
wherever it is computed, so that all give the same numbers.
"""

from string import ascii_lowercase

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith

from llmc.dialects.blocks import Q8_0
from llmc.dialects.index_notation import collapse, constant, contract, expand, pointwise, sizes

DISTANCES = tuple(2**stage for stage in range(Q8_0.values.bit_length() - 1))
"""How far apart the numbers are that a stage brings together."""

SCALE = float(np.float32(Q8_0.values**-0.5))
"""By what the last stage's numbers are multiplied, so that lengths stay."""

_BUTTERFLY = ((1.0, 1.0), (1.0, -1.0))


def walsh_hadamard(x: np.ndarray) -> np.ndarray:
    """The transforms of each 32 of floats `[..., 32 K]`."""
    blocks = x
    for distance in DISTANCES:
        pairs = blocks.reshape(*x.shape[:-1], -1, 2, distance)
        first, second = pairs[..., 0, :], pairs[..., 1, :]
        blocks = np.stack([first + second, first - second], axis=-2)
    return blocks.reshape(x.shape) * x.dtype.type(SCALE)


def transformed_blocks(x: ir.Value) -> ir.Value:
    """`walsh_hadamard` of a tensor `[..., 32 K]` of floats, in linalg."""
    *leading, width = sizes(x)
    factors = [2] * len(DISTANCES)
    blocks = expand(x, [*([extent] for extent in leading), [width // Q8_0.values, *factors]])
    rank = len(leading) + 1 + len(factors)
    letters = ascii_lowercase[:rank]
    butterfly = arith.ConstantOp(
        ir.RankedTensorType.get([2, 2], x.type.element_type), _values(x.type.element_type)
    ).result
    for letter in reversed(letters[-len(factors) :]):
        notation = f"{letters},z{letter}->{letters.replace(letter, 'z')}"
        blocks = contract(notation, blocks, butterfly)
    scale = constant(SCALE, x.type.element_type)
    scaled = pointwise(f"{letters}->{letters}", lambda each, _: arith.mulf(each, scale), blocks)
    return collapse(scaled, [*[1] * len(leading), 1 + len(factors)])


def _values(element: ir.Type) -> ir.DenseElementsAttr:
    numbers = [ir.FloatAttr.get(element, value) for row in _BUTTERFLY for value in row]
    return ir.DenseElementsAttr.get(numbers, ir.RankedTensorType.get([2, 2], element))
