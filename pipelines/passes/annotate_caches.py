"""`annotate-caches`: says that the columns of the KV cache are dealt out to ranks."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from llmc.dialects import CacheAllocateOp
from llmc.dialects.attributes import i64
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.thread_kv_cache import CACHE, SHARERS, kept_as
from llmc.pipelines.rewriting.functions import globals_with
from llmc.pipelines.sharding.annotations import grid_of, mark_layout
from llmc.pipelines.sharding.split import Dealt, whole
from llmc.pipelines.walks import find

AXIS = "sp"
_COLUMNS = 3


@dataclass(frozen=True)
class AnnotateCaches(Pass):
    """Adds a `shard.shard` along the grid's axis `sp` to each KV cache that is loaded or allocated.

    So the ranks along it keep, and read for each token, a share of all columns.

        %cache = ml_program.global_load @layer0.0.keys : tensor<30x?x3x?x64xf32>
        %sharding = shard.sharding @grid split_axes = [[], [], [], [0]] : !shard.sharding
        %share = shard.shard %cache to %sharding : tensor<30x?x3x?x64xf32>
    """

    name: ClassVar[str] = "annotate-caches"

    def apply(self, module: ir.Module) -> None:
        """Annotates all caches. UserError where a global is no cache, though marked as one."""
        grid = grid_of(module)
        axes = [axis.name for axis in grid.axes] if grid else []
        if grid is None or AXIS not in axes:
            return
        axis = axes.index(AXIS)
        split = Dealt(axis, (), grid.axes[axis].size)
        caches = [op for op in globals_with(module, CACHE) if SHARERS not in op.attributes]
        if not caches:
            return
        for op in caches:
            kept_as(ir.TypeAttr(op.attributes["type"]).value)
            op.attributes[SHARERS] = i64(split.ranks)
        names = {op.attributes["sym_name"].value for op in caches}
        for op in find(module.operation, "ml_program.global_load"):
            if ir.FlatSymbolRefAttr(op.attributes["global"]).value in names:
                _annotate(op.results[0], split)
        for op in find(module.operation, CacheAllocateOp.OPERATION_NAME):
            _annotate(op.results[0], split)


def _annotate(cache: ir.Value, split: Dealt) -> None:
    layout = list(whole(cache.type.rank))
    layout[_COLUMNS] = split
    mark_layout(cache, tuple(layout))
