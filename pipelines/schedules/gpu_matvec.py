"""`gpu_matvec`: the products of one or two matrices of floats and a vector, on a GPU.

Of an open number of vectors, each is multiplied by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from llmc.dialects.divisor import divisor
from llmc.pipelines.schedules.gpu_loops import loops_of, read_dims
from llmc.pipelines.schedules.gpu_lowering import (
    LOAD_BITS,
    gpu_tiles,
    set_schedule,
    vector_distribute,
)
from llmc.pipelines.targets.gpu_facts import GPUFacts

_LEAST_LANES = 4
_MOST_STEPS = 16
_MOST_SUBGROUPS = 4


@dataclass(frozen=True)
class GPUMatvec:
    """A subgroup of `rows` times `lanes` threads sums so many rows, `lanes` threads one row.

    A thread reads `elements` numbers of its row at once, and does so `steps` times before it uses
    any, of two matrices half as often. A workgroup has `subgroups` of these. Lanes are added up by
    shuffles: no memory is shared. Changes numerics: the order of the sum.
    """

    rows: int
    lanes: int
    elements: int
    steps: int
    subgroups: int

    @classmethod
    def choose(cls, generic: ir.Operation, facts: GPUFacts) -> "GPUMatvec | None":
        """Loads of 128 bits, of whole rows where possible; None where `generic` is no matvec."""
        matrices = _matrices(generic)
        if not matrices:
            return None
        matrix = matrices[0]
        outputs, inputs = matrix.shape
        elements = LOAD_BITS // matrix.element_type.width
        lanes = facts.subgroup_size
        while lanes >= _LEAST_LANES and inputs % (lanes * elements):
            lanes //= 2
        if lanes < _LEAST_LANES:
            return None
        rows = facts.subgroup_size // lanes
        if outputs % rows:
            return None
        steps = divisor(inputs // (lanes * elements), _MOST_STEPS // len(matrices))
        subgroups = divisor(outputs // rows, _MOST_SUBGROUPS)
        return cls(rows, lanes, elements, steps, subgroups)

    def apply(self, generic: ir.Operation) -> None:
        """Lets IREE lower `generic`, of vectors where open, rows and columns, so."""
        vectors = loops_of(generic).open
        one, none, loops = [1] * vectors, [0] * vectors, list(range(vectors + 2))
        tiles: dict[str, Sequence] = {
            "workgroup": [*one, self.rows * self.subgroups, 0],
            "partial_reduction": [*none, 0, self.lanes * self.elements * self.steps],
            "thread": [*none, 0, self.elements],
            "lane_basis": [[*one, self.rows, self.lanes], loops],
            "subgroup_basis": [[*one, self.subgroups, 1], loops],
        }
        lanes = self.rows * self.lanes
        threads = lanes * self.subgroups
        set_schedule(generic, "gpu_matvec", gpu_tiles(tiles), vector_distribute(), threads, lanes)


def _matrices(generic: ir.Operation) -> list[ir.RankedTensorType]:
    """The types of the matrices of floats that `generic` multiplies by a vector, if that is it.

    There are one or two, of one shape and element type.
    """
    loops = loops_of(generic)
    if not loops.reduce_as(False, True):
        return []
    *vectors, row, column = range(len(loops.sizes))
    read = list(zip(read_dims(generic), generic.operands, strict=True))[: -len(generic.results)]
    matrices = [value.type for dims, value in read if dims == (row, column)]
    are_floats = all(isinstance(each.element_type, ir.FloatType) for each in matrices)
    others = [dims for dims, _ in read if dims != (row, column)]
    are_alike = len(matrices) in (1, 2) and len(set(matrices)) == 1
    is_matvec = others == [(*vectors, column)] and are_alike
    return matrices if is_matvec and are_floats else []
