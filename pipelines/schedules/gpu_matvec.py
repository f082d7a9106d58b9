"""`gpu_matvec`: the product of a matrix of floats and a vector, on a GPU."""

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from llmc.pipelines.schedules.gpu_loops import loops_of, read_dims
from llmc.pipelines.schedules.gpu_lowering import (
    LOAD_BITS,
    divisor,
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
    any. A workgroup has `subgroups` of these. Lanes are added up by shuffles: no memory is shared.
    Changes numerics: the order of the sum.
    """

    rows: int
    lanes: int
    elements: int
    steps: int
    subgroups: int

    @classmethod
    def choose(cls, generic: ir.Operation, facts: GPUFacts) -> "GPUMatvec | None":
        """Loads of 128 bits, of whole rows where possible; None where `generic` is no matvec."""
        matrix = _matrix(generic)
        if matrix is None:
            return None
        outputs, inputs = matrix.shape
        elements = LOAD_BITS // matrix.element_type.width
        lanes = facts.subgroup_size
        while lanes >= _LEAST_LANES and inputs % (lanes * elements):
            lanes //= 2
        rows = facts.subgroup_size // max(lanes, 1)
        if lanes < _LEAST_LANES or outputs % rows:
            return None
        steps = divisor(inputs // (lanes * elements), _MOST_STEPS)
        subgroups = divisor(outputs // rows, _MOST_SUBGROUPS)
        return cls(rows, lanes, elements, steps, subgroups)

    def apply(self, generic: ir.Operation) -> None:
        """Lets IREE lower `generic`, of rows and columns, so."""
        tiles: dict[str, Sequence] = {
            "workgroup": [self.rows * self.subgroups, 0],
            "partial_reduction": [0, self.lanes * self.elements * self.steps],
            "thread": [0, self.elements],
            "lane_basis": [[self.rows, self.lanes], [0, 1]],
            "subgroup_basis": [[self.subgroups, 1], [0, 1]],
        }
        lanes = self.rows * self.lanes
        threads = lanes * self.subgroups
        set_schedule(generic, "gpu_matvec", gpu_tiles(tiles), vector_distribute(), threads, lanes)


def _matrix(generic: ir.Operation) -> ir.RankedTensorType | None:
    """The type of the matrix of floats that `generic` multiplies by a vector, if that is it."""
    loops = loops_of(generic)
    if loops.reduced != (False, True) or not loops.are_static:
        return None
    *inputs, _ = zip(read_dims(generic), generic.operands, strict=True)
    if sorted(dims for dims, _ in inputs) != [(0, 1), (1,)]:
        return None
    (matrix,) = (value.type for dims, value in inputs if dims == (0, 1))
    return matrix if isinstance(matrix.element_type, ir.FloatType) else None
