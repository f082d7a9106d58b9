"""Norms of the heads of query and key, which the kernel of attention does by the way."""

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import linalg, tensor

from llmc.dialects import RMSNormOp
from llmc.pipelines.rewriting.operations import made_by

# From tokens of heads to heads of tokens.
_PERMUTATION = [0, 2, 1, 3]


@dataclass(frozen=True)
class HeadNorms:
    """Stacks of weights `[layers, D]` for query and key, and the constants of both norms."""

    query: ir.Value | None = None
    key: ir.Value | None = None
    epsilon: float = 0.0
    offset: float = 0.0


def without_norms(
    query: ir.Value, key: ir.Value, layer: ir.Value
) -> tuple[ir.Value, ir.Value, HeadNorms]:
    """Heads `[B, H, 1, D]` as they are before their norms, if both have one by weights of `layer`.

    Built here; norm and transposition are left to those who also read them.
    """
    of_query, of_key = _norm_of(query), _norm_of(key)
    if of_query is None or of_key is None:
        return query, key, HeadNorms()
    stacks = _stack_of(of_query, layer), _stack_of(of_key, layer)
    epsilon, offset = of_query.epsilon.value, of_query.offset.value
    is_alike = (epsilon, offset) == (of_key.epsilon.value, of_key.offset.value)
    if stacks[0] is None or stacks[1] is None or not is_alike:
        return query, key, HeadNorms()
    norms = HeadNorms(*stacks, epsilon, offset)
    return _plain(of_query.x, query), _plain(of_key.x, key), norms


def _norm_of(heads: ir.Value) -> RMSNormOp | None:
    """The norm that gives `heads`, or the `[B, 1, H, D]` that are transposed to them."""
    transpose = made_by(heads, "linalg.transpose")
    if transpose is not None and list(transpose.opview.permutation) == _PERMUTATION:
        heads = transpose.operands[0]
    norm = made_by(heads, "llmc.rms_norm")
    return norm and norm.opview


def _plain(rows: ir.Value, heads: ir.Value) -> ir.Value:
    """`rows` transposed as `heads` are: into the room that these have."""
    if heads.owner.name != "linalg.transpose":
        return rows
    op = linalg.transpose(rows, outs=[heads.owner.operands[1]], permutation=_PERMUTATION)
    return op.results[0]


def _stack_of(norm: RMSNormOp, layer: ir.Value) -> ir.Value | None:
    """The weights `[layers, D]` of all layers, of which the norm's is row `layer`."""
    cut = norm.weight is not None and made_by(norm.weight, "tensor.extract_slice")
    if not cut:
        return None
    row: tensor.ExtractSliceOp = cut.opview
    is_row = (
        row.source.type.rank == 2
        and list(row.offsets) == [layer]
        and list(row.static_offsets)[1] == 0
        and list(row.static_sizes) == [1, row.source.type.shape[1]]
    )
    return row.source if is_row else None
