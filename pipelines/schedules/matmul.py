"""`matmul`: the product of two matrices, of floats of any two widths."""

from dataclasses import dataclass

from llmc.pipelines.schedules.elementwise import compute_before
from llmc.pipelines.schedules.handles import Handle, each, either, kernels, match, returned
from llmc.pipelines.schedules.schedule import Parameters
from llmc.pipelines.schedules.verbs import (
    fuse,
    fuse_into,
    generalize,
    keep_in_registers,
    lower_contractions,
    read_in_place,
    simplify,
    tile,
    vectorize,
    vectorize_contraction,
    widen,
)


@dataclass(frozen=True)
class MatmulParameters(Parameters):
    """`rows` times `columns` sums are held in registers."""

    rows: int = 4
    columns: int = 16


def matmul(payload: Handle, parameters: MatmulParameters) -> None:
    """Tiles of sums in registers, to which products of a column and a row are added.

    The loops are rows `m`, columns `n` and the sum over `k`.
    """
    m, n = parameters.rows, parameters.columns
    with each(kernels(payload, "matmul")) as kernel:
        generalize(kernel)
        compute_before(match(kernel, "mnk", reduced="k"), 0, lanes=n)
        result = returned(kernel)
        fuse(either(match(result, "mn"), match(result, "mnk", reduced="k")), m=m, n=n)
        simplify(kernel)
        with each(match(kernel, "mnk", reduced="k")) as product:
            left, right = widen(product, 0, "mk"), widen(product, 1, "nk")
            step, loops = tile(product, k=1)
            vectorize(fuse_into(loops["k"], left), m=m, k=1)
            vectorize(fuse_into(loops["k"], right), n=n, k=1)
            vectorize_contraction(step, m=m, n=n, k=1)
        simplify(kernel)
        vectorize(match(kernel, "mn"), m=m, n=n)  # zeros before the sum, the epilogue after it
        simplify(kernel)
        read_in_place(kernel)
        keep_in_registers(kernel)
        lower_contractions(kernel)
