"""The passes of llmc, one in each file, and all of them by name."""

from llmc.pipelines.passes.add_decode import AddDecode
from llmc.pipelines.passes.add_early import AddEarly
from llmc.pipelines.passes.add_greedy import AddGreedy
from llmc.pipelines.passes.add_sampled import AddSampled
from llmc.pipelines.passes.add_top_k import AddTopK
from llmc.pipelines.passes.annotate_caches import AnnotateCaches
from llmc.pipelines.passes.annotate_shardings import AnnotateShardings
from llmc.pipelines.passes.apply_schedule import ApplySchedule
from llmc.pipelines.passes.attend_in_place import AttendInPlace
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.bind_parameters import BindParameters
from llmc.pipelines.passes.call_gpu_kernels import CallGPUKernels
from llmc.pipelines.passes.call_kernels import CallKernels
from llmc.pipelines.passes.dispatch_kernels import DispatchKernels
from llmc.pipelines.passes.drop_assertions import DropAssertions
from llmc.pipelines.passes.fill_panels import FillPanels
from llmc.pipelines.passes.fold_norm_weights import FoldNormWeights
from llmc.pipelines.passes.fold_rotary_tables import FoldRotaryTables
from llmc.pipelines.passes.fold_transposes import FoldTransposes
from llmc.pipelines.passes.fuse_argmax import FuseArgmax
from llmc.pipelines.passes.fuse_decode_attention import FuseDecodeAttention
from llmc.pipelines.passes.fuse_gate_up import FuseGateUp
from llmc.pipelines.passes.fuse_partial_rotary import FusePartialRotary
from llmc.pipelines.passes.fuse_qkv import FuseQKV
from llmc.pipelines.passes.fuse_residual_norm import FuseResidualNorm
from llmc.pipelines.passes.fuse_screened_argmax import FuseScreenedArgmax
from llmc.pipelines.passes.group_expert_rows import GroupExpertRows
from llmc.pipelines.passes.hoist_across_layers import HoistAcrossLayers
from llmc.pipelines.passes.join_frequencies import JoinFrequencies
from llmc.pipelines.passes.join_prompts import JoinPrompts
from llmc.pipelines.passes.lower_collectives import LowerCollectives
from llmc.pipelines.passes.lower_collectives_to_flow import LowerCollectivesToFlow
from llmc.pipelines.passes.lower_llmc import LowerLlmc
from llmc.pipelines.passes.narrow_activations import NarrowActivations
from llmc.pipelines.passes.number_layers import NumberLayers
from llmc.pipelines.passes.outline_experts import OutlineExperts
from llmc.pipelines.passes.outline_kernels import OutlineKernels
from llmc.pipelines.passes.outline_linears import OutlineLinears
from llmc.pipelines.passes.outline_quantized_experts import OutlineQuantizedExperts
from llmc.pipelines.passes.outline_quantized_linears import OutlineQuantizedLinears
from llmc.pipelines.passes.outline_regions import OutlineRegions
from llmc.pipelines.passes.outline_rows import OutlineRows
from llmc.pipelines.passes.overlap_collectives import OverlapCollectives
from llmc.pipelines.passes.pack_blocks import PackBlocks
from llmc.pipelines.passes.pack_weights import PackWeights
from llmc.pipelines.passes.pair_halves import PairHalves
from llmc.pipelines.passes.partition_shards import PartitionShards
from llmc.pipelines.passes.partition_stages import PartitionStages
from llmc.pipelines.passes.persist_layers import PersistLayers
from llmc.pipelines.passes.propagate_shapes import PropagateShapes
from llmc.pipelines.passes.propagate_shardings import PropagateShardings
from llmc.pipelines.passes.quantize_activations import QuantizeActivations
from llmc.pipelines.passes.quantize_weights import QuantizeWeights
from llmc.pipelines.passes.refuse_unsupported import RefuseUnsupported
from llmc.pipelines.passes.remove_dead_parameters import RemoveDeadParameters
from llmc.pipelines.passes.return_best_token import ReturnBestToken
from llmc.pipelines.passes.round_activations import RoundActivations
from llmc.pipelines.passes.schedule_collectives import ScheduleCollectives
from llmc.pipelines.passes.schedule_kernels import ScheduleKernels
from llmc.pipelines.passes.screen_argmax import ScreenArgmax
from llmc.pipelines.passes.select_last_token import SelectLastToken
from llmc.pipelines.passes.settle_extents import SettleExtents
from llmc.pipelines.passes.simplify_collectives import SimplifyCollectives
from llmc.pipelines.passes.simplify_reshapes import SimplifyReshapes
from llmc.pipelines.passes.specialize_tokens import SpecializeTokens
from llmc.pipelines.passes.split_argmax import SplitArgmax
from llmc.pipelines.passes.split_blocks import SplitBlocks
from llmc.pipelines.passes.split_layers import SplitLayers
from llmc.pipelines.passes.split_linears import SplitLinears
from llmc.pipelines.passes.store_blocks_as_bytes import StoreBlocksAsBytes
from llmc.pipelines.passes.thread_kv_cache import ThreadKVCache
from llmc.pipelines.passes.tile_prefill import TilePrefill
from llmc.pipelines.passes.to_iree import ToIREE

PASSES: dict[str, type[Pass]] = {
    pass_.name: pass_
    for pass_ in (
        AddDecode,
        AddEarly,
        AddGreedy,
        AddSampled,
        AddTopK,
        AnnotateCaches,
        AnnotateShardings,
        ApplySchedule,
        AttendInPlace,
        BindParameters,
        CallGPUKernels,
        CallKernels,
        DispatchKernels,
        DropAssertions,
        FillPanels,
        FoldNormWeights,
        FoldRotaryTables,
        FoldTransposes,
        FuseArgmax,
        FuseDecodeAttention,
        FuseGateUp,
        FusePartialRotary,
        FuseQKV,
        FuseResidualNorm,
        FuseScreenedArgmax,
        GroupExpertRows,
        HoistAcrossLayers,
        JoinFrequencies,
        JoinPrompts,
        LowerCollectives,
        LowerCollectivesToFlow,
        LowerLlmc,
        NarrowActivations,
        NumberLayers,
        OutlineExperts,
        OutlineKernels,
        OutlineLinears,
        OutlineQuantizedExperts,
        OutlineQuantizedLinears,
        OutlineRegions,
        OutlineRows,
        OverlapCollectives,
        PackBlocks,
        PackWeights,
        PairHalves,
        PartitionShards,
        PartitionStages,
        PersistLayers,
        PropagateShardings,
        QuantizeActivations,
        QuantizeWeights,
        PropagateShapes,
        RefuseUnsupported,
        RemoveDeadParameters,
        ReturnBestToken,
        RoundActivations,
        ScheduleCollectives,
        ScheduleKernels,
        ScreenArgmax,
        SelectLastToken,
        SimplifyCollectives,
        SettleExtents,
        SimplifyReshapes,
        SpecializeTokens,
        SplitArgmax,
        SplitBlocks,
        SplitLayers,
        SplitLinears,
        StoreBlocksAsBytes,
        ThreadKVCache,
        TilePrefill,
        ToIREE,
    )
}
