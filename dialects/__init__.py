"""The llmc dialect: LLM-level operations, what they mean in linalg, and their verifiers."""

import sys
from types import ModuleType

from torch_mlir import ir
from torch_mlir._mlir_libs._mlir import globals as bindings
from torch_mlir._mlir_libs._torchMlir import register_dialect
from torch_mlir.passmanager import PassManager

from llmc.dialects.add_rms_norm import AddRMSNormOp
from llmc.dialects.argmax import ArgmaxOp
from llmc.dialects.attention import AttentionOp
from llmc.dialects.attention_part import AttentionPartOp
from llmc.dialects.bitcast import BitcastOp
from llmc.dialects.block_bytes import BlocksToBytesOp, BytesToBlocksOp
from llmc.dialects.block_field import BlockFieldOp
from llmc.dialects.cached_attention import CachedAttentionOp
from llmc.dialects.combine_experts import CombineExpertsOp
from llmc.dialects.combine_grouped_experts import CombineGroupedExpertsOp
from llmc.dialects.decode_attention import DecodeAttentionOp
from llmc.dialects.decode_attention_part import DecodeAttentionPartOp
from llmc.dialects.dequantize import DequantizeOp
from llmc.dialects.draw import DrawOp
from llmc.dialects.draw_of_all import DrawOfAllOp
from llmc.dialects.embedding import EmbeddingOp
from llmc.dialects.expert_linear import ExpertLinearOp
from llmc.dialects.group_rows import GroupRowsOp
from llmc.dialects.join_float import JoinFloatOp
from llmc.dialects.kv_cache import CacheAllocateOp, CacheAppendOp, CacheReadOp
from llmc.dialects.layer_norm import LayerNormOp
from llmc.dialects.linear import LinearOp
from llmc.dialects.llmc import Llmc
from llmc.dialects.pack_blocks import PackBlocksOp
from llmc.dialects.pack_planes import PackPlanesOp
from llmc.dialects.packed_embedding import PackedEmbeddingOp
from llmc.dialects.packed_expert_linear import GroupedExpertLinearOp, PackedExpertLinearOp
from llmc.dialects.packed_linear import PackedLinearOp
from llmc.dialects.packed_quantized_expert_linear import (
    GroupedQuantizedExpertLinearOp,
    PackedQuantizedExpertLinearOp,
)
from llmc.dialects.packed_quantized_linear import PackedQuantizedLinearOp
from llmc.dialects.parameter import ParameterOp
from llmc.dialects.plane_embedding import PlaneEmbeddingOp
from llmc.dialects.plane_linear import PlaneLinearOp
from llmc.dialects.quantize import QuantizeOp
from llmc.dialects.quantize_rows import QuantizeRowsOp
from llmc.dialects.quantized_linear import QuantizedLinearOp
from llmc.dialects.repeat_rows import RepeatRowsOp
from llmc.dialects.rms_norm import RMSNormOp
from llmc.dialects.rotary import RotaryOp
from llmc.dialects.rotary_table import RotaryTableOp
from llmc.dialects.rough_spread import RoughMetricOp, RoughSpreadOp
from llmc.dialects.route import RouteOp
from llmc.dialects.scale_columns import ScaleColumnsOp
from llmc.dialects.scored_route import ScoredRouteOp
from llmc.dialects.screened_argmax import ScreenedArgmaxOp
from llmc.dialects.split_float import SplitFloatOp
from llmc.dialects.take_rows import TakeRowsOp
from llmc.dialects.top_k import TopKOp

OPERATIONS = {
    op.OPERATION_NAME: op
    for op in (
        AddRMSNormOp,
        ArgmaxOp,
        AttentionOp,
        AttentionPartOp,
        BitcastOp,
        BlockFieldOp,
        BlocksToBytesOp,
        BytesToBlocksOp,
        CacheAllocateOp,
        CacheAppendOp,
        CacheReadOp,
        CachedAttentionOp,
        CombineExpertsOp,
        CombineGroupedExpertsOp,
        DecodeAttentionOp,
        DecodeAttentionPartOp,
        DequantizeOp,
        DrawOfAllOp,
        DrawOp,
        EmbeddingOp,
        ExpertLinearOp,
        GroupRowsOp,
        GroupedExpertLinearOp,
        GroupedQuantizedExpertLinearOp,
        JoinFloatOp,
        LayerNormOp,
        LinearOp,
        PackBlocksOp,
        PackPlanesOp,
        PackedEmbeddingOp,
        PackedExpertLinearOp,
        PackedLinearOp,
        PackedQuantizedExpertLinearOp,
        PackedQuantizedLinearOp,
        ParameterOp,
        PlaneEmbeddingOp,
        PlaneLinearOp,
        QuantizeOp,
        QuantizeRowsOp,
        QuantizedLinearOp,
        RMSNormOp,
        RepeatRowsOp,
        RotaryOp,
        RotaryTableOp,
        RoughMetricOp,
        RoughSpreadOp,
        RouteOp,
        ScaleColumnsOp,
        ScoredRouteOp,
        ScreenedArgmaxOp,
        SplitFloatOp,
        TakeRowsOp,
        TopKOp,
    )
}

__all__ = [*(op.__name__ for op in OPERATIONS.values()), "OPERATIONS", "Llmc", "load"]


# Otherwise MLIR searches the disk for `torch_mlir.dialects.llmc` whenever it meets an operation.
bindings.append_dialect_search_prefix(__name__)

# And for these, which have no Python: IREE's dialects, torch-mlir's, and our transform operations.
for _namespace in ("flow", "stream", "util", "tm_tensor", "torch_c", "llmc_transform"):
    sys.modules[f"{__name__}.{_namespace}"] = ModuleType(_namespace)

# torch_c and tm_tensor have no binding that loads them; passes that depend on them do.
_LOADERS = "builtin.module(torch-func-backend-type-conversion,func.func(convert-torch-to-tmtensor))"


def load(context: ir.Context) -> None:
    """Makes known to `context` the llmc dialect, and torch-mlir's, which the importer uses."""
    register_dialect(context)
    with context, ir.Location.unknown():
        Llmc.load()
        PassManager.parse(_LOADERS).run(ir.Module.create().operation)
