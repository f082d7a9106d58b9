"""Prompts that run together give what each gives alone, and only where that is certain."""

from dataclasses import replace

import numpy as np
import pytest
from torch_mlir import ir
from torch_mlir.dialects import arith, shard

from llmc import dialects
from llmc.dialects import AttentionOp, CachedAttentionOp
from llmc.dialects.attributes import i64
from llmc.dialects.index_notation import pointwise
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
from llmc.runtime.engine import PREFILL_CHUNK, Engine
from llmc.runtime.model import load
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


def with_grid() -> ir.Module:
    module = program_after(MODEL, AttendInPlace()).module
    module.body.append(ir.Operation.parse("shard.grid @grid(shape = 2)", context=module.context))
    return module


def test_replicas_join():
    module = with_grid()
    run((JoinPrompts(),), module)
    assert is_joined(module)


def test_ranks_that_exchange_something_do_not_join():
    module = with_grid()
    prefill = ir.SymbolTable(module.operation)[abi.PREFILL]
    at_begin = ir.InsertionPoint.at_block_begin(prefill.entry_block)
    with module.context, ir.Location.unknown(), at_begin:
        shard.ProcessLinearIndexOp("grid", results=[ir.IndexType.get()])
    run((JoinPrompts(),), module)
    assert not is_joined(module)


def test_a_tail_that_knows_the_column_is_not_that_of_a_prompt():
    module = program_after(MODEL, AttendInPlace()).module
    step = ir.SymbolTable(module.operation)[abi.DECODE_BATCH]
    *_, past = step.arguments
    *_, end = step.entry_block
    with ir.InsertionPoint(end), ir.Location.unknown(module.context):
        best = end.operands[1]
        end.operands[1] = pointwise("bt->bt", lambda token, _: arith.addi(token, past), best)
    run((JoinPrompts(),), module)
    assert not is_joined(module)


def test_positions_of_one_sequence_may_not_be_those_of_several():
    """Here they are of the number of the sequence, which in a prompt is always 0."""
    module = program_after(MODEL, AttendInPlace()).module
    _, start, *_ = ir.SymbolTable(module.operation)[abi.PREFILL].arguments
    (positions,) = {use.owner for use in start.uses if use.owner.name == "linalg.generic"}
    (column,) = find(positions.operation, "linalg.index")
    with module.context:
        column.attributes["dim"] = i64(0)
    run((JoinPrompts(),), module)
    assert not is_joined(module)


def test_prompts_go_on_together(tiny_bundle):
    engine = load(tiny_bundle).engine
    prompts = np.random.default_rng(0).integers(engine.room.vocabulary, size=(3, 20)).tolist()
    engine.reset(3, 20)
    expected = engine.prefill_batch(prompts, [0, 1, 1]).logits.copy()
    engine.prefill_batch([tokens[:9] for tokens in prompts], [0, 1, 1])
    found = engine.prefill_batch([tokens[9:] for tokens in prompts], [0, 1, 1], 9).logits
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


WHOLE, FEW, MANY = PREFILL_CHUNK, PREFILL_CHUNK // 2, PREFILL_CHUNK // 2 + 1


@pytest.mark.parametrize(
    ("columns", "run"),
    [
        (2, [abi.PREFILL_BATCH]),
        (WHOLE // 3 + 1, [abi.PREFILL_BATCH, abi.DECODE_BATCH]),
        (FEW, [abi.PREFILL_BATCH] * 2),
        (MANY, [abi.PREFILL] * 3),
        (WHOLE, [abi.PREFILL] * 3),
        (WHOLE + 1, [*[abi.PREFILL] * 3, abi.DECODE_BATCH]),
        (WHOLE + 9, [*[abi.PREFILL] * 3, abi.PREFILL_BATCH]),
    ],
)
def test_what_is_left_of_whole_pieces_is_run_together(columns, run, tiny_bundle, monkeypatch):
    """Of three prompts, of which each starts a column later."""
    engine, called, really = load(tiny_bundle).engine, [], Engine._run

    def spy(self: Engine, name: str, *arguments: object):
        called.append(name)
        return really(self, name, *arguments)

    monkeypatch.setattr(Engine, "_run", spy)
    prompts = (
        np.random.default_rng(columns).integers(engine.room.vocabulary, size=(3, columns)).tolist()
    )
    starts = [0, 1, 1]
    engine.reset(3, columns + 1)
    together = engine.prefill_batch(prompts, starts).logits.copy()
    assert called == run
    next_together = engine.decode([1, 2, 3], columns, starts).logits.copy()
    engine.reset(3, columns + 1)
    for sequence, (prompt, start) in enumerate(zip(prompts, starts, strict=True)):
        alone = engine.prefill(prompt, 0, sequence, start).logits[0]
        np.testing.assert_allclose(together[sequence], alone, rtol=0, atol=1e-5)
    next_alone = engine.decode([1, 2, 3], columns, starts).logits
    np.testing.assert_allclose(next_together, next_alone, rtol=0, atol=1e-5)
