"""The kernel of `llmc.argmax`: both passes over a row in one workgroup.

IREE's own reductions keep one number at a time, and each is a dispatch.
"""

from torch_mlir import ir
from torch_mlir.dialects import arith, memref
from torch_mlir.extras import types as T

from llmc.dialects.argmax import is_finite
from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.first_largest import first_largest, kernel_of_rows, read_row
from llmc.pipelines.kernels.kernel import Kernel


def argmax(x: ir.RankedTensorType, lanes: int) -> Kernel:
    """Operand `x [R, N]`, result `[R]`."""
    columns = x.shape[1]

    def build(
        numbers: ir.VectorType,
        row: ir.Value,
        _extents: list[ir.Value],
        x: ir.Value,
        out: ir.Value,
    ) -> None:
        i32 = T.i32()
        read, nowhere = read_row(x, row, numbers), constant(columns, i32)
        largest, place = first_largest(read, index(0), index(columns), numbers, nowhere)
        place = arith.select(is_finite(largest), place, constant(-1, i32))
        memref.store(arith.extsi(out.type.element_type, place), out, [row])

    return kernel_of_rows("argmax", x, lanes, build)
