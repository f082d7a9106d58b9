"""The instructions of CPUs that multiply bytes and add up the products of four.

Each function adds to `total [J]`, i32, the products of weights, vectors of 4 J bytes, and
activations, as many bytes of the same four numbers; four neighbours belong to a lane of the total.
Weights are unsigned, or signed with `signed`; activations are signed and greater than -128. Some
CPUs have an instruction that does it for two rows of activations at once.
"""

from collections.abc import Callable, Sequence
from typing import Annotated

from torch_mlir import ir
from torch_mlir.dialects import arith, vector
from torch_mlir.extras import types as T

from llmc.pipelines.kernels.intrinsics import intrinsic
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.option_text import OneOf

Pairs = Sequence[tuple[ir.Value, ir.Value]]
"""Weights and activations that are multiplied."""

Instructions = Callable[[ir.Value, Pairs, bool, int], ir.Value]
"""`(total, pairs, signed, most)`, no weight's magnitude being greater than `most`."""


def vpdpbusd(total: ir.Value, pairs: Pairs, signed: bool, most: int) -> ir.Value:
    """AVX-512 VNNI and AVX-VNNI: one instruction, of unsigned weights."""
    if signed:
        return plain(total, pairs, signed, most)
    bits = 32 * _lanes(total)
    for weights, values in pairs:
        total = intrinsic(f"llvm.x86.avx512.vpdpbusd.{bits}", total.type, total, weights, values)
    return total


def vpmaddubsw(total: ir.Value, pairs: Pairs, signed: bool, most: int) -> ir.Value:
    """AVX2: products are added in pairs, saturating i16, which weights up to 128 never do."""
    if not signed and most > 128:
        return plain(total, pairs, signed, most)
    lanes = _lanes(total)
    halves = ir.VectorType.get([2 * lanes], T.i16())
    ones = splat(1, halves)
    together = max(1, 32767 // (2 * 127 * most))
    for start in range(0, len(pairs), together):
        products = [
            intrinsic("llvm.x86.avx2.pmadd.ub.sw", halves, *_with_sign_of_weight(*pair, signed))
            for pair in pairs[start : start + together]
        ]
        sum_ = products[0]
        for product in products[1:]:
            sum_ = arith.addi(sum_, product)
        total = arith.addi(total, intrinsic("llvm.x86.avx2.pmadd.wd", total.type, sum_, ones))
    return total


def sdot(total: ir.Value, pairs: Pairs, signed: bool, most: int) -> ir.Value:
    """Arm's SDOT: one instruction, of signed weights, which unsigned ones below 128 are too."""
    if most > 128:
        return plain(total, pairs, signed, most)
    for weights, values in pairs:
        bytes_ = 4 * _lanes(total)
        name = f"llvm.aarch64.neon.sdot.v{_lanes(total)}i32.v{bytes_}i8"
        total = intrinsic(name, total.type, total, weights, values)
    return total


def smmla(rows: Sequence[Pairs]) -> list[ir.Value]:
    """Arm's SMMLA: the totals of two rows, whose weights are the same and below 128; J is 4.

    An instruction adds to a matrix `[2, 2]` the products of one `[2, 8]`, two rows of activations,
    and the transpose of another, two columns of weights: words of four bytes meet in eights.
    """
    products = [
        (_words(weights), _words(x), _words(y)) for (weights, x), (_, y) in zip(*rows, strict=True)
    ]
    left = right = splat(0, ir.VectorType.get([4], T.i32()))
    for (w, x, y), (next_w, next_x, next_y) in zip(products[::2], products[1::2], strict=True):
        first, second = (vector.shuffle(a, b, [0, 4, 0, 4]) for a, b in ((x, next_x), (y, next_y)))
        activations = vector.shuffle(first, second, [0, 1, 4, 5])
        left = _smmla(left, activations, vector.shuffle(w, next_w, [0, 4, 1, 5]))
        right = _smmla(right, activations, vector.shuffle(w, next_w, [2, 6, 3, 7]))
    return [vector.shuffle(left, right, lanes) for lanes in ([0, 1, 4, 5], [2, 3, 6, 7])]


def plain(total: ir.Value, pairs: Pairs, signed: bool, _most: int) -> ir.Value:
    """Any CPU: bytes are taken out of words of 32 bits, and multiplied as such."""
    for weights, values in pairs:
        for byte in range(4):
            weight = _byte(weights, byte, signed, total.type)
            value = _byte(values, byte, True, total.type)
            total = arith.addi(total, arith.muli(weight, value))
    return total


INSTRUCTIONS: dict[str, Instructions] = {
    "tdpbsud": vpdpbusd,  # of rows too few for a tile
    "vpdpbusd": vpdpbusd,
    "vpmaddubsw": vpmaddubsw,
    "sdot": sdot,
    "smmla": sdot,  # of a row that is left
    "plain": plain,
}

LANES = {
    "tdpbsud": (16,),
    "vpdpbusd": (4, 8, 16),
    "vpmaddubsw": (8,),
    "sdot": (2, 4),
    "smmla": (4,),
}
"""Of how many sums of 32 bits there are registers; `plain` takes any."""

InstructionName = Annotated[str, OneOf(tuple(INSTRUCTIONS))]
"""One of them, as an option."""

TWO_ROWS: dict[str, Callable[[Sequence[Pairs]], list[ir.Value]]] = {"smmla": smmla}
"""From the pairs of two rows, no weight being greater than 128, to their totals."""


def _with_sign_of_weight(
    weights: ir.Value, values: ir.Value, signed: bool
) -> tuple[ir.Value, ir.Value]:
    """Unsigned weights and signed values with the same products."""
    if not signed:
        return weights, values
    type_ = weights.type
    signs = intrinsic("llvm.x86.avx2.psign.b", type_, values, weights)
    return intrinsic("llvm.x86.avx2.psign.b", type_, weights, weights), signs


def _byte(words: ir.Value, number: int, signed: bool, type_: ir.Type) -> ir.Value:
    whole = vector.bitcast(type_, words)
    high = arith.shli(whole, splat(24 - 8 * number, type_))
    shift = arith.shrsi if signed else arith.shrui
    return shift(high, splat(24, type_))


def _smmla(total: ir.Value, activations: ir.Value, weights: ir.Value) -> ir.Value:
    bytes_ = ir.VectorType.get([16], T.i8())
    operands = (vector.bitcast(bytes_, words) for words in (activations, weights))
    return intrinsic("llvm.aarch64.neon.smmla.v4i32.v16i8", total.type, total, *operands)


def _words(bytes_: ir.Value) -> ir.Value:
    return vector.bitcast(ir.VectorType.get([_lanes(bytes_) // 4], T.i32()), bytes_)


def _lanes(value: ir.Value) -> int:
    return value.type.shape[0]
