"""The kernel of `llmc.group_rows`: a stable counting sort in one workgroup.

Linalg has no loop that carries a place from row to row; to compare all pairs of rows instead costs
the square of their number. Knuth, The Art of Computer Programming, 5.2, algorithm D.
"""

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.kernel import Kernel, load_index


def group_rows() -> Kernel:
    """Operand `expert [R]`, results `order [R]`, `first [E + 1]` and `place [R]`."""
    return Kernel("group_rows", lambda _: (1, 1), _build)


def _build(
    _x: ir.Value,
    _y: ir.Value,
    _extents: list[ir.Value],
    expert: ir.Value,
    order: ir.Value,
    first: ir.Value,
    places: ir.Value,
) -> None:
    rows, experts = memref.dim(expert, index(0)), index(first.type.shape[0] - 1)
    i32 = first.type.element_type
    zero, one = constant(0, i32), constant(1, i32)
    for group in scf.for_(index(0), experts):
        memref.store(zero, first, [group])
        scf.yield_([])
    for row in scf.for_(index(0), rows):
        group = load_index(expert, row)
        memref.store(arith.addi(memref.load(first, [group]), one), first, [group])
        scf.yield_([])
    # first[e] is how many rows expert e has. Make it where they end.
    for group, before, _ in scf.for_(index(0), experts, iter_args=[zero]):
        end = arith.addi(before, memref.load(first, [group]))
        memref.store(end, first, [group])
        scf.yield_([end])
    memref.store(arith.index_cast(i32, rows), first, [experts])
    # From the last row to the first, each goes before those of its expert that have their place.
    for step in scf.for_(index(0), rows):
        row = arith.subi(arith.subi(rows, index(1)), step)
        group = load_index(expert, row)
        place = arith.subi(memref.load(first, [group]), one)
        memref.store(place, first, [group])
        where = arith.index_cast(T.index(), place)
        memref.store(arith.index_cast(i32, row), order, [where])
        memref.store(place, places, [row])
        scf.yield_([])
