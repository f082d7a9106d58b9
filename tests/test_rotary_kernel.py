"""The rotary kernel turns channels as rotary embedding is defined, and keeps the rest."""

import iree.runtime
import numpy as np
import pytest
from torch_mlir import ir

from llmc import dialects
from llmc.dialects import RotaryOp
from llmc.pipelines.driver.execution import run
from llmc.pipelines.passes.call_kernels import CallKernels
from tests.cpu_code import compile_for_cpu


def compiled(batch, heads, channels, rotated, tables, lanes, interleaved):
    x, table = f"tensor<{batch}x{heads}x?x{channels}xf32>", f"tensor<{tables}x?x{rotated}xf32>"
    text = f"""func.func @turn(%x: {x}, %cos: {table}, %sin: {table}) -> {x} {{
      %y = "llmc.rotary"(%x, %cos, %sin) {{interleaved = {int(interleaved)} : i64}}
          : ({x}, {table}, {table}) -> {x}
      return %y : {x}
    }}"""
    context = ir.Context()
    dialects.load(context)
    module = ir.Module.parse(text, context)
    run((CallKernels(lanes=lanes),), module)
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
        np.testing.assert_allclose(turn(x, cos, sin).to_host(), expected, atol=2e-6)
