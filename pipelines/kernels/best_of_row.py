"""A kernel that computes a row, and where the largest number of it stands.

The row is a scheduled kernel's; the workgroup that is done last looks for the largest number, which
neither linalg nor the transform dialect can say of a workgroup.
"""

from math import prod

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.argmax import is_finite
from llmc.dialects.divisor import divisor
from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.counters import is_last_done
from llmc.pipelines.kernels.first_largest import Read, first_largest, read_row
from llmc.pipelines.kernels.kernel import Kernel, binding_under

# Numbers that are compared together: some registers of any CPU.
_TOGETHER = 64


def with_best(kernel: Kernel, row: ir.RankedTensorType, workgroups: int) -> Kernel:
    """`kernel`, and what `llmc.argmax` says of its one result, `row`, of N numbers in all.

    Each of the `workgroups` writes an equal part of the row, in their order, and finds its largest
    number while that is in the cache; the last one to be done compares what they found. Operands
    are those of the kernel, then one that is updated, i32 `done [1]`, which is 0 before and after.
    Results are the row, i64 `best [1]`, and for the parts f32 and i32 `[1, workgroups]`.
    """
    share = prod(row.shape) // workgroups

    def build(x: ir.Value, y: ir.Value, extents: list[ir.Value], *buffers: ir.Value) -> None:
        *operands, done, result, best, largest, places = buffers
        kernel.build(x, y, extents, *operands, result)
        begin = arith.muli(x, index(share))
        numbers = _vector(share, row.element_type)
        flat = _seen_as_row(result, row)
        found = first_largest(
            read_row(flat, index(0), numbers),
            begin,
            arith.addi(begin, index(share)),
            numbers,
            _nowhere(row),
        )
        for value, buffer in zip(found, (largest, places), strict=True):
            memref.store(value, buffer, [index(0), x])
        others = constant(workgroups - 1, done.type.element_type)
        is_last = is_last_done(done, index(0), others)
        with ir.InsertionPoint(scf.IfOp(is_last).then_block):
            choose_best(largest, places, index(0), _nowhere(row), best)
            scf.YieldOp([])

    return Kernel(kernel.name, kernel.grid, build)


def choose_best(
    largest: ir.Value, places: ir.Value, row: ir.Value, nowhere: ir.Value, best: ir.Value
) -> None:
    """Stores in i64 `best [R]`, at `row`, where the largest number is that parts of it found.

    They found f32 `largest [R, parts]`, at i32 `places`.
    """
    _, parts = largest.type.shape
    numbers = _vector(parts, largest.type.element_type)
    read = _read_parts(largest, places, row, numbers)
    value, place = first_largest(read, index(0), index(parts), numbers, nowhere)
    place = arith.select(is_finite(value), place, constant(-1, place.type))
    memref.store(arith.extsi(best.type.element_type, place), best, [row])


def part_types(rows: int, workgroups: int, element: ir.Type) -> list[ir.RankedTensorType]:
    """The types of the results for the parts of so many rows."""
    i32 = T.i32()
    return [ir.RankedTensorType.get([rows, workgroups], type_) for type_ in (element, i32)]


def _seen_as_row(result: ir.Value, row: ir.RankedTensorType) -> ir.Value:
    """The buffer of the result as `[1, N]`."""
    return ir.Operation.create(
        "stream.binding.subspan",
        results=[ir.MemRefType.get([1, prod(row.shape)], row.element_type)],
        operands=[binding_under(result), index(0)],
    ).result


def _read_parts(largest: ir.Value, places: ir.Value, row: ir.Value, numbers: ir.VectorType) -> Read:
    where = ir.VectorType.get(numbers.shape, places.type.element_type)

    def read(at: ir.Value) -> tuple[ir.Value, ir.Value]:
        return vector.load(numbers, largest, [row, at]), vector.load(where, places, [row, at])

    return read


def _vector(extent: int, element: ir.Type) -> ir.VectorType:
    """The type of vectors that `extent` numbers are cut into."""
    return ir.VectorType.get([divisor(extent, min(_TOGETHER, extent))], element)


def _nowhere(row: ir.RankedTensorType) -> ir.Value:
    return constant(prod(row.shape), T.i32())
