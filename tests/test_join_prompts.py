"""Prompts that run together give what each gives alone, and only where that is certain."""

from dataclasses import replace

import pytest
from torch_mlir import ir

from llmc import dialects
from llmc.dialects import AttentionOp, CachedAttentionOp
from llmc.pipelines.driver.execution import run
from llmc.pipelines.passes.attend_in_place import AttendInPlace
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.drop_assertions import DropAssertions
from llmc.pipelines.passes.join_prompts import JoinPrompts
from llmc.pipelines.passes.lower_llmc import LowerLlmc
from llmc.pipelines.passes.number_layers import NumberLayers
from llmc.pipelines.passes.return_best_token import ReturnBestToken
from llmc.pipelines.passes.select_last_token import SelectLastToken
from llmc.pipelines.passes.thread_kv_cache import ThreadKVCache
from llmc.pipelines.walks import find
from llmc.runtime import abi
from tests.programs.blocks import MLP, Attention, Experts
from tests.programs.models import Model
from tests.programs.observation import Program

STATE: tuple[Pass | str, ...] = (
    DropAssertions(),
    SelectLastToken(),
    NumberLayers(),
    ThreadKVCache(),
    ReturnBestToken(),
    "canonicalize,cse",
)
MODEL = Model(
    kinds=((Attention(groups=2), MLP()), (Attention(window=2), Experts())),
    layers=(0, 1, 0),
    variants=(abi.PREFILL, abi.DECODE_BATCH),
)


def program_after(model: Model, *steps: Pass | str) -> Program:
    context = ir.Context()
    dialects.load(context)
    program = Program.of(model, context)
    run((*STATE, *steps), program.module)
    return program


def is_joined(module: ir.Module) -> bool:
    return abi.PREFILL_BATCH in ir.SymbolTable(module.operation)


@pytest.mark.parametrize(
    "model",
    [
        MODEL,
        replace(MODEL, learned_positions=True, softcap=True, last="hidden"),
        replace(MODEL, layers=(0,), tied=False, last="logits", embedding="operation"),
    ],
)
@pytest.mark.parametrize("later", [(), ("canonicalize,cse", LowerLlmc())])
def test_sequences_give_what_each_gives_alone(model, later):
    program = program_after(model, AttendInPlace(), JoinPrompts(), *later)
    assert is_joined(program.module)
    assert not program.differences(program.module)


def test_attention_alone_knows_of_several_sequences():
    module = program_after(MODEL, AttendInPlace(), JoinPrompts(), "canonicalize,cse").module
    joined = ir.SymbolTable(module.operation)[f"{abi.PREFILL_BATCH}.layer0"]
    unknown = ir.ShapedType.get_dynamic_size()
    several = {
        op.name
        for op in find(joined.operation, *{op.operation.name for op in joined.entry_block})
        if any(str(result.type).startswith("tensor<?x") for result in op.results)
    }
    (attention,) = find(joined.operation, CachedAttentionOp.OPERATION_NAME)
    assert attention.opview.query.type.shape[0] == unknown
    assert several <= {
        CachedAttentionOp.OPERATION_NAME,
        "linalg.transpose",
        "tensor.collapse_shape",
        "tensor.empty",
    }


@pytest.mark.parametrize("missing", [abi.PREFILL, abi.DECODE_BATCH])
def test_both_functions_are_needed(missing):
    model = replace(MODEL, variants=tuple({*MODEL.variants} - {missing}))
    assert not is_joined(program_after(model, AttendInPlace(), JoinPrompts()).module)


def test_attention_to_what_is_read_of_the_cache_is_not_joined():
    module = program_after(MODEL, JoinPrompts()).module
    assert find(module.operation, AttentionOp.OPERATION_NAME)
    assert not is_joined(module)


def test_ranks_do_not_join():
    module = program_after(MODEL, AttendInPlace()).module
    module.body.append(ir.Operation.parse("shard.grid @grid(shape = 2)", context=module.context))
    run((JoinPrompts(),), module)
    assert not is_joined(module)
