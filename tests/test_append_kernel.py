"""The kernel that appends to a KV cache writes what it is told to, turned or not, and no more."""

import iree.compiler
import iree.runtime
import numpy as np
import pytest
from torch_mlir import ir

from llmc import dialects
from llmc.dialects import CacheAppendOp, RotaryOp
from llmc.pipelines.driver.execution import run
from llmc.pipelines.passes.call_kernels import CallKernels
from llmc.pipelines.targets.cpu import CPUTarget

BATCH, HEADS, FIRST, WIDTH = 2, 3, 5, 80


def compiled(channels, element, rotated, cut):
    """`@append(rows, cos, sin, cache, ...)`; rows are heads, or cut from `[B, T, WIDTH]`."""
    heads = f"tensor<{BATCH}x{HEADS}x?x{channels}xf32>"
    narrow = f"tensor<{BATCH}x{HEADS}x?x{channels}x{element}>"
    table, cache = f"tensor<1x?x{rotated}xf32>", f"tensor<2x?x{HEADS}x?x{channels}x{element}>"
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
    turning = f'%turned = "llmc.rotary"({"%heads" if cut else "%x"}, %cos, %sin) : ' + (
        f"({heads}, {table}, {table}) -> {heads}"
    )
    f32 = "%turned" if rotated else "%heads" if cut else "%x"
    as_it_is = "affine_map<(a, b, c, d) -> (a, b, c, d)>"
    narrowing = f"""
      %e = tensor.empty(%t) : {narrow}
      %narrow = linalg.generic {{indexing_maps = [{as_it_is}, {as_it_is}],
          iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
          ins({f32} : {heads}) outs(%e : {narrow}) {{
      ^bb0(%a: f32, %b: {element}):
        %n = arith.truncf %a : f32 to {element}
        linalg.yield %n : {element}
      }} -> {narrow}
    """
    is_narrow = element != "f32"
    context = ir.Context()
    dialects.load(context)
    text = f"""
    func.func @append(%x: {whole if cut else heads}, %cos: {table}, %sin: {table}, %cache: {cache},
                      %layer: index, %sequence: index, %column: index) -> {cache} {{
      %c = arith.constant {1 if cut else 2} : index
      %t = tensor.dim %x, %c : {whole if cut else heads}
      {cutting if cut else ""}
      {turning if rotated else ""}
      {narrowing if is_narrow else ""}
      %new = "llmc.cache_append"(%cache, {"%narrow" if is_narrow else f32}, %layer, %sequence,
                                 %column) : ({cache}, {narrow}, index, index, index) -> {cache}
      return %new : {cache}
    }}"""
    module = ir.Module.parse(text, context)
    run((CallKernels(lanes=16), "canonicalize"), module)
    assert "llmc." not in str(module), "the kernel takes in all of it"
    binary = iree.compiler.compile_str(str(module), extra_args=CPUTarget().flags)
    return iree.runtime.load_vm_flatbuffer(binary, driver="local-task").append


@pytest.mark.parametrize(
    ("channels", "element", "rotated", "cut"),
    [(16, "f32", 16, True), (20, "f16", 12, True), (8, "f16", 4, False), (24, "f32", 0, True)],
)
def test_kernel(channels, element, rotated, cut):
    append = compiled(channels, element, rotated, cut)
    generator = np.random.default_rng(channels)
    stored = np.float16 if element == "f16" else np.float32
    for tokens in (1, 16, 37):
        shape = (BATCH, tokens, WIDTH) if cut else (BATCH, HEADS, tokens, channels)
        x = generator.standard_normal(shape, np.float32)
        cos, sin = generator.standard_normal((2, 1, tokens, rotated), np.float32)
        cache = generator.standard_normal((2, 4, HEADS, 50, channels)).astype(stored)
        heads = x
        if cut:
            part = x[..., FIRST : FIRST + HEADS * channels]
            heads = part.reshape(BATCH, tokens, HEADS, channels).transpose(0, 2, 1, 3)
        if rotated:
            heads = RotaryOp.reference(*(a.astype(np.float64) for a in (heads, cos, sin)))
        expected = CacheAppendOp.reference(cache, heads.astype(stored), 1, 2, 7)
        new = append(x, cos, sin, cache, 1, 2, 7).to_host()
        tolerance = 2e-6 if element == "f32" else 2**-10
        np.testing.assert_allclose(new, expected, rtol=tolerance, atol=tolerance)
