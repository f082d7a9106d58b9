"""The kernel of `llmc.take_rows`: a workgroup copies a row."""

from torch_mlir import ir
from torch_mlir.dialects import scf, vector

from llmc.dialects.index_notation import Size, index
from llmc.pipelines.divisor import divisor
from llmc.pipelines.kernels.kernel import Kernel, load_index
from llmc.pipelines.type_bytes import bytes_of


def take_rows(out: ir.RankedTensorType, vector_bytes: int) -> Kernel:
    """Operands `ids [R]` and `x [T, N]`, result `[R, N]`."""
    rows, columns = out.shape
    element = bytes_of(ir.RankedTensorType.get([1], out.element_type))
    width = divisor(columns, vector_bytes // element)
    type_ = ir.VectorType.get([width], out.element_type)

    def grid(extents: list[ir.Value]) -> tuple[Size, Size]:
        return (extents[-1] if out.is_dynamic_dim(0) else rows), 1

    def build(
        row: ir.Value,
        _: ir.Value,
        _extents: list[ir.Value],
        ids: ir.Value,
        x: ir.Value,
        taken: ir.Value,
    ) -> None:
        source = load_index(ids, row)
        for at in scf.for_(index(0), index(columns), index(width)):
            vector.store(vector.load(type_, x, [source, at]), taken, [row, at])
            scf.yield_([])

    return Kernel("take_rows", grid, build)
