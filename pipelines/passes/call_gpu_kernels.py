"""`call-gpu-kernels`: replaces attention by kernels of our own for GPUs."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor
from torch_mlir.extras import types as T

from llmc.dialects import DecodeAttentionOp
from llmc.dialects.index_notation import as_value, size
from llmc.pipelines.kernels.attention import AttentionShape
from llmc.pipelines.kernels.decode_attention import DecodeShape
from llmc.pipelines.kernels.gpu_append import append_tokens
from llmc.pipelines.kernels.gpu_attention import attend_to_tokens
from llmc.pipelines.kernels.gpu_decode_attention import (
    add_parts,
    attend_to_parts,
    room_type,
    slot_type,
)
from llmc.pipelines.kernels.head_row import NormConstants
from llmc.pipelines.kernels.kernel import dispatch
from llmc.pipelines.kernels.raw_heads import RawHeads
from llmc.pipelines.kernels.threads import LANES
from llmc.pipelines.kernels.workgroup_softmax import RowTile
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.head_rows import heads_of, where_they_lie
from llmc.pipelines.rewriting.new_tokens import NewTokens
from llmc.pipelines.targets.gpu import GPUTarget
from llmc.pipelines.targets.parse import parse_gpu
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class CallGPUKernels(Pass):
    """Puts the kernels into the module, each once, and dispatches them where they are needed.

    They use the threads and the memory of `target`. Attention over a KV cache of cells, or of other
    floats than f32, has no kernel and is left alone, and so is that of many tokens unless they are
    a fixed number, which are appended for it; the kernels then take in the appends, the
    `llmc.rotary` and the `llmc.rms_norm` of query and key, and the cutting of linear layers' rows
    into heads. Changes numerics: a softmax is taken tile by tile.
    """

    name: ClassVar[str] = "call-gpu-kernels"
    target: str = "vulkan:baseline"

    def __post_init__(self) -> None:
        _ = self._target

    def apply(self, module: ir.Module) -> None:
        """Rewrites operation by operation."""
        module.context.allow_unregistered_dialects = True
        for op in find(module.operation, "llmc.decode_attention"):
            if _holds_floats(op.opview.query, op.opview.keys, op.opview.values):
                with ir.InsertionPoint(op), op.location:
                    results = self._decode(op.opview)
                for old, new in zip(op.results, results, strict=True):
                    old.replace_all_uses_with(new)
                op.erase()
        for op in find(module.operation, "llmc.attention"):
            is_of_fixed_size = op.opview.query.type.has_static_shape
            tokens = NewTokens.of(op.opview) if is_of_fixed_size else None
            if tokens and _holds_floats(tokens.query, *tokens.caches):
                with ir.InsertionPoint(op), op.location:
                    self._prefill(tokens)

    @cached_property
    def _target(self) -> GPUTarget:
        return parse_gpu(self.target)

    def _decode(self, op: DecodeAttentionOp) -> list[ir.Value]:
        shape, caches = DecodeShape.of(op), [op.keys, op.values]
        channels, value_channels = shape.key_channels, shape.value_channels
        tile = RowTile.choose(shape.sharing, channels, value_channels, self._target.gpu)
        integers = self._target.integers
        batch = size(op.query, 0)
        fixed, extents = (batch, []) if isinstance(batch, int) else (None, [batch])
        slot = _slot(op)
        room, *new = dispatch(
            attend_to_parts(shape, fixed, bool(op.tables), bool(op.norms), tile, integers),
            [op.query, op.key, op.value, op.start, *op.tables, *op.norms, slot],
            [room_type(fixed, shape.heads, value_channels)],
            extents,
            scalars=[as_value(size(op.values, 3)), op.layer],
            updated=caches,
        )
        kernel = add_parts(shape, fixed, tile, integers)
        out = dispatch(kernel, [room, op.start, slot], [op.out.type], extents)
        return [*out, *new]

    def _prefill(self, new: NewTokens) -> None:
        caches = self._append(new)
        tokens = new.query.type.shape[2]
        new.replace(heads_of(self._attend(new, caches), tokens), caches)

    def _append(self, new: NewTokens) -> list[ir.Value]:
        """The new caches."""
        key, keys, factors = _raw(new, new.key, new.norms.key)
        value, values = where_they_lie(new.value, LANES)
        kernel = append_tokens(keys, values, new.key.type.shape[2], self._target.integers)
        operands = [key, value, *factors]
        return dispatch(kernel, operands, [], scalars=new.place, updated=new.caches)

    def _attend(self, new: NewTokens, caches: list[ir.Value]) -> ir.Value:
        """Rows `[B, T, H, E]`."""
        attention, (batch, heads, tokens, _) = new.attention, new.query.type.shape
        query, queries, factors = _raw(new, new.query, new.norms.query)
        shape = AttentionShape.of(attention, attention.query, new.key.type.shape[1])
        target, rows = self._target, tokens * shape.sharing
        tile = RowTile.choose(rows, shape.channels, shape.value_channels, target.gpu)
        extents = [batch, tokens, heads, shape.value_channels]
        (out,) = dispatch(
            attend_to_tokens(shape, queries, tokens, tile, target.integers),
            [query, *caches, attention.start, *factors],
            [ir.RankedTensorType.get(extents, attention.out.type.element_type)],
            scalars=new.place,
        )
        return out


def _slot(op: DecodeAttentionOp) -> ir.Value:
    """Where the token goes, in memory."""
    type_ = slot_type()
    scalars = [arith.index_cast(type_.element_type, each) for each in (op.sequence, op.past)]
    return tensor.from_elements(type_, scalars)


def _raw(
    new: NewTokens, heads: ir.Value, norm: ir.Value | None
) -> tuple[ir.Value, RawHeads, list[ir.Value]]:
    """What holds `heads`, how they lie there, and the factors that kernels make them by."""
    held, places = where_they_lie(heads, LANES)
    turned = bool(new.tables), new.interleaved
    if norm is None:
        return held, RawHeads(places, *turned, None), new.tables
    raw = RawHeads(places, *turned, NormConstants(new.norms.epsilon, new.norms.offset))
    return held, raw, [*new.tables, norm]


def _holds_floats(query: ir.Value, *caches: ir.Value) -> bool:
    """Whether query and caches are of floats, the query of f32."""
    elements = [cache.type.element_type for cache in caches]
    of_floats = all(isinstance(element, ir.FloatType) for element in elements)
    return bool(of_floats and query.type.element_type == T.f32())
