"""`llmc_transform.pair_products`: maps sums of two products of bf16 to a CPU's instruction."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext, linalg, transform, vector
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import index
from llmc.pipelines.errors import fail
from llmc.pipelines.kernels.pair_instructions import INSTRUCTIONS, LANES
from llmc.pipelines.schedules.transform_ops.dialect import ConsumesPayload, Operation, Rewriting
from llmc.pipelines.schedules.transform_ops.tile_vectors import (
    read_vector,
    repeated_word,
    write_vector,
)


class Interpretation(Rewriting):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def rewrite(op: Any, target: ir.Operation, rewriter: transform.TransformRewriter) -> None:
        """Replaces the sums."""
        instruction = op.instruction.value
        if not _are_pairs(target):
            fail(target, "only sums of two products of bf16, over loops 'tpjk', are multiplied so")
        if instruction not in INSTRUCTIONS:
            fail(target, f"there is no instruction '{instruction}': there are {list(INSTRUCTIONS)}")
        columns = target.results[0].type.shape[-1]
        if columns not in LANES[instruction]:
            fail(target, f"'{instruction}' takes no {columns} columns")
        rewriter.replace_op(target, [_multiplied(target, instruction)])


class PairProductsOp(Operation, name="pair_products", traits=[Interpretation, ConsumesPayload]):
    """Makes vectors of a linalg.generic that adds up two products of bf16 for rows and columns.

    Its `loops` are rows `t`, panels `p`, their columns `j` and the two terms `k`; it reads
    `x [t, k]` and `weight [p, k, j]`, and its sums are f32. A row of sums is a vector. MLIR's
    vectoriser would widen the numbers first.

        "llmc_transform.pair_products"(%products) {instruction = "vdpbf16ps"}
              : (!transform.any_op) -> ()
    """

    target: ext.Operand[Any]
    instruction: ir.StringAttr


def _are_pairs(op: ir.Operation) -> bool:
    """Whether `op` is such a sum, of a static number of rows and panels."""
    if op.name != "linalg.generic" or not linalg.isa_contraction_op(op):
        return False
    maps = [ir.AffineMapAttr(each).value for each in op.attributes["indexing_maps"]]
    x, weight, sums = (operand.type for operand in op.operands)
    t, p, j, k = map(ir.AffineDimExpr.get, range(4))
    return (
        maps == [ir.AffineMap.get(4, 0, read) for read in ([t, k], [p, k, j], [t, p, j])]
        and [x.element_type, weight.element_type, sums.element_type] == [T.bf16()] * 2 + [T.f32()]
        and all(type_.has_static_shape for type_ in (x, weight, sums))
        and x.shape[1] == 2
    )


def _multiplied(op: ir.Operation, instruction: str) -> ir.Value:
    """The tensor of sums."""
    x, weight, start = op.operands
    rows, panels, columns = start.type.shape
    sums = _read(start, [0, 0, 0], [rows, panels, columns])
    weights = [_weights(weight, panel, columns) for panel in range(panels)]
    for row in range(rows):
        pair = repeated_word(_read(x, [row, 0], [2]), columns)
        for panel in range(panels):
            before = vector.extract(sums, [], [row, panel])
            total = INSTRUCTIONS[instruction](before, weights[panel], pair)
            sums = vector.insert(total, sums, [], [row, panel])
    return write_vector(sums, start, [0, 1, 2])


def _weights(weight: ir.Value, panel: int, columns: int) -> ir.Value:
    """The two numbers of each column of a panel, side by side."""
    return vector.interleave(*(_read(weight, [panel, k, 0], [columns]) for k in range(2)))


def _read(source: ir.Value, where: list[int], shape: list[int]) -> ir.Value:
    type_ = ir.VectorType.get(shape, source.type.element_type)
    return read_vector(source, type_, [index(place) for place in where])
