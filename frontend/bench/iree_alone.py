"""IREE alone as a contender: the same import, lowered to plain linalg and compiled at O3.

What llmc adds is left out: the layout of weights, kernels of its own, one function for all layers.
"""

from pathlib import Path
from typing import Any

from torch_mlir import ir

from llmc.frontend.bench.apart import made
from llmc.frontend.bench.llmc import Compiled
from llmc.frontend.compile import make_skeleton
from llmc.frontend.importer import import_programs
from llmc.frontend.lowering import context_bound, stored_dtype
from llmc.frontend.options import CompileOptions
from llmc.frontend.output_folder import appearing
from llmc.frontend.programs import VARIANTS, export_variant
from llmc.frontend.source import open_model
from llmc.frontend.toolchain import source_digest, versions
from llmc.pipelines.driver.execution import run
from llmc.pipelines.iree import compile_module
from llmc.pipelines.parameters import stored_parameters, write_archive
from llmc.pipelines.passes import (
    AddSampled,
    AddTopK,
    BindParameters,
    FoldTransposes,
    LowerLlmc,
    RemoveDeadParameters,
    ToIREE,
)
from llmc.pipelines.pipeline import ImportStage, StateStage
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.pipelines.targets.parse import parse_target, split_targets
from llmc.pipelines.walks import find
from llmc.runtime.manifest import MODULE, PARAMETERS

_TYPES = ("f32", "f16", "bf16")
_SIMPLIFY = "canonicalize,cse"
# No contender draws tokens, and what does so in plain linalg has vectors too large for IREE.
_DRAWING = (AddTopK, AddSampled)


class IREEAlone(Compiled):
    """The model in the type that ours stores matrices in; float32 where that is one of blocks."""

    def __init__(self, model: str, options: dict[str, Any], threads: int) -> None:
        """Compiles the model, once. Raises UserError, IREEError."""
        chosen = CompileOptions(**options)
        loaded = open_model(model, chosen.layers)
        weights = stored_dtype(loaded, chosen)
        weights = weights if weights in _TYPES else "f32"
        what = {"iree": options, "weights": weights, "code": [versions(), source_digest()]}
        folder = made(model, what, compile_plainly, model, chosen, weights)
        vocabulary = loaded.config.vocab_size
        super().__init__(
            str(folder / MODULE), str(folder / PARAMETERS), vocabulary, weights, threads
        )


def compile_plainly(model: str, options: CompileOptions, weights: str, output: Path) -> None:
    """Compiles the model called `model` with IREE's own ways only, into the folder `output`."""
    loaded = open_model(model, options.layers)
    skeleton = make_skeleton(loaded)
    context = context_bound(loaded, options)
    variants = [export_variant(skeleton, variant, context) for variant in VARIANTS]
    module = import_programs(variants, ir.Context())
    steps = (
        *ImportStage().steps(),
        *(step for step in StateStage(storage=weights).steps() if not isinstance(step, _DRAWING)),
        FoldTransposes(),
        BindParameters(storage=weights),
        _SIMPLIFY,
        RemoveDeadParameters(),
        LowerLlmc(),
        _SIMPLIFY,
        "resolve-ranked-shaped-type-result-dims",
        _SIMPLIFY,
        ToIREE(),
    )
    run(steps, module)
    for function in find(module.operation, "func.func"):
        # All or none: IREE crashes on layers inlined into a step that it must not inline.
        if "noinline" in function.attributes:
            del function.attributes["noinline"]
    with appearing(output) as folder:
        compile_module(module, _cpu(options), folder / MODULE)
        values = {**dict(skeleton.named_buffers()), **loaded.weights()}
        write_archive(stored_parameters(module), values, folder / PARAMETERS)


def _cpu(options: CompileOptions) -> CPUTarget:
    """The first CPU that the bundle, too, is for."""
    targets = map(parse_target, split_targets(options.target))
    return next(target for target in targets if isinstance(target, CPUTarget))
