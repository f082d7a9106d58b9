"""The kernel of `llmc.argmax`: both passes over a row in one workgroup.

IREE's own reductions keep one number at a time, and each is a dispatch.
"""

from math import inf

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector

from llmc.dialects.argmax import equal, is_finite
from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.kernel import Kernel

# Registers that numbers are read into together, so that none waits for the one before.
_REGISTERS = 4


def argmax(x: ir.RankedTensorType, lanes: int) -> Kernel:
    """Operand `x [R, N]`, result `[R]`."""
    rows, columns = x.shape
    width = min(_REGISTERS * lanes, columns)

    def grid(extents: list[ir.Value]) -> tuple[ir.Value | int, int]:
        return (extents[0] if x.is_dynamic_dim(0) else rows), 1

    def build(
        row: ir.Value, _: ir.Value, _extents: list[ir.Value], x: ir.Value, out: ir.Value
    ) -> None:
        place = _first(x, row, width, _largest(x, row, width))
        memref.store(arith.extsi(out.type.element_type, place), out, [row])

    return Kernel("argmax", grid, build)


def _largest(x: ir.Value, row: ir.Value, width: int) -> ir.Value:
    element = x.type.element_type
    type_ = ir.VectorType.get([width], element)
    start = vector.broadcast(type_, constant(-inf, element))
    loop = _for_each_piece(x, width, start)
    with ir.InsertionPoint(loop.body):
        piece = vector.load(type_, x, [row, _start(loop, x, width)])
        scf.yield_([arith.maximumf(loop.inner_iter_args[0], piece)])
    return vector.reduction(element, vector.CombiningKind.MAXIMUMF, loop.result)


def _first(x: ir.Value, row: ir.Value, width: int, largest: ir.Value) -> ir.Value:
    """The least index, an i32, at which the row is `largest`; -1 if that is not finite."""
    columns, i32 = x.type.shape[1], ir.IntegerType.get_signless(32)
    type_ = ir.VectorType.get([width], x.type.element_type)
    places = ir.VectorType.get([width], i32)
    numbers = [ir.IntegerAttr.get(i32, number) for number in range(width)]
    steps = arith.ConstantOp(places, ir.DenseElementsAttr.get(numbers, places))
    nowhere, peak = constant(columns, i32), vector.broadcast(type_, largest)
    loop = _for_each_piece(x, width, vector.broadcast(places, nowhere))
    with ir.InsertionPoint(loop.body):
        at = _start(loop, x, width)
        found = equal(vector.load(type_, x, [row, at]), peak)
        here = arith.addi(steps, vector.broadcast(places, arith.index_cast(i32, at)))
        candidates = arith.select(found, here, vector.broadcast(places, nowhere))
        scf.yield_([arith.minsi(loop.inner_iter_args[0], candidates)])
    place = vector.reduction(i32, vector.CombiningKind.MINSI, loop.result)
    return arith.select(is_finite(largest), place, constant(-1, i32))


def _for_each_piece(x: ir.Value, width: int, start: ir.Value) -> scf.ForOp:
    return scf.ForOp(index(0), index(x.type.shape[1]), index(width), [start])


def _start(loop: scf.ForOp, x: ir.Value, width: int) -> ir.Value:
    """Where the loop's piece starts: the last one overlaps the one before rather than the end."""
    return arith.minui(loop.induction_variable, index(x.type.shape[1] - width))
