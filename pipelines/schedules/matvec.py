"""`matvec`: the product of a matrix, of f32 or narrower, and a vector."""

from dataclasses import dataclass

from llmc.pipelines.schedules.elementwise import compute_before
from llmc.pipelines.schedules.handles import Handle, each, either, kernels, match, returned
from llmc.pipelines.schedules.schedule import Parameters
from llmc.pipelines.schedules.verbs import (
    fuse,
    generalize,
    hold_sums,
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

    The loops are rows `n` of the matrix and the sum over `k`, perhaps below the one row `t` of the
    vector. Changes numerics: the order of the sum.
    """
    n, k = parameters.rows, parameters.lanes
    with each(kernels(payload, "matvec")) as kernel:
        generalize(kernel)
        for t in ("", "t"):
            compute_before(match(kernel, f"{t}nk", reduced="k"), 0, lanes=k)
        for t in ("", "t"):
            row = dict.fromkeys(t, 1)
            result = returned(kernel)
            sums = match(result, f"{t}nk", reduced="k")
            with each(either(match(result, f"{t}n"), sums)) as end:
                fuse(end, n=n)
                tile_reduction(match(kernel, f"{t}nk", reduced="k"), k=k)
                generalize(kernel)
                simplify(kernel)
                partial = match(kernel, f"{t}nk")
                vectorize(partial, **row, n=n, k=k)  # zeros of the partial sums, their steps
                vectorize(match(kernel, f"{t}nk", reduced="k"), **row, n=n, k=k)  # their sum
                vectorize(match(kernel, f"{t}n"), **row, n=n)  # zeros before it, the epilogue
        hold_sums(kernel)
