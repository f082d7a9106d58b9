"""`gpu_block_matvec`: the product of a matrix in blocks and a vector, on a GPU.

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

_MOST_TOGETHER = 4
_MOST_SUBGROUPS = 4


@dataclass(frozen=True)
class GPUBlockMatvec:
    """A subgroup of `rows` times `blocks` times `parts` threads sums so many groups of rows.

    A thread reads `elements` integers of a block at once, one of its `parts`, in `together` rows
    that meet the same part of the vector. A workgroup has `subgroups` of these. Lanes are added up
    by shuffles. Changes numerics: the order of the sum.
    """

    rows: int
    blocks: int
    parts: int
    elements: int
    together: int
    subgroups: int

    @classmethod
    def choose(cls, generic: ir.Operation, facts: GPUFacts) -> "GPUBlockMatvec | None":
        """Loads of 128 bits; None where `generic` is no such product, or its rows do not fit."""
        matrix = _integers(generic)
        if matrix is None:
            return None
        outputs, blocks, values = matrix.shape
        elements = LOAD_BITS // matrix.element_type.width
        parts = values // elements
        if values % elements or facts.subgroup_size % parts:
            return None
        lanes = facts.subgroup_size // parts
        while blocks % lanes:
            lanes //= 2
        rows = facts.subgroup_size // parts // lanes
        if outputs % rows:
            return None
        together = divisor(outputs // rows, _MOST_TOGETHER)
        subgroups = divisor(outputs // rows // together, _MOST_SUBGROUPS)
        return cls(rows, lanes, parts, elements, together, subgroups)

    def apply(self, generic: ir.Operation) -> None:
        """Lets IREE lower `generic`, of vectors where open, rows, blocks and values, so."""
        vectors = loops_of(generic).open
        one, none, loops = [1] * vectors, [0] * vectors, list(range(vectors + 3))
        tiles: dict[str, Sequence] = {
            "workgroup": [*one, self.rows * self.together * self.subgroups, 0, 0],
            "partial_reduction": [*none, 0, self.blocks, self.parts * self.elements],
            "thread": [*one, self.together, 1, self.elements],
            "lane_basis": [[*one, self.rows, self.blocks, self.parts], loops],
            "subgroup_basis": [[*one, self.subgroups, 1, 1], loops],
        }
        lanes = self.rows * self.blocks * self.parts
        threads = lanes * self.subgroups
        pipeline = vector_distribute()
        set_schedule(generic, "gpu_block_matvec", gpu_tiles(tiles), pipeline, threads, lanes)


def _integers(generic: ir.Operation) -> ir.RankedTensorType | None:
    """The type of the integers `[N, B, G]` that `generic` multiplies by a vector, if that is it."""
    loops = loops_of(generic)
    if not loops.reduce_as(False, True, True):
        return None
    *vectors, row, block, value = range(len(loops.sizes))
    *inputs, _ = zip(read_dims(generic), generic.operands, strict=True)
    read = dict(inputs)
    if {(row, block, value), (*vectors, block, value), (row, block)} != set(read):
        return None
    matrix = read[row, block, value].type
    return matrix if isinstance(matrix.element_type, ir.IntegerType) else None
