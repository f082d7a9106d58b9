"""The kernel of `llmc.take_rows`: a workgroup copies a row.

IREE reads a gather's rows number by number.
"""

from torch_mlir import ir
from torch_mlir.dialects import arith, scf, vector

from llmc.dialects.divisor import divisor
from llmc.dialects.index_notation import index
from llmc.pipelines.kernels.kernel import Kernel, load_index, workgroup_a_row
from llmc.pipelines.type_bytes import bytes_of_element


def take_rows(out: ir.RankedTensorType, top_k: int, vector_bytes: int) -> Kernel:
    """Operands `ids [R]`, `top_k` for each row of `x [T, N]`, result `[R, N]`."""
    _, columns = out.shape
    width = divisor(columns, max(1, vector_bytes // bytes_of_element(out.element_type)))
    type_ = ir.VectorType.get([width], out.element_type)

    def build(
        row: ir.Value,
        _: ir.Value,
        _extents: list[ir.Value],
        ids: ir.Value,
        x: ir.Value,
        taken: ir.Value,
    ) -> None:
        source = arith.divui(load_index(ids, row), index(top_k))
        for at in scf.for_(index(0), index(columns), index(width)):
            vector.store(vector.load(type_, x, [source, at]), taken, [row, at])
            scf.yield_([])

    return Kernel(f"take_rows_{top_k}", workgroup_a_row(out), build)
