"""The pipelines that `llmc compile` runs, by name, each a list of passes.

A step is a pass of ours or the text of an MLIR pipeline over the module. Each stage leaves a module
that can be printed, read back and taken up from there. `llmc-opt` runs the same pipelines.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Annotated, ClassVar

from llmc.dialects.blocks import FORMATS
from llmc.pipelines.gpu_steps import gpu_linalg, gpu_weights
from llmc.pipelines.option_text import OneOf, check_options
from llmc.pipelines.passes import (
    AddDecode,
    AddEarly,
    AddGreedy,
    AddSampled,
    AddTopK,
    AnnotateCaches,
    AnnotateShardings,
    AttendInPlace,
    BindParameters,
    CallKernels,
    DispatchKernels,
    DropAssertions,
    FillPanels,
    FoldTransposes,
    FuseArgmax,
    FuseDecodeAttention,
    FuseGateUp,
    FusePartialRotary,
    FuseQKV,
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
    OutlineLinears,
    OutlineQuantizedExperts,
    OutlineQuantizedLinears,
    OutlineRegions,
    OutlineRows,
    OverlapCollectives,
    PackBlocks,
    PackWeights,
    PartitionShards,
    PartitionStages,
    PersistLayers,
    PropagateShardings,
    QuantizeWeights,
    RefuseUnsupported,
    RemoveDeadParameters,
    ReturnBestToken,
    ScheduleKernels,
    ScreenArgmax,
    SelectLastToken,
    SettleExtents,
    SimplifyCollectives,
    SimplifyReshapes,
    SplitLayers,
    SplitLinears,
    StoreBlocksAsBytes,
    ThreadKVCache,
    ToIREE,
)
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.bind_parameters import STORAGES
from llmc.pipelines.passes.quantize_weights import AS_IS
from llmc.pipelines.passes.thread_kv_cache import ELEMENTS
from llmc.pipelines.targets.gpu import GPUTarget
from llmc.pipelines.targets.parse import parse_target

Step = Pass | str

Storage = Annotated[str, OneOf((*STORAGES, *FORMATS, AS_IS))]
"""As what weights are stored: floats, blocks, or what each is in the model."""

_AUTO = "auto"

_SIMPLIFY = "canonicalize,cse"
# From what the importer writes to what the rules of ours can read.
_READABLE: tuple[Step, ...] = (
    DropAssertions(),
    SimplifyReshapes(),
    _SIMPLIFY,
    FusePartialRotary(),
    SelectLastToken(),
)


@dataclass(frozen=True)
class Pipeline(ABC):
    """A list of passes under a name; its fields are its options."""

    name: ClassVar[str]

    def __post_init__(self) -> None:
        check_options(self)

    @abstractmethod
    def steps(self) -> tuple[Step, ...]:
        """What runs, in order."""


@dataclass(frozen=True)
class Stage(Pipeline, ABC):
    """A pipeline that `llmc compile` runs as one of its stages."""

    @property
    def stage(self) -> str:
        """The stage's name in dumps and in `--stop-after`."""
        return self.name.removeprefix("llmc-")


@dataclass(frozen=True)
class ImportStage(Stage):
    """From the torch dialect, as the model's graphs were read, to linalg and llmc operations.

    torch-mlir's own two pipelines; the second without its last pass, a verifier that refuses any
    operation that is not upstream's, and with llmc operations therefore everything. Then the step
    of one sequence is made of that of several.
    """

    name: ClassVar[str] = "llmc-import"

    def steps(self) -> tuple[Step, ...]:
        """What runs, in order."""
        return (
            "torchdynamo-export-to-torch-backend-pipeline",
            "func.func(torch-fuse-quantized-ops,convert-torch-to-tmtensor,canonicalize,"
            "convert-torch-to-linalg,canonicalize,convert-torch-to-scf,convert-torch-to-arith,"
            "convert-torch-to-tensor)",
            RefuseUnsupported(),
            "convert-torch-conversion-to-mlprogram",
            "func.func(canonicalize,resolve-shaped-type-result-dims,cse)",
            "torch-func-backend-type-conversion",
            "func.func(canonicalize,torch-finalizing-backend-type-conversion,canonicalize,cse)",
            AddDecode(),
        )


@dataclass(frozen=True)
class ShardStage(Stage):
    """Makes of the model the program of rank `rank` of the grid `grid`, such as `dp=2,tp=2`.

    `plan` is a file that says how weights are split, where that is not to be the usual way. A model
    for one device has no such stage. Changes numerics, where `storage` is that of floats: sums over
    ranks are in another order. Of blocks no sum is split: activations that are rounded to 8 bits
    turn the least difference into one of the text. With `overlap` ranks compute a half of a prompt
    while they exchange the other.
    """

    name: ClassVar[str] = "llmc-shard"
    grid: str = ""
    plan: str = ""
    rank: int = 0
    storage: Storage = "f32"
    overlap: bool = False

    def steps(self) -> tuple[Step, ...]:
        """What runs, in order."""
        return (
            *self.before_annotations(),
            AnnotateShardings(grid=self.grid, plan=self.plan, exact=self.storage not in STORAGES),
            PartitionStages(rank=self.rank),
            _SIMPLIFY,
            PropagateShardings(),
            PartitionShards(rank=self.rank),
            _SIMPLIFY,
            SimplifyCollectives(),
            _SIMPLIFY,
            *(self._overlap() if self.overlap else ()),
        )

    def _overlap(self) -> tuple[Step, ...]:
        # What is one layer stays one: a weight that both halves read is fused with no other.
        return FoldTransposes(), FuseGateUp(), OverlapCollectives(), _SIMPLIFY

    def before_annotations(self) -> tuple[Step, ...]:
        """What makes operations that can be split."""
        return (*_READABLE, SplitLinears(), _SIMPLIFY)


@dataclass(frozen=True)
class StateStage(Stage):
    """Gives the layers their numbers, attention its KV cache, and chooses tokens.

    `kv_dtype` is what the cache holds. With auto that is float32 where the weights are stored so,
    and else float16, or on a CPU beside blocks q8_0. One other than f32 changes numerics. Of a
    cache that ranks share, `rank` gets its columns. A GPU leaves the choice among several tokens to
    the host. Layers that have their weights as-is in other formats are told apart.
    """

    name: ClassVar[str] = "llmc-state"
    target: str = "cpu"
    storage: Storage = "f32"
    kv_dtype: Annotated[str, OneOf((_AUTO, *ELEMENTS))] = _AUTO
    rank: int = 0

    def steps(self) -> tuple[Step, ...]:
        """What runs, in order."""
        on_gpu = isinstance(parse_target(self.target), GPUTarget)
        return (
            *_READABLE,
            *((SplitLayers(),) if self.storage == AS_IS else ()),
            NumberLayers(),
            ThreadKVCache(element=self.element),
            AnnotateCaches(),
            PropagateShardings(),
            PartitionShards(rank=self.rank),
            *(() if on_gpu else (AddTopK(),)),
            ReturnBestToken(),
            AddGreedy(),
            HoistAcrossLayers(),
            *(() if on_gpu else (AddSampled(),)),
            _SIMPLIFY,
        )

    @property
    def element(self) -> str:
        """The type of what the cache holds."""
        if self.kv_dtype != _AUTO:
            return self.kv_dtype
        if self.storage == "f32":
            return "f32"
        target = parse_target(self.target)
        if isinstance(target, GPUTarget):
            return "f16" if target.gpu.halves else "f32"
        return "f16" if self.storage in STORAGES else "q8_0"


@dataclass(frozen=True)
class WeightsStage(Stage):
    """Lays out the weights for the kernels of `target` and binds them to the archive.

    `storage` is the element type of the weights' matrices, f32, f16 or bf16, or the format of
    blocks that those of linear layers are quantised to, such as q4_0 or int4_g128, or as-is, which
    keeps each weight's own. What has no blocks is then stored in float16. One other than f32
    changes numerics.
    """

    name: ClassVar[str] = "llmc-weights"
    target: str = "cpu"
    storage: Storage = "f32"

    def steps(self) -> tuple[Step, ...]:
        """What runs, in order."""
        target = parse_target(self.target)
        if isinstance(target, GPUTarget):
            return gpu_weights(self.storage, target.gpu)
        is_plain = self.storage in STORAGES
        floats = self.storage if is_plain else "f16"
        return (
            FoldTransposes(),
            JoinFrequencies(),
            FuseQKV(),
            FuseGateUp(),
            *(() if is_plain else (QuantizeWeights(format=self.storage),)),
            FillPanels(columns=target.columns),
            ScreenArgmax(columns=target.columns, tile=target.rows, storage=floats),
            *(() if is_plain else (PackBlocks(columns=target.columns),)),
            PackWeights(columns=target.columns, rows=target.rows),
            BindParameters(storage=floats),
            _SIMPLIFY,
            RemoveDeadParameters(),
        )


@dataclass(frozen=True)
class LinalgStage(Stage):
    """Lowers to linalg all that `target` has no kernel for, and schedules the kernels.

    `schedule` replaces parameters that the schedule of its name would have for the shape, and
    `tuned` is a database of what `llmc tune` found to be best. Changes numerics by rounding alone.
    """

    name: ClassVar[str] = "llmc-linalg"
    target: str = "cpu"
    schedule: str = ""
    tuned: str = ""

    def steps(self) -> tuple[Step, ...]:
        """What runs, in order."""
        if isinstance(parse_target(self.target), GPUTarget):
            return self.before_schedules()
        schedules = ScheduleKernels(target=self.target, schedule=self.schedule, tuned=self.tuned)
        return *self.before_schedules(), schedules

    def before_schedules(self) -> tuple[Step, ...]:
        """What makes the kernels."""
        target = parse_target(self.target)
        if isinstance(target, GPUTarget):
            return gpu_linalg(self.target, target)
        return (
            AddEarly(),
            GroupExpertRows(),
            AttendInPlace(),
            FuseDecodeAttention(),
            NarrowActivations(instruction=target.pair_instruction),
            OutlineLinears(),
            OutlineExperts(),
            OutlineQuantizedLinears(target=self.target),
            OutlineQuantizedExperts(target=self.target),
            LowerLlmc(keep_kernels=True),
            _SIMPLIFY,
            "resolve-ranked-shaped-type-result-dims",
            _SIMPLIFY,
            OutlineRows(),
            _SIMPLIFY,
            OutlineRegions(),
            _SIMPLIFY,
        )


@dataclass(frozen=True)
class IREEStage(Stage):
    """Puts in the kernels of `target` and hands the module over to IREE.

    Changes numerics: a kernel sums in another order.
    """

    name: ClassVar[str] = "llmc-iree"
    target: str = "cpu"

    def steps(self) -> tuple[Step, ...]:
        """What runs, in order."""
        target = parse_target(self.target)
        if isinstance(target, GPUTarget):
            return (StoreBlocksAsBytes(), LowerCollectivesToFlow(), ToIREE())
        return (
            JoinPrompts(),
            FuseScreenedArgmax(),
            FuseArgmax(),
            CallKernels(lanes=target.columns, instruction=target.byte_instruction.name),
            StoreBlocksAsBytes(),
            DispatchKernels(),
            LowerCollectives(),
            ToIREE(),
            SettleExtents(),
            "func.func(cse)",  # extents that are the same are one operand of a kernel
            PersistLayers(workgroups=8 * target.cores),
        )


STAGES: tuple[type[Stage], ...] = (ImportStage, StateStage, WeightsStage, LinalgStage, IREEStage)
SHARDED_STAGES: tuple[type[Stage], ...] = (ImportStage, ShardStage, *STAGES[1:])


# What the importer leaves, and then what each stage does.
TORCH = "torch"
STAGE_NAMES, SHARDED_STAGE_NAMES = (
    (TORCH, *(stage().stage for stage in stages)) for stages in (STAGES, SHARDED_STAGES)
)


def stages(
    target: str,
    storage: str,
    kv_dtype: str = _AUTO,
    tuned: str = "",
    shard: ShardStage | None = None,
) -> tuple[Stage, ...]:
    """The stages of a compilation, from the torch dialect to IREE's.

    `shard` is that of one rank of several.
    """
    options = {
        "target": target,
        "storage": storage,
        "kv_dtype": kv_dtype,
        "tuned": tuned,
        "rank": shard.rank if shard else 0,
    }
    made = [
        stage(
            **{field.name: options[field.name] for field in fields(stage) if field.name in options}
        )
        for stage in STAGES
    ]
    return tuple(made if shard is None else [made[0], shard, *made[1:]])


@dataclass(frozen=True)
class ImportedToIREE(Pipeline):
    """All stages after the import: from linalg and llmc operations to what IREE compiles.

    Changes numerics, as the stages do.
    """

    name: ClassVar[str] = "llmc-to-iree"
    target: str = "cpu"
    storage: Storage = "f32"

    def steps(self) -> tuple[Step, ...]:
        """What runs, in order."""
        _, *rest = stages(self.target, self.storage)
        return tuple(step for stage in rest for step in stage.steps())


_NAMED: tuple[type[Pipeline], ...] = (*SHARDED_STAGES, ImportedToIREE)
PIPELINES: dict[str, type[Pipeline]] = {pipeline.name: pipeline for pipeline in _NAMED}
