"""`llmc_transform.byte_products`: maps sums of products of bytes to a CPU's instructions."""

from collections.abc import Iterator
from itertools import product
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext, tensor, transform, vector

from llmc.pipelines.errors import fail
from llmc.pipelines.kernels.byte_instructions import INSTRUCTIONS, LANES, TWO_ROWS, Pairs
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.schedules.transform_ops.byte_dots import ByteDots
from llmc.pipelines.schedules.transform_ops.dialect import ConsumesPayload, Operation, Rewriting
from llmc.pipelines.schedules.transform_ops.tile_vectors import repeated_word, write_vector


class Interpretation(Rewriting):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def rewrite(op: Any, target: ir.Operation, rewriter: transform.TransformRewriter) -> None:
        """Replaces the sums."""
        dots, instruction, lanes = ByteDots(target), op.instruction.value, op.lanes.value
        if instruction not in INSTRUCTIONS:
            known = ", ".join(INSTRUCTIONS)
            fail(target, f"there is no instruction '{instruction}': there are {known}")
        if lanes < 1 or lanes not in LANES.get(instruction, [lanes]) or dots.columns % lanes:
            fail(target, f"'{instruction}' takes no {lanes} lanes of {dots.columns} columns")
        sums = _multiplied(dots, instruction, lanes)
        rewriter.replace_op(target, [sums])


class ByteProductsOp(Operation, name="byte_products", traits=[Interpretation, ConsumesPayload]):
    """Makes vectors of the `dots` of one block of a quantised linear layer; see `ByteDots`.

    MLIR's vectoriser would widen the bytes first. `lanes` sums of 32 bits fill a register.

        "llmc_transform.byte_products"(%dots) {instruction = "vpdpbusd", lanes = 16 : i64}
              : (!transform.any_op) -> ()
    """

    target: ext.Operand[Any]
    instruction: ir.StringAttr
    lanes: ir.IntegerAttr


def _multiplied(dots: ByteDots, instruction: str, lanes: int) -> ir.Value:
    """The tensor of sums."""
    shape, element = dots.start.type.shape, dots.start.type.element_type
    dims = [dim for dim in (0, 1) if shape[dim] > 1]
    chunks = dots.columns // lanes
    whole = [shape[dim] for dim in dims]
    sums = splat(0, ir.VectorType.get([*whole, chunks, lanes], element))
    for panel, chunk in product(range(dots.panels), range(chunks)):
        parts = dots.weights(panel=panel, block=0, column=chunk * lanes, lanes=lanes)
        rows = [_pairs(dots, parts, row, lanes) for row in range(dots.rows)]
        for row, total in enumerate(_totals(dots, rows, instruction, lanes)):
            place = [*((row, panel)[dim] for dim in dims), chunk]
            sums = vector.insert(total, sums, [], place)
    joined = vector.shape_cast(ir.VectorType.get([*whole, dots.columns], element), sums)
    return write_vector(joined, tensor.empty(shape, element), [*dims, 3])


def _totals(dots: ByteDots, rows: list[Pairs], instruction: str, lanes: int) -> Iterator[ir.Value]:
    """The sums of each row, two rows at a time where the instruction can."""
    signed, most = dots.is_signed, dots.most
    together = TWO_ROWS.get(instruction) if most <= 128 else None
    while together and len(rows) > 1:
        yield from together(rows[:2])
        rows = rows[2:]
    start = splat(0, ir.VectorType.get([lanes], dots.start.type.element_type))
    for pairs in rows:
        yield INSTRUCTIONS[instruction](start, pairs, signed, most)


def _pairs(dots: ByteDots, weights: list[list[ir.Value]], row: int, lanes: int) -> Pairs:
    """The weights of each word and part, and the activations, once for every column."""
    activations = dots.activations(row)
    return [
        (weight, repeated_word(four, lanes))
        for words in zip(*map(zip, weights, activations), strict=True)
        for weight, four in words
    ]
