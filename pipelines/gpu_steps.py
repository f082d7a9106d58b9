"""What GPUs need of the pipelines' steps: kernels for attention, the rest linalg for IREE's."""

from llmc.pipelines.passes import (
    BindParameters,
    CallGPUKernels,
    FoldTransposes,
    FuseDecodeAttention,
    FuseGateUp,
    FuseQKV,
    LowerLlmc,
    PairHalves,
    QuantizeWeights,
    RemoveDeadParameters,
    RoundActivations,
    SplitArgmax,
    SplitBlocks,
    TilePrefill,
)
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.bind_parameters import STORAGES
from llmc.pipelines.targets.gpu import GPUTarget
from llmc.pipelines.targets.gpu_facts import GPUFacts

_SIMPLIFY = "canonicalize,cse"

_TILE = 128
"""Tokens of a prompt that tensor cores compute at once: those that the runtime gives at once."""

_SMALL_TILE = 32
"""Where every number more costs time, though it may only fill up a tile."""


def gpu_weights(storage: str, facts: GPUFacts) -> tuple[Pass | str, ...]:
    """Gives a prompt tiles of fixed size, and binds the weights as rows.

    Those in blocks stay so, field by field, and are unpacked where they are read.
    """
    is_plain = storage in STORAGES
    return (
        TilePrefill(tokens=_TILE if facts.tensor_cores else _SMALL_TILE),
        FoldTransposes(),
        FuseQKV(),
        FuseGateUp(),
        *(() if is_plain else (QuantizeWeights(format=storage), SplitBlocks())),
        BindParameters(storage=storage if is_plain else "f16"),
        _SIMPLIFY,
        RemoveDeadParameters(),
    )


def gpu_linalg(name: str, target: GPUTarget) -> tuple[Pass | str, ...]:
    """Puts in the kernels for `target`, called `name`, and lowers every other llmc operation.

    Changes numerics where there are tensor cores, whose operands have 16 bits.
    """
    return (
        FuseDecodeAttention(),
        *((PairHalves(),) if target.kind == "cuda" else ()),  # IREE's own loop of two is slow
        SplitArgmax(),
        *((RoundActivations(),) if target.gpu.tensor_cores else ()),
        "convert-scf-to-cf",  # IREE 3.13 does not convert the types of calls in regions
        CallGPUKernels(target=name),
        LowerLlmc(),
        _SIMPLIFY,
        "resolve-ranked-shaped-type-result-dims",
        _SIMPLIFY,
    )
