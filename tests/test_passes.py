"""What holds for every pass: it has a name that llmc-opt knows, and its output can be read back."""

import importlib
import pkgutil

import pytest
from torch_mlir import ir

import llmc.pipelines.passes
from llmc import dialects
from llmc.frontend.importer import import_programs
from llmc.frontend.interception import IMPLEMENTATION
from llmc.frontend.programs import VARIANTS, export_variant
from llmc.pipelines.driver.execution import run
from llmc.pipelines.parameters import stored_parameters
from llmc.pipelines.passes import PASSES
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.pack_weights import PackWeights
from llmc.pipelines.passes.thread_kv_cache import kv_bytes_per_token
from llmc.pipelines.pipeline import ShardStage, stages
from llmc.pipelines.registry import parse_pipeline
from llmc.runtime import abi
from llmc.runtime.errors import UserError
from tests.tiny_models import tiny_config, tiny_model


def new_context() -> ir.Context:
    context = ir.Context()
    context.allow_unregistered_dialects = True  # of what is IREE's
    dialects.load(context)
    return context


def test_every_pass_is_registered_under_the_name_of_its_file():
    for module in pkgutil.iter_modules(llmc.pipelines.passes.__path__):
        importlib.import_module(f"llmc.pipelines.passes.{module.name}")
    ours = {each for each in Pass.__subclasses__() if each.__module__.startswith("llmc.")}
    assert set(PASSES.values()) == ours
    for name, pass_ in PASSES.items():
        assert pass_.__module__.rpartition(".")[2] == name.replace("-", "_")


def test_a_pipeline_is_a_list_of_steps():
    text = " builtin.module( pack-weights{columns=8 rows=4}, func.func(canonicalize,cse) )\n"
    pipeline = parse_pipeline(text, ir.Context())
    assert pipeline.anchor == "builtin.module"
    assert pipeline.steps == (PackWeights(columns=8, rows=4), "func.func(canonicalize,cse)")
    assert parse_pipeline("builtin.module()", ir.Context()).steps == ()


@pytest.mark.parametrize(
    "text", ["", "cse", "any(cse),cse", "builtin.module(cse", "builtin.module(}{)"]
)
def test_what_is_no_pipeline_is_an_error_of_the_users(text):
    with pytest.raises(UserError):
        parse_pipeline(text, ir.Context())


@pytest.fixture(scope="module")
def imported() -> str:
    """The decode variants of a mixture of experts, of which one is exported, as imported."""
    model = tiny_model(tiny_config("qwen3_moe"))
    model.set_attn_implementation(IMPLEMENTATION)
    model.set_experts_implementation(IMPLEMENTATION)
    decode = next(variant for variant in VARIANTS if variant.name == abi.DECODE_BATCH)
    return str(import_programs([export_variant(model, decode, context=64)], ir.Context()))


def test_each_step_can_be_taken_up_from_text(imported):
    whole = ir.Module.parse(imported, new_context())
    text = imported
    for stage in stages("cpu", "f16"):
        run(stage.steps(), whole)
        for step in stage.steps():
            module = ir.Module.parse(text, new_context())
            run((step,), module)
            text = str(module)
    assert text == str(whole)


def test_weights_and_cache_can_be_read_after_any_stage(imported):
    module = ir.Module.parse(imported, new_context())
    found = []
    for stage in stages("cpu", "f16"):
        run(stage.steps(), module)
        text = ir.Module.parse(str(module), new_context())
        found.append((stored_parameters(text), kv_bytes_per_token(text)))
    bound = [each for each in found if each[0]]
    assert len(bound) > 2 and bound[-1] is found[-1]
    assert all(each == bound[0] for each in bound)
    # 2 layers, 2 heads of 32 channels, keys and values in float16 as the weights.
    assert bound[0][1] == 2 * 2 * 32 * 2 * 2


@pytest.mark.parametrize(
    "type_", ["tensor<2x?x2x?x32xi32>", "tensor<2x?x2x?x1x34xf32>", "tensor<2x?x2x9x32xf32>", "f32"]
)
def test_what_is_no_cache_is_refused(type_):
    text = f"""
      "ml_program.global"() {{is_mutable, llmc.kv_cache, sym_name = "k", sym_visibility = "private",
                              type = {type_}}} : () -> ()
    """
    with pytest.raises(UserError, match="KV cache"):
        kv_bytes_per_token(ir.Module.parse(text, new_context()))


# Of 32 channels in float16, or in blocks of 8 bits with a scale.
@pytest.mark.parametrize(("storage", "row"), [("f16", 64), ("q8_0", 34)])
def test_ranks_share_the_columns_of_a_cache(imported, storage, row):
    module = ir.Module.parse(imported, new_context())
    import_, shard, state, *_ = stages("cpu", storage, shard=ShardStage(grid="sp=3", rank=1))
    for stage in (import_, shard, state):
        run(stage.steps(), module)
    # Of keys and of values as above: a third, rounded up.
    assert kv_bytes_per_token(module) == 2 * -(-2 * 2 * row // 3)
