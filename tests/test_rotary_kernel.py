"""The rotary kernel turns channels as rotary embedding is defined, and keeps the rest.

It may norm heads before.
"""

import iree.runtime
import numpy as np
import pytest
from torch_mlir import ir

from llmc import dialects
from llmc.dialects import RMSNormOp, RotaryOp
from llmc.pipelines.driver.execution import run
from llmc.pipelines.passes.call_kernels import CallKernels
from tests.cpu_code import compile_for_cpu

EPSILON, OFFSET, LAYER = 1e-2, 0.5, 2


def compiled(batch, heads, channels, rotated, tables, lanes, interleaved, normed=False):
    """`@turn(x, cos, sin, weights, layer)`; rows, not heads, are normed, by one of the weights."""
    x, table = f"tensor<{batch}x{heads}x?x{channels}xf32>", f"tensor<{tables}x?x{rotated}xf32>"
    rows, weights = f"tensor<{batch}x?x{heads}x{channels}xf32>", f"tensor<3x{channels}xf32>"
    norm = f"""
      %weight = tensor.extract_slice %weights[%layer, 0] [1, {channels}] [1, 1]
          : {weights} to tensor<{channels}xf32>
      %normed = "llmc.rms_norm"(%x, %weight) {{epsilon = {EPSILON} : f64, offset = {OFFSET} : f64,
          operandSegmentSizes = array<i32: 1, 1>}} : ({rows}, tensor<{channels}xf32>) -> {rows}
      %one = arith.constant 1 : index
      %t = tensor.dim %normed, %one : {rows}
      %room = tensor.empty(%t) : {x}
      %heads = linalg.transpose ins(%normed : {rows}) outs(%room : {x}) permutation = [0, 2, 1, 3]
    """
    text = f"""func.func @turn(%x: {rows if normed else x}, %cos: {table}, %sin: {table},
                               %weights: {weights}, %layer: index) -> {x} {{
      {norm if normed else ""}
      %y = "llmc.rotary"({"%heads" if normed else "%x"}, %cos, %sin)
          {{interleaved = {int(interleaved)} : i64}} : ({x}, {table}, {table}) -> {x}
      return %y : {x}
    }}"""
    context = ir.Context()
    dialects.load(context)
    module = ir.Module.parse(text, context)
    run((CallKernels(lanes=lanes), "canonicalize"), module)
    assert "llmc." not in str(module), "the kernel takes in all of it"
    binary = compile_for_cpu(module)
    return iree.runtime.load_vm_flatbuffer(binary, driver="local-task").turn


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(
    ("batch", "heads", "channels", "rotated", "tables", "lanes"),
    [(1, 3, 64, 64, 1, 16), (2, 2, 20, 12, 2, 8), (3, 1, 7, 6, 1, 4)],
)
def test_kernel(batch, heads, channels, rotated, tables, lanes, interleaved):
    turn = compiled(batch, heads, channels, rotated, tables, lanes, interleaved)
    generator = np.random.default_rng(channels)
    for tokens in (2, 16, 37):
        x = generator.standard_normal((batch, heads, tokens, channels), np.float32)
        cos, sin = generator.standard_normal((2, tables, tokens, rotated), np.float32)
        exact = (array.astype(np.float64) for array in (x, cos, sin))
        expected = RotaryOp.reference(*exact, interleaved)
        weights = np.zeros((3, channels), np.float32)
        np.testing.assert_allclose(turn(x, cos, sin, weights, 0).to_host(), expected, atol=2e-6)


@pytest.mark.parametrize("interleaved", [False, True])
def test_heads_are_normed_before(interleaved):
    batch, heads, channels, rotated = 2, 3, 24, 16
    turn = compiled(batch, heads, channels, rotated, 1, 16, interleaved, normed=True)
    generator = np.random.default_rng(channels)
    for tokens in (1, 19):
        rows = generator.standard_normal((batch, tokens, heads, channels), np.float32)
        cos, sin = generator.standard_normal((2, 1, tokens, rotated), np.float32)
        weights = generator.standard_normal((3, channels), np.float32)
        x, *tables, weight = (a.astype(np.float64) for a in (rows, cos, sin, weights[LAYER]))
        normed = RMSNormOp.reference(x, weight, EPSILON, OFFSET).transpose(0, 2, 1, 3)
        expected = RotaryOp.reference(normed, *tables, interleaved)
        found = turn(rows, cos, sin, weights, LAYER).to_host()
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-5)
