"""Norms of the heads of query and key, which kernels that read these do by the way."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import linalg

from llmc.dialects import RMSNormOp
from llmc.pipelines.kernels.head_row import NormConstants
from llmc.pipelines.rewriting.generics import measured
from llmc.pipelines.rewriting.kernel_operands import stack_and_number, stack_and_place
from llmc.pipelines.rewriting.linear_prologue import read_lengths_before
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


@dataclass(frozen=True)
class PlainHeads:
    """Heads `value [B, H, T, D]` as they are before a `norm`, where they have one.

    What a kernel needs for it are `weights`, one stack `[layers, D]`, and which of these, `layer`.
    """

    value: ir.Value
    norm: NormConstants | None = None
    weights: tuple[ir.Value, ...] = ()
    layer: tuple[ir.Value, ...] = ()

    @classmethod
    def of(cls, heads: ir.Value) -> "PlainHeads":
        """Built here; norm and transposition are left to those who also read them."""
        norm = _norm_of(heads)
        if norm is None or not norms_heads(norm):
            return cls(heads)
        read_lengths_before(norm.operation)
        stack, layer = stack_and_place(norm.weight)
        constants = NormConstants(norm.epsilon.value, norm.offset.value)
        return cls(_plain(norm.x, heads), constants, (stack,), (layer,))


def norms_heads(norm: RMSNormOp) -> bool:
    """Whether it is of the channels of heads, f32, by a weight."""
    type_ = norm.x.type
    return norm.weight is not None and type_.rank == 4 and str(type_.element_type) == "f32"


def readers_of_heads(norm: RMSNormOp) -> Iterator[ir.Operation]:
    """Who reads what `norm` gives, or that transposed to heads, and not only how long it is."""
    for reader in _readers(norm.operation):
        if reader.name == "linalg.transpose" and _gives_heads(reader):
            yield from _readers(reader)
        else:
            yield reader


def _readers(op: ir.Operation) -> list[ir.Operation]:
    readers = (use.owner.operation for use in op.results[0].uses)
    return [reader for reader in readers if measured(reader) is None]


def _gives_heads(transpose: ir.Operation) -> bool:
    return list(transpose.opview.permutation) == _PERMUTATION


def _norm_of(heads: ir.Value) -> RMSNormOp | None:
    """The norm that gives `heads`, or the `[B, 1, H, D]` that are transposed to them."""
    transpose = made_by(heads, "linalg.transpose")
    if transpose is not None and _gives_heads(transpose):
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
    if norm.weight is None:
        return None
    stack, number = stack_and_number(norm.weight)
    return stack if number == layer else None
