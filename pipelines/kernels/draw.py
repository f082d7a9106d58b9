"""The kernel of `llmc.draw`: what the candidates of a row weigh, and all others together."""

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.draw import Candidates
from llmc.dialects.index_notation import constant, index
from llmc.dialects.running_sums import Numbers
from llmc.dialects.token_weights import TokenWeights
from llmc.pipelines.kernels.first_largest import first_places, kernel_of_rows
from llmc.pipelines.kernels.kernel import Kernel
from llmc.pipelines.kernels.row_pieces import Piece, sum_of_row


def draw(logits: ir.RankedTensorType, lanes: int) -> Kernel:
    """Operands as those of `llmc.draw`, whose `top_k` is a scalar; result `[R]`."""

    def build(
        numbers: ir.VectorType,
        row: ir.Value,
        extents: list[ir.Value],
        logits: ir.Value,
        values: ir.Value,
        tokens: ir.Value,
        best: ir.Value,
        random: ir.Value,
        options: ir.Value,
        out: ir.Value,
    ) -> None:
        top_k, columns = extents[-1], memref.dim(values, index(1))
        candidates = Candidates.of(
            numbers_of(values, row), numbers_of(tokens, row), columns, top_k, read_options(options)
        )
        # The sum is over the vocabulary: not where nobody asks for it.
        rest = scf.IfOp(candidates.are_of_all, [T.f32()], has_else=True)
        with ir.InsertionPoint(rest.then_block):
            weigh = weights_of_rest(candidates.weights, logits, row)
            scf.yield_([sum_of_row(logits.type.shape[1], numbers, weigh)])
        with ir.InsertionPoint(rest.else_block):
            scf.yield_([constant(0.0, T.f32())])
        own = (memref.load(x, [row]) for x in (best, random))
        memref.store(candidates.draw(rest.results[0], *own), out, [row])

    return kernel_of_rows("draw", logits, lanes, build)


def numbers_of(x: ir.Value, row: ir.Value) -> Numbers:
    """Those of a row of the buffer `x [R, N]`."""
    return lambda place: memref.load(x, [row, place])


def read_options(options: ir.Value) -> list[ir.Value]:
    """Temperature, top_p and min_p."""
    return [memref.load(options, [index(at)]) for at in range(3)]


def weights_of_rest(weights: TokenWeights, logits: ir.Value, row: ir.Value) -> Piece:
    """What the tokens of a row of `logits [R, V]` weigh, but 0 for candidates."""

    def weigh(type_: ir.VectorType, at: ir.Value) -> ir.Value:
        places = first_places(type_)
        first = vector.broadcast(places.type, arith.index_cast(places.type.element_type, at))
        wide = ir.VectorType.get(type_.shape, T.i64())
        tokens = arith.extsi(wide, arith.addi(places, first))
        return weights.of_rest(vector.load(type_, logits, [row, at]), tokens)

    return weigh
