"""The kernel that appends to a KV cache writes what it is told to, turned or not, and no more."""

import iree.runtime
import numpy as np
import pytest
from torch_mlir import ir

from llmc import dialects
from llmc.dialects import CacheAppendOp, RMSNormOp, RotaryOp
from llmc.dialects.blocks import Q8_0
from llmc.dialects.kv_cache import rows_of
from llmc.pipelines.driver.execution import run
from llmc.pipelines.passes.call_kernels import CallKernels
from llmc.pipelines.passes.store_blocks_as_bytes import StoreBlocksAsBytes
from tests.cpu_code import compile_for_cpu
from tests.kv_caches import as_cache, as_stored, kept, row_type, stored_rows

BATCH, HEADS, FIRST, WIDTH = 2, 3, 5, 300


def compiled(channels, element, rotated, cut, which, interleaved=False, lanes=16):
    """`@append(rows, cos, sin, cache, ...)`; rows are heads, or cut from `[B, T, WIDTH]`."""
    heads = f"tensor<{BATCH}x{HEADS}x?x{channels}xf32>"
    row, table = row_type(channels, element, which), f"tensor<1x?x{rotated}xf32>"
    cache = f"tensor<2x?x{HEADS}x?x{row}>"
    whole, part = f"tensor<{BATCH}x?x{WIDTH}xf32>", f"tensor<{BATCH}x?x{HEADS * channels}xf32>"
    rows = f"tensor<{BATCH}x?x{HEADS}x{channels}xf32>"
    c = HEADS * channels
    cutting = f"""
      %part = tensor.extract_slice %x[0, 0, {FIRST}] [{BATCH}, %t, {c}] [1, 1, 1]
          : {whole} to {part}
      %rows = tensor.expand_shape %part [[0], [1], [2, 3]]
          output_shape [{BATCH}, %t, {HEADS}, {channels}] : {part} into {rows}
      %room = tensor.empty(%t) : {heads}
      %heads = linalg.transpose ins(%rows : {rows}) outs(%room : {heads}) permutation = [0, 2, 1, 3]
    """
    turning = f"""
      %turned = "llmc.rotary"({"%heads" if cut else "%x"}, %cos, %sin)
          {{interleaved = {int(interleaved)} : i64}} : ({heads}, {table}, {table}) -> {heads}
    """
    made = "%turned" if rotated else "%heads" if cut else "%x"
    context = ir.Context()
    dialects.load(context)
    text = f"""
    func.func @append(%x: {whole if cut else heads}, %cos: {table}, %sin: {table}, %cache: {cache},
                      %layer: index, %sequence: index, %column: index) -> {cache} {{
      %c = arith.constant {1 if cut else 2} : index
      %t = tensor.dim %x, %c : {whole if cut else heads}
      {cutting if cut else ""}
      {turning if rotated else ""}
      %new = "llmc.cache_append"(%cache, {made}, %layer, %sequence, %column)
           : ({cache}, {heads}, index, index, index) -> {cache}
      return %new : {cache}
    }}"""
    module = ir.Module.parse(text, context)
    run((CallKernels(lanes=lanes), StoreBlocksAsBytes(), "canonicalize"), module)
    assert "llmc." not in str(module), "the kernel takes in all of it"
    binary = compile_for_cpu(module)
    return iree.runtime.load_vm_flatbuffer(binary, driver="local-task").append


@pytest.mark.parametrize(
    ("channels", "element", "rotated", "cut", "which", "interleaved"),
    [
        (16, "f32", 16, True, "keys", False),
        (20, "f16", 12, True, "keys", True),
        (8, "f16", 4, False, "keys", False),
        (24, "f32", 0, True, "values", False),
        (64, "q8_0", 0, False, "keys", False),
        (64, "q8_0", 0, False, "values", False),
    ],
)
def test_kernel(channels, element, rotated, cut, which, interleaved):
    append = compiled(channels, element, rotated, cut, which, interleaved)
    generator = np.random.default_rng(channels)
    for tokens in (1, 16, 37):
        shape = (BATCH, tokens, WIDTH) if cut else (BATCH, HEADS, tokens, channels)
        x = generator.standard_normal(shape, np.float32)
        cos, sin = generator.standard_normal((2, 1, tokens, rotated), np.float32)
        rows = kept(generator.standard_normal((2, 4, HEADS, 50, channels)), element, which)
        cache = as_cache(rows, element, which)
        heads = in_heads(x, channels) if cut else x
        if rotated:
            exact = (a.astype(np.float64) for a in (heads, cos, sin))
            heads = RotaryOp.reference(*exact, interleaved)
        expected = CacheAppendOp.reference(cache, heads, 1, 2, 7)
        new = append(x, cos, sin, as_stored(cache), 1, 2, 7).to_host()
        # Blocks are those of the reference, bit for bit; other numbers are turned in float32.
        tolerance = {"f32": 2e-6, "f16": 2**-10, "q8_0": 0}[element]
        np.testing.assert_allclose(new, as_stored(expected), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("lanes", [4, 64])
def test_blocks_do_not_depend_on_the_length_of_registers(lanes):
    shape, cache = (BATCH, HEADS, 5, 64), np.zeros((2, 4, HEADS, 50, 64))
    x = np.random.default_rng(1).standard_normal(shape, np.float32)
    table = np.zeros((1, 5, 0), np.float32)
    cells = as_stored(as_cache(kept(cache, "q8_0", "keys"), "q8_0", "keys"))
    new = [
        compiled(64, "q8_0", 0, False, "keys", lanes=each)(x, table, table, cells, 1, 2, 7)
        for each in (16, lanes)
    ]
    np.testing.assert_array_equal(*(each.to_host() for each in new))


def test_blocks_of_turned_rows_are_a_step_off_at_most():
    channels, tokens = 96, 5
    append = compiled(channels, "q8_0", 32, True, "keys")
    generator = np.random.default_rng(channels)
    x = generator.standard_normal((BATCH, tokens, WIDTH), np.float32)
    cos, sin = generator.standard_normal((2, 1, tokens, 32), np.float32)
    rows = kept(generator.standard_normal((2, 4, HEADS, 50, channels)), "q8_0", "keys")
    cache = as_cache(rows, "q8_0", "keys")
    turned = RotaryOp.reference(*(a.astype(np.float64) for a in (in_heads(x, channels), cos, sin)))
    expected = rows_of(CacheAppendOp.reference(cache, turned, 1, 2, 7))
    new = append(x, cos, sin, as_stored(cache), 1, 2, 7).to_host()
    new = stored_rows(new, "q8_0", "keys")
    # A scale may be off by a unit in the last place, a number halfway between two by a step.
    np.testing.assert_allclose(new["scale"], expected["scale"], rtol=2**-10)
    off = Q8_0.integers(new).astype(int) - Q8_0.integers(expected)
    assert np.abs(off).max() <= 1
    assert np.count_nonzero(off) < 0.001 * off.size


@pytest.mark.parametrize("rotated", [0, 16])
def test_heads_are_normed_before(rotated):
    heads, cache = f"tensor<{BATCH}x{HEADS}x?x16xf32>", f"tensor<2x?x{HEADS}x?x16xf32>"
    turning = f"""
      %turned = "llmc.rotary"(%normed, %cos, %sin) {{interleaved = 0 : i64}}
          : ({heads}, tensor<1x?x{rotated}xf32>, tensor<1x?x{rotated}xf32>) -> {heads}
    """
    text = f"""
    func.func @append(%x: {heads}, %cos: tensor<1x?x{rotated}xf32>,
                      %sin: tensor<1x?x{rotated}xf32>, %weight: tensor<16xf32>, %cache: {cache},
                      %layer: index, %sequence: index, %column: index) -> {cache} {{
      %normed = "llmc.rms_norm"(%x, %weight) {{epsilon = 0.01 : f64, offset = 0.0 : f64,
          operandSegmentSizes = array<i32: 1, 1>}} : ({heads}, tensor<16xf32>) -> {heads}
      {turning if rotated else ""}
      %new = "llmc.cache_append"(%cache, {"%turned" if rotated else "%normed"}, %layer, %sequence,
          %column) : ({cache}, {heads}, index, index, index) -> {cache}
      return %new : {cache}
    }}"""
    context = ir.Context()
    dialects.load(context)
    module = ir.Module.parse(text, context)
    run((CallKernels(), "canonicalize"), module)
    assert "llmc." not in str(module), "the kernel takes in all of it"
    binary = compile_for_cpu(module)
    append = iree.runtime.load_vm_flatbuffer(binary, driver="local-task").append
    generator = np.random.default_rng(rotated)
    x = generator.standard_normal((BATCH, HEADS, 19, 16), np.float32)
    cos, sin = generator.standard_normal((2, 1, 19, rotated), np.float32)
    weight = generator.standard_normal(16, np.float32)
    cache = generator.standard_normal((2, 4, HEADS, 50, 16), np.float32)
    rows, *tables, exact = (a.astype(np.float64) for a in (x, cos, sin, weight))
    rows = RMSNormOp.reference(rows, exact, 0.01)
    rows = RotaryOp.reference(rows, *tables, False) if rotated else rows
    expected = CacheAppendOp.reference(cache, rows, 1, 2, 7)
    new = append(x, cos, sin, weight, cache, 1, 2, 7).to_host()
    np.testing.assert_allclose(new, expected, rtol=2e-6, atol=1e-5)


def in_heads(rows, channels):
    """The heads that lie in `rows [B, T, WIDTH]`."""
    part = rows[..., FIRST : FIRST + HEADS * channels]
    return part.reshape(*rows.shape[:2], HEADS, channels).transpose(0, 2, 1, 3)
