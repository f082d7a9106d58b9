"""`call-gpu-kernels`: replaces attention by kernels of our own for GPUs."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from torch_mlir import ir

from llmc.dialects import DecodeAttentionOp
from llmc.dialects.index_notation import size
from llmc.pipelines.kernels.decode_attention import DecodeShape
from llmc.pipelines.kernels.gpu_decode_attention import add_parts, attend_to_parts, room_type
from llmc.pipelines.kernels.kernel import dispatch
from llmc.pipelines.kernels.workgroup_softmax import RowTile
from llmc.pipelines.passes.base import Pass, find
from llmc.pipelines.targets.gpu import GPUTarget
from llmc.pipelines.targets.parse import parse_gpu


@dataclass(frozen=True)
class CallGPUKernels(Pass):
    """Puts the kernels into the module, each once, and dispatches them where they are needed.

    They use the threads and the memory of `target`. Attention over a KV cache of cells, or of other
    floats than f32, has no kernel and is left alone. Changes numerics: a softmax is taken tile by
    tile.
    """

    name: ClassVar[str] = "call-gpu-kernels"
    target: str = "vulkan:baseline"

    def __post_init__(self) -> None:
        _ = self._target

    def apply(self, module: ir.Module) -> None:
        """Rewrites operation by operation."""
        module.context.allow_unregistered_dialects = True
        for op in find(module.operation, "llmc.decode_attention"):
            if _holds_floats(op.opview):
                with ir.InsertionPoint(op), op.location:
                    results = self._decode(op.opview)
                for old, new in zip(op.results, results, strict=True):
                    old.replace_all_uses_with(new)
                op.erase()

    @cached_property
    def _target(self) -> GPUTarget:
        return parse_gpu(self.target)

    def _decode(self, op: DecodeAttentionOp) -> list[ir.Value]:
        shape, caches = DecodeShape.of(op), [op.keys, op.values]
        channels, value_channels = (cache.type.shape[4] for cache in caches)
        tile = RowTile.choose(shape.sharing, channels, value_channels, self._target.gpu)
        integers = self._target.integers
        batch = size(op.query, 0)
        fixed, extents = (batch, []) if isinstance(batch, int) else (None, [batch])
        tables = [table for table in (op.cos, op.sin) if table is not None]
        norms = [norm for norm in (op.query_norm, op.key_norm) if norm is not None]
        room, *new = dispatch(
            attend_to_parts(shape, fixed, bool(tables), bool(norms), tile, integers),
            [op.query, op.key, op.value, op.start, *tables, *norms],
            [room_type(fixed, shape.heads, value_channels)],
            extents,
            scalars=[op.layer, op.sequence, op.past],
            updated=caches,
        )
        kernel = add_parts(shape, fixed, tile, integers)
        out = dispatch(kernel, [room, op.start], [op.out.type], extents, scalars=[op.past])
        return [*out, *new]


def _holds_floats(op: DecodeAttentionOp) -> bool:
    """Whether query and caches are of floats, the query of f32."""
    elements = [each.type.element_type for each in (op.keys, op.values)]
    of_floats = all(isinstance(element, ir.FloatType) for element in elements)
    return of_floats and op.query.type.element_type == ir.F32Type.get()
