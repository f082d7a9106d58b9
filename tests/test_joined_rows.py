"""Kernels do for sequences whose rows follow each other what they do for each of them."""

import iree.runtime
import numpy as np
import pytest
from torch_mlir import ir
from torch_mlir.dialects import func
from torch_mlir.extras import types as T

from llmc import dialects
from llmc.dialects import CacheAppendOp, CachedAttentionOp, RotaryOp
from llmc.dialects.attributes import f64, i64
from llmc.dialects.index_notation import size
from llmc.pipelines.driver.execution import run
from llmc.pipelines.passes.call_kernels import CallKernels
from llmc.pipelines.passes.store_blocks_as_bytes import StoreBlocksAsBytes
from llmc.pipelines.rewriting.joined_rows import Lengths, join_rows, split_rows
from tests.cpu_code import BYTES, LANES, compile_for_cpu
from tests.kv_caches import as_cache, as_stored, kept, row_type

HEADS, GROUPS, CHANNELS, ROTATED = 4, 2, 32, 16
PAST, FIRST = 3, 1


def attention_and_appends(element: str) -> ir.Module:
    """`@_attend` below, of heads `[1, H, B * T, D]` and caches of `element`."""
    context = ir.Context()
    dialects.load(context)
    unknown, of = ir.ShapedType.get_dynamic_size(), ir.RankedTensorType.get
    with context, ir.Location.unknown():
        heads = [of([1, n, unknown, CHANNELS], T.f32()) for n in (HEADS, GROUPS, GROUPS)]
        tables = [of([1, unknown, ROTATED], T.f32())] * 2
        held = (row_type(CHANNELS, element, which) for which in ("keys", "values"))
        caches = [ir.Type.parse(f"tensor<2x?x{GROUPS}x?x{row}>") for row in held]
        starts = of([unknown], T.i64())
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            func.FuncOp.from_py_func(*heads, *tables, *caches, starts, *[T.index()] * 3)(_attend)
    return module


def _attend(
    query: ir.Value,
    key: ir.Value,
    value: ir.Value,
    cos: ir.Value,
    sin: ir.Value,
    keys: ir.Value,
    values: ir.Value,
    starts: ir.Value,
    layer: ir.Value,
    sequence: ir.Value,
    past: ir.Value,
) -> list[ir.Value]:
    """What attention gives, and the new caches, where keys are turned before they are kept."""
    lengths = Lengths.of(size(key, 2), size(starts, 0))
    key = RotaryOp(key, cos, sin, i64(0), key.type).out
    new = [
        CacheAppendOp(cache, split_rows(rows, lengths), layer, sequence, past, cache.type).out
        for cache, rows in ((keys, key), (values, value))
    ]
    query = split_rows(query, lengths)
    where = starts, layer, sequence, past
    how = f64(0.25), i64(0), f64(0.0)
    out = CachedAttentionOp(query, *new, *where, *how, query.type).out
    return [join_rows(out, lengths), *new]


@pytest.mark.parametrize("element", ["f32", "f16", "q8_0"])
def test_each_sequence_is_as_it_is_alone(element):
    module = attention_and_appends(element)
    kernels = CallKernels(lanes=LANES, instruction=BYTES.name)
    run(("canonicalize,cse", kernels, StoreBlocksAsBytes(), "canonicalize"), module)
    assert "llmc." not in str(module), "kernels take in all of it"
    binary = compile_for_cpu(module)
    attend = iree.runtime.load_vm_flatbuffer(binary, driver="local-task")["_attend"]
    for sequences, tokens in ((2, 1), (3, 19), (5, 16)):
        generator = np.random.default_rng(sequences)
        heads = [
            generator.standard_normal((1, count, sequences * tokens, CHANNELS), np.float32)
            for count in (HEADS, GROUPS, GROUPS)
        ]
        tables = [*generator.standard_normal((2, 1, sequences * tokens, ROTATED), np.float32)]
        starts = np.minimum(np.arange(sequences), PAST)
        shape = 2, FIRST + sequences, GROUPS, PAST + tokens + 2, CHANNELS
        caches = [
            as_stored(
                as_cache(kept(generator.standard_normal(shape), element, which), element, which)
            )
            for which in ("keys", "values")
        ]
        out, *together = attend(*heads, *tables, *caches, starts, 1, FIRST, PAST)
        outs = np.split(out.to_host(), sequences, axis=2)
        for number, found in enumerate(outs):
            rows = slice(number * tokens, (number + 1) * tokens)
            given = *(x[:, :, rows] for x in heads), *(table[:, rows] for table in tables)
            own = starts[number : number + 1]
            alone, *caches = (
                each.to_host() for each in attend(*given, *caches, own, 1, FIRST + number, PAST)
            )
            np.testing.assert_array_equal(found, alone)
        for found, expected in zip(together, caches, strict=True):
            np.testing.assert_array_equal(found.to_host(), expected)
