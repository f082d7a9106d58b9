"""`reduction`: along rows, as in norms and softmax, with what is done to the rows then."""

from dataclasses import dataclass

from llmc.pipelines.schedules.elementwise import LOOPS
from llmc.pipelines.schedules.handles import (
    Handle,
    each,
    either,
    kernels,
    match,
    operations,
    returned,
)
from llmc.pipelines.schedules.schedule import Parameters
from llmc.pipelines.schedules.verbs import (
    decompose,
    fuse,
    generalize,
    hold_sums,
    simplify,
    tile,
    tile_reduction,
    vectorize,
)


@dataclass(frozen=True)
class ReductionParameters(Parameters):
    """`lanes` elements of a row are taken in at once."""

    lanes: int = 16


def reduction(payload: Handle, parameters: ReductionParameters) -> None:
    """Row by row: partial results in the lanes of a register, then what needs the whole result.

    What a row becomes in between is kept, as in a softmax its powers. Changes numerics: the order
    of a sum.
    """
    with each(kernels(payload, "reduction")) as kernel:
        decompose(operations(kernel, "linalg.softmax"))
        generalize(kernel)
        for rank in range(2, len(LOOPS) + 1):
            loops, row = LOOPS[:rank], LOOPS[rank - 1]
            one_row = dict.fromkeys(loops[:-1], 1)
            lanes = {row: parameters.lanes}
            result = returned(kernel)
            with each(either(match(result, loops), match(result, loops, reduced=row))) as end:
                fuse(end, **one_row)
                tile_reduction(match(kernel, loops, reduced=row), **lanes)
                generalize(kernel)
                simplify(kernel)
                tile(match(kernel, loops), **lanes)
                simplify(kernel)
                vectorize(match(kernel, loops), **one_row, **lanes)
                vectorize(match(kernel, loops, reduced=row), **one_row, **lanes)
                vectorize(match(kernel, loops[:-1]), **one_row)
        hold_sums(kernel)
