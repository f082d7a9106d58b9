"""The kernel of `llmc.combine_experts` for one token: a part of its row for each workgroup."""

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector

from llmc.dialects.index_notation import constant, index
from llmc.pipelines.divisor import divisor
from llmc.pipelines.kernels.kernel import Kernel, multiply_add

_WORKGROUPS = 4
"""As many as a row is worth: the numbers are few and near."""


def combine_experts(out: ir.RankedTensorType, lanes: int) -> Kernel:
    """Operands `y [R * C, N]`, `weights [R, C]`, result `[R, N]`."""
    rows, columns = out.shape
    width = divisor(columns, lanes)
    parts = divisor(columns // width, _WORKGROUPS)

    def build(
        part: ir.Value,
        row: ir.Value,
        _extents: list[ir.Value],
        y: ir.Value,
        weights: ir.Value,
        sums: ir.Value,
    ) -> None:
        _, chosen = weights.type.shape
        type_ = ir.VectorType.get([width], out.element_type)
        factors = [memref.load(weights, [row, index(number)]) for number in range(chosen)]
        own = index(columns // parts)
        begin = arith.muli(part, own)
        for at in scf.for_(begin, arith.addi(begin, own), index(width)):
            total = vector.broadcast(type_, constant(0.0, out.element_type))
            for number, factor in enumerate(factors):
                source = arith.addi(arith.muli(row, index(chosen)), index(number))
                read = vector.load(type_, y, [source, at])
                total = multiply_add(vector.broadcast(type_, factor), read, total)
            vector.store(total, sums, [row, at])
            scf.yield_([])

    return Kernel("combine_experts", lambda _: (parts, rows), build)
