"""`elementwise`: element by element, as in activations and residuals."""

from dataclasses import dataclass

from llmc.pipelines.schedules.handles import Handle, each, kernels, match, returned
from llmc.pipelines.schedules.schedule import Parameters
from llmc.pipelines.schedules.verbs import (
    fuse,
    fuse_elementwise,
    generalize,
    read_by,
    read_in_place,
    simplify,
    tile,
    vectorize,
)

LOOPS = "abcdef"
"""Letters for the loops of operations of up to six dimensions."""


@dataclass(frozen=True)
class ElementwiseParameters(Parameters):
    """`lanes` elements of a row are computed at once."""

    lanes: int = 16


def elementwise(payload: Handle, parameters: ElementwiseParameters) -> None:
    """One pass over the rows: what is computed in between stays in registers."""
    with each(kernels(payload, "elementwise")) as kernel:
        generalize(kernel)
        kernel = fuse_elementwise(kernel)
        for rank in range(1, len(LOOPS) + 1):
            loops, row = LOOPS[:rank], LOOPS[rank - 1]
            sizes = {**dict.fromkeys(loops, 1), row: parameters.lanes}
            with each(match(returned(kernel), loops)) as result:
                fuse(result, **sizes)
                simplify(kernel)
                vectorize(match(kernel, loops), **sizes)
        simplify(kernel)
        read_in_place(kernel)


def compute_before(op: Handle, number: int, lanes: int) -> None:
    """Computes an input of `op` whole, `lanes` elements at once: it is read more than once."""
    for rank in range(1, len(LOOPS) + 1):
        loops, row = LOOPS[:rank], LOOPS[rank - 1]
        sizes = {**dict.fromkeys(loops, 1), row: lanes}
        with each(read_by(op, number, loops)) as operation:
            tiled, _ = tile(operation, **sizes)
            vectorize(tiled, **sizes)
