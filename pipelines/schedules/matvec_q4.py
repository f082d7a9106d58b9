"""`matvec_q4`: the product of a matrix, in blocks of 4-bit integers, and a vector of f32."""

from dataclasses import dataclass

from llmc.pipelines.schedules.handles import Handle, each, either, kernels, match, returned
from llmc.pipelines.schedules.schedule import Parameters
from llmc.pipelines.schedules.verbs import (
    fuse,
    fuse_elementwise,
    generalize,
    keep_in_registers,
    lower_reductions,
    read_in_place,
    simplify,
    tile,
    tile_reduction,
    unroll,
    vectorize,
)

_BYTES = 16
"""How many bytes of a block hold integers, two each."""


@dataclass(frozen=True)
class MatvecQ4Parameters(Parameters):
    """`rows` rows of the matrix are read at once, and `unroll` blocks of each in a round."""

    rows: int = 4
    unroll: int = 1


def matvec_q4(payload: Handle, parameters: MatvecQ4Parameters) -> None:
    """Integers become floats in registers; partial sums in lanes, added up at the end of a row.

    Once the dequantisation is part of the product, the loops are the one row `t` of the vector,
    rows `n` of the matrix, and sums over blocks `b`, halves `h` of their bytes and bytes `v`.
    Changes numerics: the order of the sum.
    """
    n, v = parameters.rows, _BYTES
    with each(kernels(payload, "matvec_q4")) as kernel:
        kernel = fuse_elementwise(kernel)
        generalize(kernel)
        result = returned(kernel)
        fuse(either(match(result, "tn"), match(result, "tnbhv", reduced="bhv")), n=n)
        tile_reduction(match(kernel, "tnbhv", reduced="bhv"), v=v)
        generalize(kernel)
        simplify(kernel)
        step, loops = tile(match(kernel, "tnbhv", reduced="bh"), b=1, h=1)
        vectorize(step, t=1, n=n, b=1, h=1, v=v)
        vectorize(match(kernel, "tnv"), t=1, n=n, v=v)  # zeros of the partial sums
        vectorize(match(kernel, "tnv", reduced="v"), t=1, n=n, v=v)  # their sum
        vectorize(match(kernel, "tn"), t=1, n=n)  # zeros before it, the epilogue after it
        simplify(kernel)
        read_in_place(kernel)
        keep_in_registers(kernel)
        unroll(loops["b"], parameters.unroll)
        simplify(kernel)
        lower_reductions(kernel)
