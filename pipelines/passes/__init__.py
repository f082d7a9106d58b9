"""The passes of llmc, one in each file, and all of them by name."""

from llmc.pipelines.passes.attend_in_place import AttendInPlace
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.bind_parameters import BindParameters
from llmc.pipelines.passes.call_kernels import CallKernels
from llmc.pipelines.passes.drop_assertions import DropAssertions
from llmc.pipelines.passes.group_expert_rows import GroupExpertRows
from llmc.pipelines.passes.lower_llmc import LowerLlmc
from llmc.pipelines.passes.number_layers import NumberLayers
from llmc.pipelines.passes.pack_weights import PackWeights
from llmc.pipelines.passes.thread_kv_cache import ThreadKVCache
from llmc.pipelines.passes.to_iree import ToIREE

PASSES: dict[str, type[Pass]] = {
    pass_.name: pass_
    for pass_ in (
        AttendInPlace,
        BindParameters,
        CallKernels,
        DropAssertions,
        GroupExpertRows,
        LowerLlmc,
        NumberLayers,
        PackWeights,
        ThreadKVCache,
        ToIREE,
    )
}
