"""What IREE makes of a model: how much code, and what a decode step moves."""

import re
from collections.abc import Sequence

import iree.compiler
import iree.compiler.ir as iree_ir
import pytest
from torch_mlir import ir
from transformers import AutoConfig, PreTrainedConfig

from llmc.frontend.importer import import_programs
from llmc.frontend.interception import IMPLEMENTATION
from llmc.frontend.programs import VARIANTS, Variant, export_variant
from llmc.pipelines.dispatches import count_dispatches
from llmc.pipelines.driver.execution import run
from llmc.pipelines.iree import OPTIONS, form_dispatches, record_commands
from llmc.pipelines.passes.attend_in_place import AttendInPlace
from llmc.pipelines.passes.tile_prefill import TILE
from llmc.pipelines.pipeline import LinalgStage, stages
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.pipelines.targets.parse import parse_gpu
from llmc.pipelines.walks import find
from llmc.runtime import abi
from tests.programs.stages import copy
from tests.tiny_models import tiny_config, tiny_model

DEPTHS = (2, 5)

PREFILL, DECODE_BATCH = ([variant] for variant in VARIANTS)

DECODE = [Variant(abi.DECODE, batch=1, tokens=1)]
"""Exported alone, where what is made of `decode_batch` would be beside that."""

known: dict[str, ir.Module] = {}
"""What has been imported."""


def imported(config: PreTrainedConfig, variants: Sequence[Variant]) -> ir.Module:
    """Variants of a random model, as PyTorch has them."""
    key = f"{config} {[variant.name for variant in variants]}"
    if key not in known:
        known[key] = as_in_torch(config, variants)
    return known[key]


def as_in_torch(config: PreTrainedConfig, variants: Sequence[Variant]) -> ir.Module:
    """As `imported`, anew."""
    model = tiny_model(config)
    model.set_attn_implementation(IMPLEMENTATION)
    model.set_experts_implementation(IMPLEMENTATION)
    programs = [export_variant(model, variant, context=64) for variant in variants]
    return import_programs(programs, ir.Context())


def lower(module: ir.Module, storage: str = "f32", target: str = "cpu") -> ir.Module:
    """A copy of an imported module, as IREE is given it."""
    module = copy(module)
    for stage in stages(target, storage):
        run(stage.steps(), module)
    return module


def compile_decode(layers: int) -> tuple[int, str]:
    """All dispatches of the decode variant of a llama of so many layers, and its stream dialect."""
    config = tiny_config("llama")
    config.num_hidden_layers = layers
    flow, _ = form_dispatches(lower(imported(config, DECODE)), CPUTarget())
    counts = count_dispatches(flow)
    del counts[abi.GREEDY]  # those of `decode`, which it calls
    return sum(counts.values()), in_streams(flow)


def in_streams(flow: iree_ir.Module) -> str:
    """`flow` in IREE's stream dialect, where what is submitted together stands together."""
    flags = [*CPUTarget().flags, *OPTIONS, "--compile-from=flow", "--compile-to=stream"]
    return iree.compiler.compile_str(str(flow), extra_args=flags).decode()


@pytest.fixture(scope="module")
def decodes():
    return {layers: compile_decode(layers) for layers in DEPTHS}


def step_of(text: str, name: str = "_decode") -> str:
    """The function that runs a step, behind the one that is public, or another."""
    begin = re.search(rf"util\.func \w+ @{name}\(", text)
    assert begin, f"there is a function {name}"
    return text[begin.start() : text.index("util.return", begin.start())]


def layers_of(module: ir.Module, variant: str = abi.DECODE) -> list[str]:
    """The operations that hold the code of layers."""
    found = [op.operation for op in module.body if "sym_name" in op.attributes]
    names = [(op.name, op.attributes["sym_name"].value) for op in found]
    return [kind for kind, name in names if name.startswith(f"{variant}.layer")]


def test_code_does_not_grow_with_depth(decodes):
    shallow, deep = (decodes[layers][1] for layers in DEPTHS)
    for kind in (r"util\.func \w+ @[\w.]+", r"stream\.executable private @[\w.]+"):
        assert len(re.findall(kind, shallow)) > 1
        # Kernels are named after the types of their operands, of which a cache's says the layers.
        assert len(re.findall(kind, shallow)) == len(re.findall(kind, deep))


def test_what_all_layers_do_is_submitted_once():
    config = tiny_config("llama")
    config.num_hidden_layers = 5
    flow, _ = form_dispatches(lower(imported(config, VARIANTS)), CPUTarget())
    text = in_streams(flow)
    # Of several sequences IREE submits apart what comes before the layers: it is not shown how many
    # rows these leave (`persist-layers`).
    for name, count in (("prefill", 1), ("_decode", 1), ("_decode_batch", 2)):
        assert step_of(text, name).count("stream.cmd.execute") == count


def test_gpus_record_once_what_layers_do():
    config, target = tiny_config("llama"), parse_gpu("cuda:sm_80")
    config.num_hidden_layers = 5
    module = lower(imported(config, VARIANTS), target="cuda:sm_80")
    flow, _ = form_dispatches(module, target)
    commands, counts = str(record_commands(flow, target)), count_dispatches(flow)
    for step in (abi.DECODE, abi.DECODE_BATCH):
        per_step, once = (
            step_of(commands, function).count("hal.command_buffer.dispatch<")
            for function in (f"_{step}", f"_{step}.record")
        )
        assert per_step + once == counts[step]
        assert per_step < once / 2
    assert step_of(commands, TILE).count("hal.device.queue.execute<") == 1


def test_dispatches_are_those_of_every_layer(decodes):
    for dispatches, text in decodes.values():
        assert len(re.findall(r"stream\.cmd\.dispatch", text)) == dispatches


@pytest.mark.parametrize(
    ("family", "kinds"),
    [
        ("llama", 1),
        ("qwen2", 1),
        ("gemma3_text", 2),
        ("gpt2", 1),
        ("cohere2", 2),
        *(
            pytest.param(family, 1, marks=pytest.mark.thorough)
            for family in ("gemma", "olmo2", "stablelm", "gpt_neox", "glm4")
        ),
    ],
)
def test_layers_are_one_kernel_for_each_kind(family, kinds):
    module = imported(tiny_config(family), DECODE_BATCH)
    for storage in ("f32", "q4_0"):
        assert layers_of(lower(module, storage)) == ["stream.executable"] * kinds


def test_layers_in_blocks_are_one_kernel_for_a_batch_too():
    module = lower(imported(tiny_config("qwen3"), VARIANTS), "q4_0")
    assert layers_of(module, abi.DECODE_BATCH) == ["stream.executable"]
    assert layers_of(module, abi.PREFILL) == ["func.func"]


@pytest.mark.parametrize(
    ("family", "kinds", "count", "storages"),
    [
        ("qwen3_moe", 1, "num_experts", ("f32", "q4_0")),
        pytest.param("glm4_moe", 2, "n_routed_experts", ("q4_0",), marks=pytest.mark.thorough),
        ("phimoe", 1, "num_local_experts", ("q4_0",)),
    ],
)
def test_experts_are_in_the_one_kernel_for_a_batch(family, kinds, count, storages):
    """With a residual that is added to what they make, and to what a shared one makes.

    Behind a router too that is like no operation of ours.
    """
    config = tiny_config(family)
    setattr(config, count, 32)  # two whole panels of the router
    module = imported(config, DECODE_BATCH)
    for storage in storages:
        layers = layers_of(lower(module, storage), abi.DECODE_BATCH)
        assert layers == ["stream.executable"] * kinds


_SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "vocab_size": 320,
}


@pytest.mark.parametrize(
    ("family", "special"),
    [
        ("granitemoe", {"num_local_experts": 40, "residual_multiplier": 0.22}),
        ("qwen2_moe", {"num_experts": 8}),
        ("mixtral", {"num_local_experts": 6}),
    ],
)
def test_experts_are_so_whatever_is_around_them(family, special):
    """Routers without whole panels of 16 columns, scaled residuals, gates of shared experts."""
    config = AutoConfig.for_model(family, **_SMALL, **special)
    layers = layers_of(lower(imported(config, DECODE_BATCH), "q4_0"), abi.DECODE_BATCH)
    assert layers == ["stream.executable"]


@pytest.mark.parametrize("experts", [4, 40])
def test_a_layer_with_experts_is_one_kernel(experts):
    """However few columns the router has, and however many are missing of its last panel."""
    config = tiny_config("mixtral")
    config.num_local_experts = experts
    assert layers_of(lower(imported(config, DECODE_BATCH), "q4_0")) == ["stream.executable"]


def test_a_layer_whose_router_has_a_bias_is_one_kernel():
    kinds = layers_of(lower(imported(tiny_config("glm4_moe"), DECODE_BATCH), "q4_0"))
    assert kinds == ["stream.executable"] * 2


def test_a_layer_with_latent_attention_is_one_kernel():
    """Though a part of each head is turned, and keys are put together of two linear layers."""
    config = tiny_config("deepseek_v3")
    config.n_group = config.topk_group = 1
    assert layers_of(lower(imported(config, DECODE_BATCH))) == ["stream.executable"] * 2


def test_so_it_is_for_a_batch():
    config = tiny_config("deepseek_v3")
    config.n_routed_experts = config.q_lora_rank = config.kv_lora_rank = 32
    layers = layers_of(lower(imported(config, DECODE_BATCH), "q4_0"), abi.DECODE_BATCH)
    assert layers == ["stream.executable"] * 2


@pytest.mark.parametrize("family", ["llama", "phi3", "qwen3_moe", "deepseek_v3"])
def test_a_prompt_attends_where_the_cache_lies(family):
    """Though a layer may know how many tokens there are by another argument than the query."""
    module = copy(imported(tiny_config(family), PREFILL))
    for stage in stages("cpu", "q8_0"):
        if isinstance(stage, LinalgStage):
            break
        run(stage.steps(), module)
    run((AttendInPlace(), "canonicalize"), module)
    assert find(module.operation, "llmc.cached_attention")
    assert not find(module.operation, "llmc.cache_read")


def test_a_layer_copies_neither_cache_nor_weights(decodes):
    _, text = decodes[DEPTHS[0]]
    step = step_of(text)
    # The cache is of lifetime `variable`, and written where it lies; weights are `constant`.
    assert re.search(r"rw %\w+\[.*resource<variable>", step)
    assert re.search(r"ro %\w+\[.*resource<constant>", step)
    moves = re.findall(r"stream\.\w+\.(?:copy|clone|fill) .*", step)
    assert moves, "small ones are there: the pattern must find them"
    assert not [move for move in moves if re.search("resource<(variable|constant)>", move)]
