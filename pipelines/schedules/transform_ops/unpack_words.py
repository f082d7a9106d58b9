"""`llmc_transform.unpack_words`: takes what unpacks weights out of sums of products of bytes."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, bufferization, ext, linalg, scf, transform, vector
from torch_mlir.extras import types as T

from llmc.dialects.block_panels import WORD
from llmc.dialects.index_notation import index
from llmc.pipelines.schedules.transform_ops.byte_dots import ByteDots
from llmc.pipelines.schedules.transform_ops.dialect import ModifiesPayload, Operation, Rewriting
from llmc.pipelines.schedules.transform_ops.tile_registers import buffer_of_rows


class Interpretation(Rewriting):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def rewrite(
        _op: Any, target: ir.Operation, rewriter: transform.TransformRewriter
    ) -> list[ir.Operation]:
        """Unpacks, and replaces the sums."""
        dots = ByteDots(target)
        plain = _dots(dots, _unpack(dots))
        rewriter.replace_op(target, [plain.results[0]])
        return [plain]


class UnpackWordsOp(Operation, name="unpack_words", traits=[Interpretation, ModifiesPayload]):
    """Unpacks the weights of `dots`, see `ByteDots`, of a panel and some blocks before them.

    What remains has a loop `f` over the parts of a block, in order, before that over its words: of
    words `[1, B, F, G, 4 J]` on the workgroup's stack and activations `[T, B, F, G, 4]`.

        %plain = "llmc_transform.unpack_words"(%dots) : (!transform.any_op) -> !transform.any_op
    """

    target: ext.Operand[Any]
    plain: ext.Result[Any]


def _unpack(dots: ByteDots) -> ir.Value:
    """The words of all blocks, as a tensor."""
    byte = T.i8()
    shape = [1, dots.blocks, dots.parts, dots.words, WORD * dots.columns]
    buffer = buffer_of_rows(shape, byte)
    for block in scf.for_(index(0), index(dots.blocks), index(1)):
        parts = dots.weights(panel=0, block=block, column=0, lanes=dots.columns)
        for part, words in enumerate(parts):
            for number, word in enumerate(words):
                place = [index(0), block, index(part), index(number), index(0)]
                vector.store(word, buffer, place)
        scf.yield_([])
    words = ir.RankedTensorType.get(shape, byte)
    return bufferization.to_tensor(words, buffer, restrict=True, writable=True)


def _dots(dots: ByteDots, words: ir.Value) -> ir.Operation:
    """The sums, of words that are unpacked."""
    t, p, b, j, f, g, i = map(ir.AffineDimExpr.get, range(7))
    maps = [[p, b, f, g, j * WORD + i], [t, b, f, g, i], [t, p, b, j]]
    kinds = ["parallel"] * 4 + ["reduction"] * 3
    op = linalg.GenericOp(
        [dots.start.type],
        [words, dots.values[0]],
        [dots.start],
        [ir.AffineMap.get(7, 0, results) for results in maps],
        kinds,
    )
    byte, sum_ = words.type.element_type, dots.start.type.element_type
    block = op.regions[0].blocks.append(byte, byte, sum_, arg_locs=None)
    with ir.InsertionPoint(block):
        weight, value, total = block.arguments
        widen = arith.extsi if dots.is_signed else arith.extui
        product = arith.muli(widen(sum_, weight), arith.extsi(sum_, value))
        linalg.YieldOp([arith.addi(total, product)])
    return op.operation
