"""What GPUs need of the pipelines' steps: all is linalg, of which IREE makes the kernels."""

from llmc.pipelines.passes import (
    BindParameters,
    FoldTransposes,
    FuseGateUp,
    FuseQKV,
    LowerLlmc,
    QuantizeWeights,
    RemoveDeadParameters,
)
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.bind_parameters import STORAGES

_SIMPLIFY = "canonicalize,cse"


def gpu_weights(storage: str) -> tuple[Pass | str, ...]:
    """Binds the weights as rows; those in blocks stay so, and are unpacked where they are read."""
    is_plain = storage in STORAGES
    return (
        FoldTransposes(),
        FuseQKV(),
        FuseGateUp(),
        *(() if is_plain else (QuantizeWeights(format=storage),)),
        BindParameters(storage=storage if is_plain else "f16"),
        _SIMPLIFY,
        RemoveDeadParameters(),
    )


def gpu_linalg() -> tuple[Pass | str, ...]:
    """Lowers every llmc operation."""
    return (
        LowerLlmc(),
        _SIMPLIFY,
        "resolve-ranked-shaped-type-result-dims",
        _SIMPLIFY,
    )
