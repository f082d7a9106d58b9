"""`matvec`: the product of a matrix, of f32 or narrower, and a vector."""

from dataclasses import dataclass

from llmc.pipelines.schedules.schedule import Parameters
from llmc.pipelines.schedules.verbs import (
    Handle,
    each,
    either,
    fuse,
    generalize,
    keep_in_registers,
    kernels,
    lower_reductions,
    match,
    read_in_place,
    returned,
    simplify,
    tile_reduction,
    vectorize,
)


@dataclass(frozen=True)
class MatvecParameters(Parameters):
    """`rows` rows of the matrix are read at once, `lanes` numbers of each."""

    rows: int = 4
    lanes: int = 16


def matvec(payload: Handle, parameters: MatvecParameters) -> None:
    """Partial sums in the lanes of registers, added up at the end of a row.

    The loops are the one row `t` of the vector, rows `n` of the matrix and the sum over `k`.
    Changes numerics: the order of the sum.
    """
    n, k = parameters.rows, parameters.lanes
    with each(kernels(payload, "matvec")) as kernel:
        generalize(kernel)
        result = returned(kernel)
        fuse(either(match(result, "tn"), match(result, "tnk", reduced="k")), n=n)
        tile_reduction(match(kernel, "tnk", reduced="k"), k=k)
        generalize(kernel)
        simplify(kernel)
        vectorize(match(kernel, "tnk"), t=1, n=n, k=k)  # partial sums: their zeros, their steps
        vectorize(match(kernel, "tnk", reduced="k"), t=1, n=n, k=k)  # their sum
        vectorize(match(kernel, "tn"), t=1, n=n)  # zeros before it, the epilogue after it
        simplify(kernel)
        read_in_place(kernel)
        keep_in_registers(kernel)
        simplify(kernel)
        lower_reductions(kernel)
