"""The pipelines that `llmc compile` runs, as data: a list of stages, each a list of passes.

A step is a pass of ours or the text of an MLIR pipeline over the module. Each stage leaves a module
that can be printed, read back and taken up from there.
"""

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

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
from llmc.pipelines.targets.cpu import CPUTarget

Step = Pass | str

_SIMPLIFY = "canonicalize,cse"


@dataclass(frozen=True)
class Stage:
    """A named part of a pipeline."""

    name: str
    steps: tuple[Step, ...]


def stages(target: CPUTarget, storage: str) -> tuple[Stage, ...]:
    """The stages from an imported module to linalg, before `hand_over`.

    `storage` is the element type of the weights' matrices: f32, f16 or bf16.
    """
    return (
        Stage("state", (DropAssertions(), NumberLayers(), ThreadKVCache(), _SIMPLIFY)),
        Stage(
            "weights",
            (
                PackWeights(columns=target.columns, rows=target.rows),
                BindParameters(storage=storage),
                _SIMPLIFY,
            ),
        ),
        Stage(
            "linalg",
            (
                GroupExpertRows(tile=target.rows // 2),  # two panels are computed together
                AttendInPlace(),
                LowerLlmc(keep_kernels=True),
                _SIMPLIFY,
                "resolve-ranked-shaped-type-result-dims",
                _SIMPLIFY,
            ),
        ),
    )


def hand_over(target: CPUTarget) -> Stage:
    """The last stage, after which the module is IREE's."""
    return Stage("iree", (CallKernels(lanes=target.columns), ToIREE()))


def run(stage: Stage, module: ir.Module) -> None:
    """Runs one stage on `module`, in place, and verifies the result."""
    with module.context, ir.Location.unknown():
        for step in stage.steps:
            if isinstance(step, Pass):
                step.apply(module)
            else:
                PassManager.parse(f"builtin.module({step})").run(module.operation)
        module.operation.verify()
