"""A stage's file to go on from: read, and held against the model and the options."""

import re
from collections.abc import Iterator
from pathlib import Path

from torch_mlir import ir
from transformers import PreTrainedModel

from llmc import dialects
from llmc.dialects.blocks import Q8_0
from llmc.frontend.layers import find_layers
from llmc.frontend.loaded_model import some_of
from llmc.frontend.programs import VARIANTS
from llmc.pipelines.errors import UNPARSED, reason
from llmc.pipelines.parameters import stored_parameters
from llmc.pipelines.passes.bind_parameters import STORAGES
from llmc.pipelines.passes.thread_kv_cache import CACHE, kept_as
from llmc.pipelines.pipeline import STAGE_NAMES, TORCH, StateStage
from llmc.pipelines.recipes.quantize import Quantize
from llmc.pipelines.recipes.recipe import Computed, Recipe, Weight
from llmc.pipelines.recipes.step import Step
from llmc.pipelines.rewriting.functions import functions, globals_with
from llmc.pipelines.rewriting.layers import is_layer
from llmc.pipelines.walks import find
from llmc.runtime.abi import DECODE
from llmc.runtime.errors import UserError, one_line


def read_stage(path: Path) -> tuple[str, ir.Module]:
    """The stage that the file's name says, as in `03-weights.mlir`, and the module in it.

    UserError where there is no such file, stage or module.
    """
    stage = _stage(path)
    context = ir.Context()
    dialects.load(context)
    context.allow_unregistered_dialects = True  # of what is IREE's
    try:
        text = path.read_text(encoding="utf-8")
        return stage, ir.Module.parse(text, context)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"cannot read {path}: {error}") from error
    except ir.MLIRError as error:
        raise UserError(f"cannot read {path}: {one_line(reason(error, UNPARSED))}") from error


def _stage(path: Path) -> str:
    named = re.fullmatch(r"(?:\d+-)?(\w+)(?:\.[\w-]+)*\.mlir", path.name)
    if named is None or named[1] not in STAGE_NAMES:
        listed = ", ".join(STAGE_NAMES)
        raise UserError(f"the file {path} must be called STAGE.mlir, STAGE one of {listed}")
    return named[1]


def check_fits(
    module: ir.Module,
    path: Path,
    skeleton: PreTrainedModel,
    storage: str,
    kv_dtype: str = "auto",
) -> None:
    """UserError unless `module`, at whatever stage, is one of the model of `skeleton`.

    It must have the model's functions, depth, width, vocabulary and weights, and where these are
    laid out already, matrices of the element type `storage`; and where it has a KV cache, one of
    `kv_dtype`.
    """
    try:
        _check_weights(_weights(module), skeleton)
        _check_extents(module, skeleton, _stage(path))
        _check_storage(module, storage)
        _check_cache(module, StateStage(storage=storage, kv_dtype=kv_dtype).element)
    except _MisfitError as error:
        raise UserError(f"{path} does not fit: {error}") from error


class _MisfitError(Exception):
    """What in a module is not as the model or the options have it."""


def _check_weights(used: set[str], skeleton: PreTrainedModel) -> None:
    layers, depth = find_layers(skeleton)[0], skeleton.config.num_hidden_layers
    in_layer = re.compile(rf"{re.escape(layers)}\.(\d+)\.")
    numbers = {int(match[1]) for name in used if (match := in_layer.match(name))}
    if len(numbers) != depth:
        raise _MisfitError(f"it has {len(numbers)} layers, the model {depth}")
    own = {name for name, _ in (*skeleton.named_parameters(), *skeleton.named_buffers())}
    if not used <= own:
        raise _MisfitError(f"it has weights that the model has not: {some_of(used - own)}")


def _check_extents(module: ir.Module, skeleton: PreTrainedModel, stage: str) -> None:
    """Checks the vocabulary of each variant's logits, and the width of each layer's input."""
    config, by_name = skeleton.config, {f.sym_name.value: f for f in functions(module)}
    exported = [variant.name for variant in VARIANTS]
    for name in exported if stage == TORCH else (*exported, DECODE):
        if name not in by_name:
            raise _MisfitError(f"it has no function '{name}'")
        for logits in by_name[name].type.results[:1]:
            _check_extent("a vocabulary", logits, config.vocab_size)
    for function in filter(is_layer, by_name.values()):
        for hidden in function.type.inputs[:1]:
            _check_extent("a width", hidden, config.hidden_size)


def _check_extent(what: str, type_: ir.Type, expected: int) -> None:
    """The last dimension of a tensor, of torch-mlir's or MLIR's own, has that extent."""
    last = re.search(r"(\d+|\?)\]?[,x][^,x]*>$", str(type_))
    if last is None or last[1] != str(expected):
        raise _MisfitError(f"it has {what} of {last[1] if last else type_}, the model {expected}")


def _check_storage(module: ir.Module, storage: str) -> None:
    """Vectors are stored in f32, whatever matrices are stored in, and what has no blocks in f16."""
    parameters = stored_parameters(module)
    steps = [step for parameter in parameters for step in _steps(parameter.recipe)]
    blocks = {step.format for step in steps if isinstance(step, Quantize)}
    floats = {parameter.element for parameter in parameters} & set(STORAGES) - {"f32"} or {"f32"}
    found = blocks or floats
    if parameters and (not blocks if storage == "as-is" else found != {storage}):
        raise _MisfitError(f"its matrices are stored in {some_of(found)}, not in {storage}")


def _check_cache(module: ir.Module, element: str) -> None:
    for op in globals_with(module, CACHE):
        found = kept_as(op.attributes["type"].value)
        if found != element and (element, found) != (Q8_0.name, "f16"):  # blocks being no smaller
            raise _MisfitError(f"its KV cache is of {found}, not of {element}")


def _weights(module: ir.Module) -> set[str]:
    """The names of the weights that a module needs."""
    parameters = find(module.operation, "llmc.parameter")
    named = {ir.StringAttr(name).value for op in parameters for name in op.attributes["sources"]}
    return named.union(*(_sources(parameter.recipe) for parameter in stored_parameters(module)))


def _steps(recipe: Recipe) -> Iterator[Step]:
    if isinstance(recipe, Computed):
        yield recipe.step
        for operand in recipe.operands:
            yield from _steps(operand)


def _sources(recipe: Recipe) -> Iterator[str]:
    if isinstance(recipe, Computed):
        for operand in recipe.operands:
            yield from _sources(operand)
    elif isinstance(recipe, Weight):
        yield from recipe.sources
