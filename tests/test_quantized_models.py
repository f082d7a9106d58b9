"""Models with quantised weights: PyTorch's logits on the same weights, from a file's own blocks."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFWriter
from torch import Tensor
from transformers import PreTrainedModel

import llmc.runtime
from llmc.dialects.block_panels import unpack_blocks
from llmc.dialects.blocks import FORMATS, decode, fitting
from llmc.frontend.compile import compile_model, make_skeleton
from llmc.frontend.gguf import open_gguf
from llmc.frontend.gguf_file import GgufFile, read_gguf
from llmc.frontend.interception import IMPLEMENTATION
from llmc.frontend.loaded_model import LoadedModel
from llmc.frontend.lowering import start_lowering, stored_dtype
from llmc.frontend.options import CompileOptions
from llmc.frontend.source import open_model
from llmc.frontend.work import Work
from llmc.pipelines.parameters import StoredParameter, stored_parameters
from llmc.pipelines.recipes.recipe import Recipe, Weight
from llmc.pipelines.recipes.shared_results import SharedResults
from llmc.pipelines.stored_types import bytes_by_type
from llmc.runtime.engine import Engine
from tests.packed_folders import write_packed
from tests.rounding import narrow_cache, rounded_activations, rounded_cache
from tests.tiny_gguf import write_gguf
from tests.tiny_models import VOCAB_SIZE, tiny_config, tiny_model

pytestmark = pytest.mark.usefixtures("imported_once")

TEXTS = np.random.default_rng(0).integers(0, VOCAB_SIZE, (4, 24)).tolist()
PROMPT = 20
AS_IS = CompileOptions(dtype="as-is", context=64)
# Of the logits' spread. An activation halfway between two integers may go to either, and so may
# what it moves next: some texts are off by hundredths.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Case:
    """A GGUF file whose matrices are of type `kind`, compiled as `dtype`.

    One matrix of the second layer is of type `other`, and heads have `head_dim` channels, if these
    are given. With a `group`, a folder whose linear layers, but for the head, the method `kind`
    packed.
    """

    family: str
    kind: str
    dtype: str = "as-is"
    other: str = ""
    group: int = 0
    head_dim: int = 0


CASES = [
    Case("llama", "Q4_1", other="Q8_0"),
    Case("qwen3_moe", "Q8_0"),
]

# Of formats and layers that those have one by one.
MIXED = [
    Case("qwen2", "Q8_0"),  # tied
    Case("qwen3", "Q5_0"),
    Case("mixtral", "Q5_1"),
    Case("qwen3", "F32", dtype="q6_g16"),
    Case("llama", "F32", dtype="q4_0"),
    Case("llama", "F32", dtype="int4_g128"),  # and int4_g64 where rows are of 64
    Case("mixtral", "F32", dtype="q4_1"),
    Case("llama", "gptq", group=128),
    Case("qwen2", "awq", group=64),
]


def written(case: Case, folder: Path) -> LoadedModel:
    if case.group:
        write_packed(folder, case.kind, case.group, case.family)
        return open_model(folder)
    path, config = folder / "m.gguf", tiny_config(case.family)
    if case.head_dim:
        config.head_dim = case.head_dim
    model = tiny_model(config)

    def change(writer: GGUFWriter) -> None:
        if case.other:
            kind, name = GGMLQuantizationType[case.other], "blk.1.ffn_down.weight"
            down = model.model.layers[1].mlp.down_proj.weight.detach().numpy()
            del writer.tensors[0][name]
            writer.add_tensor(name, gguf.quants.quantize(down, kind), raw_dtype=kind)

    write_gguf(path, model, GGMLQuantizationType[case.kind], change)
    return open_gguf(path)


def in_torch(model: LoadedModel, case: Case) -> PreTrainedModel:
    """The model with the values of the matrices that the compiled one has."""
    skeleton = make_skeleton(model)
    weights = {
        name: as_compiled(name, weight, model, case) if weight.ndim > 1 else weight
        for name, weight in model.weights().items()
    }
    for name, stored in model.stored_weights().items():
        if isinstance(stored, np.ndarray) and not is_router(name):
            weights[name] = torch.from_numpy(decode(stored))
    skeleton.load_state_dict(weights, strict=False)
    skeleton.tie_weights()
    return skeleton


def is_router(name: str) -> bool:
    return name.endswith(".gate.weight")


def as_compiled(name: str, matrix: Tensor, model: LoadedModel, case: Case) -> Tensor:
    """Matrices as blocks, or as float16: routers, and what has no blocks and looks up tokens."""
    is_plain = name not in model.formats and ("embed" in name or case.group)
    if is_plain or is_router(name):
        return matrix.half().float()
    chosen = FORMATS[model.formats[name] if case.dtype == "as-is" else case.dtype]
    format_ = fitting(chosen, matrix.shape[-1])
    return torch.from_numpy(format_.decode(format_.encode(matrix.numpy())))


@torch.no_grad()
def logits(model: PreTrainedModel) -> np.ndarray:
    """Of each text, where `compiled_logits` has them."""
    return model(torch.tensor(TEXTS)).logits[:, PROMPT - 1 :].numpy()


@pytest.mark.parametrize(
    "case",
    [*CASES, *(pytest.param(case, marks=pytest.mark.thorough) for case in MIXED)],
    ids=lambda case: f"{case.family}_{case.kind}_{case.dtype}",
)
def test_logits_are_pytorchs_but_for_rounded_activations(case, tmp_path):
    model = written(case, tmp_path)
    reference = in_torch(model, case)
    exact = logits(reference)
    format_ = FORMATS.get(case.dtype) or FORMATS[stored_dtype(model, AS_IS)]
    plain = [reference.lm_head] if case.group else []
    with rounded_activations(format_, plain), narrow_cache():
        rounded = logits(reference)
    options = CompileOptions(dtype=case.dtype, kv_dtype="f16", context=64)
    found = compiled_logits(model, options, tmp_path / "bundle")
    off = np.abs(found - rounded).max(axis=(1, 2))
    assert off.min() <= TOLERANCE * exact.std()
    assert np.abs(found - exact).max() <= 2 * np.abs(rounded - exact).max()


# Of heads that are whole blocks, and of ones that are not; and of ranks that share the columns of
# the cache.
@pytest.mark.parametrize(
    ("head_dim", "grid"), [(32, ""), (48, ""), pytest.param(48, "sp=2", marks=pytest.mark.thorough)]
)
def test_logits_are_pytorchs_but_for_a_cache_of_blocks(head_dim, grid, tmp_path):
    model = written(Case("qwen3", "F32", head_dim=head_dim), tmp_path)
    reference = model.skeleton(IMPLEMENTATION)
    reference.load_state_dict(dict(model.weights()), strict=False)
    reference.tie_weights()
    exact = logits(reference)
    with rounded_cache():
        rounded = logits(reference)
    options = CompileOptions(dtype="f32", kv_dtype="q8_0", context=64, grid=grid)
    found = compiled_logits(model, options, tmp_path / "bundle")
    off, rounding = (np.abs(a - rounded).max(axis=(1, 2)) for a in (found, exact))
    # Weights are rounded to 14 bits, too, and what they move may be rounded to a neighbour next.
    assert off.min() <= 0.02 * exact.std() < rounding.min()


def compiled_logits(model: LoadedModel, options: CompileOptions, bundle: Path) -> np.ndarray:
    """Of each text, after the prompt, and after each token that follows."""
    compile_model(model, options, bundle)
    ranks = llmc.runtime.load(bundle, local=bool(options.grid))
    return np.array([list(logits_after(ranks.engine, text)) for text in TEXTS])


def logits_after(engine: Engine, text: list[int]) -> Iterator[np.ndarray]:
    engine.reset(1, len(text))
    yield engine.prefill(text[:PROMPT], 0).logits[0]
    for past in range(PROMPT, len(text)):
        yield engine.decode(text[past : past + 1], past, [0]).logits[0]


def archive(model: LoadedModel) -> list[StoredParameter]:
    work = Work(nullcontext, None)
    started = start_lowering(model, make_skeleton(model), AS_IS, work)
    module = started.run_stages("cpu", work, stop_after="weights")
    return stored_parameters(module)


def names(recipe: Recipe, layer: int) -> Iterator[str]:
    """The weights that a recipe reads, in order."""
    if isinstance(recipe, Weight):
        yield recipe.sources[layer]
    else:
        for operand in recipe.operands:
            yield from names(operand, layer)


@pytest.mark.parametrize("family", ["llama", "qwen3_moe"])
def test_the_archive_holds_the_files_blocks(family, tmp_path):
    model = written(Case(family, "Q4_1"), tmp_path)
    file, found = read_gguf(tmp_path / "m.gguf"), set()
    for parameter in archive(model):
        if parameter.element != "i8":
            continue
        weights = model.stored_weights()
        for layer, panels in enumerate(parameter.build(weights, SharedResults([]))):
            rows = [weights[name] for name in names(parameter.recipe, layer)]
            outputs = sum(each.shape[-2] for each in rows)
            blocks = unpack_blocks(panels.numpy(), FORMATS["q4_1"], outputs)
            assert (blocks == np.concatenate(rows, axis=-2)).all()
            found |= {each.tobytes() for each in blocks.reshape(-1)}
    for name, tensor in file.tensors.items():
        is_router = "ffn_gate_inp" in name  # which no linear layer reads
        if tensor.type == GGMLQuantizationType.Q4_1 and not is_router:
            blocks = tensor.data.reshape(-1, FORMATS["q4_1"].bytes)
            assert {block.tobytes() for block in blocks} <= found, name


def bytes_in(file: GgufFile, *types: GGMLQuantizationType) -> int:
    tensors = file.tensors.values()
    return sum(each.data.nbytes for each in tensors if not types or each.type in types)


def test_the_archive_is_as_large_as_the_file(tmp_path):
    model = written(Case("qwen2", "Q4_0"), tmp_path)
    file, counted = read_gguf(tmp_path / "m.gguf"), bytes_by_type(archive(model), model.formats)
    assert sum(counted.values()) <= 1.02 * bytes_in(file)
    assert counted["q4_0"] == bytes_in(file, GGMLQuantizationType.Q4_0)
    assert set(counted) <= {"q4_0", "f32"}
    assert stored_dtype(model, AS_IS) == "q4_0"


def test_each_layer_keeps_its_own_formats(tmp_path):
    model = written(Case("llama", "Q4_1", other="Q8_0"), tmp_path)
    file, counted = read_gguf(tmp_path / "m.gguf"), bytes_by_type(archive(model), model.formats)
    for name in ("q4_1", "q8_0"):
        assert counted[name] == bytes_in(file, GGMLQuantizationType[name.upper()])
