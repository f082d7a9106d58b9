"""The llmc dialect: LLM-level operations, what they mean in linalg, and their verifiers."""

from torch_mlir import ir

from llmc.dialects.attention import AttentionOp
from llmc.dialects.cached_attention import CachedAttentionOp
from llmc.dialects.expert_linear import ExpertLinearOp
from llmc.dialects.group_rows import GroupRowsOp
from llmc.dialects.kv_cache import CacheAllocateOp, CacheAppendOp, CacheReadOp
from llmc.dialects.linear import LinearOp
from llmc.dialects.llmc import Llmc
from llmc.dialects.packed_expert_linear import GroupedExpertLinearOp, PackedExpertLinearOp
from llmc.dialects.packed_linear import PackedLinearOp
from llmc.dialects.parameter import ParameterOp
from llmc.dialects.rms_norm import RMSNormOp
from llmc.dialects.rotary import RotaryOp

OPERATIONS = {
    op.OPERATION_NAME: op
    for op in (
        AttentionOp,
        CacheAllocateOp,
        CacheAppendOp,
        CacheReadOp,
        CachedAttentionOp,
        ExpertLinearOp,
        GroupRowsOp,
        GroupedExpertLinearOp,
        LinearOp,
        PackedExpertLinearOp,
        PackedLinearOp,
        ParameterOp,
        RMSNormOp,
        RotaryOp,
    )
}

__all__ = [*(op.__name__ for op in OPERATIONS.values()), "OPERATIONS", "Llmc", "load"]


def load(context: ir.Context) -> None:
    """Makes the llmc dialect known to `context`."""
    with context, ir.Location.unknown():
        Llmc.load()
