"""`gpu_block_matvec`: the product of a matrix in blocks and a vector, on a GPU."""

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
        """Lets IREE lower `generic`, of rows, blocks and values, so."""
        tiles: dict[str, Sequence] = {
            "workgroup": [self.rows * self.together * self.subgroups, 0, 0],
            "partial_reduction": [0, self.blocks, self.parts * self.elements],
            "thread": [self.together, 1, self.elements],
            "lane_basis": [[self.rows, self.blocks, self.parts], [0, 1, 2]],
            "subgroup_basis": [[self.subgroups, 1, 1], [0, 1, 2]],
        }
        lanes = self.rows * self.blocks * self.parts
        threads = lanes * self.subgroups
        pipeline = vector_distribute()
        set_schedule(generic, "gpu_block_matvec", gpu_tiles(tiles), pipeline, threads, lanes)


def _integers(generic: ir.Operation) -> ir.RankedTensorType | None:
    """The type of the integers `[N, B, G]` that `generic` multiplies by a vector, if that is it."""
    loops = loops_of(generic)
    if loops.reduced != (False, True, True) or not loops.are_static:
        return None
    *inputs, _ = zip(read_dims(generic), generic.operands, strict=True)
    read = dict(inputs)
    if {(0, 1, 2), (1, 2), (0, 1)} != set(read):
        return None
    matrix = read[0, 1, 2].type
    return matrix if isinstance(matrix.element_type, ir.IntegerType) else None
