"""The kernels of GPUs, as far as the code: what is scheduled, and which instructions it has."""

import re
from collections import Counter

import iree.compiler as iree
import numpy as np
import pytest
from iree.compiler import ir as iree_ir
from torch_mlir import ir

from llmc import dialects
from llmc.pipelines.driver.execution import run
from llmc.pipelines.iree import OPTIONS
from llmc.pipelines.kernels.launch import MARKER
from llmc.pipelines.passes.lower_llmc import LowerLlmc
from llmc.pipelines.passes.pair_halves import PairHalves
from llmc.pipelines.passes.round_activations import RoundActivations
from llmc.pipelines.passes.split_argmax import SplitArgmax
from llmc.pipelines.passes.to_iree import ToIREE
from llmc.pipelines.schedules.gpu_dispatches import schedule_dispatches
from llmc.pipelines.schedules.gpu_lowering import Kind
from llmc.pipelines.targets.gpu_facts import GPUFacts
from tests.arrays import assert_same
from tests.interpreter import Machine

ROUNDED = (PairHalves(), SplitArgmax(), RoundActivations())
AMPERE = GPUFacts(32, 1024, 163840, True, True, True, True, tensor_cores=True)
LEAST = GPUFacts(64, 128, 16384, False, False, False, False, tensor_cores=False)
VULKAN = ["--iree-hal-target-device=vulkan", "--iree-input-demote-i64-to-i32"]
ARCHITECTURES = pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89"])


def cuda(arch: str) -> list[str]:
    return ["--iree-hal-target-device=cuda", f"--iree-cuda-target={arch}"]


def linear(rows: int | str, outputs: int, inputs: int, weight: str) -> str:
    x, w, y = (
        f"tensor<{rows}x{inputs}xf32>",
        f"tensor<{outputs}x{inputs}x{weight}>",
        f"tensor<{rows}x{outputs}xf32>",
    )
    return f"""
    func.func @linear(%x: {x}, %w: {w}) -> {y} {{
      %y = "llmc.linear"(%x, %w) {{operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}}
         : ({x}, {w}) -> {y}
      return %y : {y}
    }}"""


def blocks(outputs: int, inputs: int, values: int, bits: int, many: bool = False) -> str:
    """A row times integers of `bits` bits that share a scale in groups, as `split-blocks` asks.

    Or an open number of rows, where there are `many`.
    """
    rows, loop = ("?x", "t, ") if many else ("", "")
    x, y = f"tensor<{rows}{inputs // values}x{values}xf32>", f"tensor<{rows}{outputs}xf32>"
    w = f"tensor<{outputs}x{inputs // values}x{values * bits // 8}xi8>"
    q, s = (
        f"tensor<{outputs}x{inputs // values}x{values}xi{bits}>",
        f"tensor<{outputs}x{inputs // values}xf16>",
    )
    cast = f'%q = "llmc.bitcast"(%w) : ({w}) -> {q}' if bits < 8 else ""
    return f"""
    func.func @blocks(%x: {x}, %{"w" if bits < 8 else "q"}: {w}, %s: {s}) -> {y} {{
      {cast}
      %zero = arith.constant 0.0 : f32
      %c0 = arith.constant 0 : index
      {f"%rows = tensor.dim %x, %c0 : {x}" if many else ""}
      %room = tensor.empty({"%rows" if many else ""}) : {y}
      %zeros = linalg.fill ins(%zero : f32) outs(%room : {y}) -> {y}
      %y = linalg.generic {{
        indexing_maps = [affine_map<({loop}n, b, v) -> ({loop}b, v)>,
                         affine_map<({loop}n, b, v) -> (n, b, v)>,
                         affine_map<({loop}n, b, v) -> (n, b)>,
                         affine_map<({loop}n, b, v) -> ({loop}n)>],
        iterator_types = [{'"parallel", ' if many else ""}"parallel", "reduction", "reduction"]}}
        ins(%x, %q, %s : {x}, {q}, {s}) outs(%zeros : {y}) {{
      ^bb0(%a: f32, %i: i{bits}, %h: f16, %sum: f32):
        %wide = arith.extui %i : i{bits} to i32
        %number = arith.sitofp %wide : i32 to f32
        %scale = arith.extf %h : f16 to f32
        %value = arith.mulf %number, %scale : f32
        %product = arith.mulf %a, %value : f32
        %next = arith.addf %sum, %product : f32
        linalg.yield %next : f32
      }} -> {y}
      return %y : {y}
    }}"""


def gated(inputs: int, outputs: int, weight: str) -> str:
    """A row's two halves, which are multiplied by one another."""
    x, w, y = (
        f"tensor<1x{inputs}xf32>",
        f"tensor<{2 * outputs}x{inputs}x{weight}>",
        f"tensor<1x{2 * outputs}xf32>",
    )
    half = f"tensor<1x{outputs}xf32>"
    return f"""
    func.func @gated(%x: {x}, %w: {w}) -> {half} {{
      %y = "llmc.linear"(%x, %w) {{operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}}
         : ({x}, {w}) -> {y}
      %gate = tensor.extract_slice %y[0, 0] [1, {outputs}] [1, 1] : {y} to {half}
      %up = tensor.extract_slice %y[0, {outputs}] [1, {outputs}] [1, 1] : {y} to {half}
      %room = tensor.empty() : {half}
      %product = linalg.generic {{
        indexing_maps = [affine_map<(t, n) -> (t, n)>, affine_map<(t, n) -> (t, n)>,
                         affine_map<(t, n) -> (t, n)>],
        iterator_types = ["parallel", "parallel"]}}
        ins(%gate, %up : {half}, {half}) outs(%room : {half}) {{
      ^bb0(%a: f32, %b: f32, %old: f32):
        %ab = arith.mulf %a, %b : f32
        linalg.yield %ab : f32
      }} -> {half}
      return %product : {half}
    }}"""


BEST = """
    func.func @best(%x: tensor<1x768xf32>) -> tensor<1xi64> {
      %best = "llmc.argmax"(%x) : (tensor<1x768xf32>) -> tensor<1xi64>
      return %best : tensor<1xi64>
    }"""


EXPERTS = """
    func.func @experts(%x: tensor<?x64xf32>, %expert: tensor<?xi64>, %w: tensor<4x96x64xf16>)
        -> tensor<?x96xf32> {
      %y = "llmc.expert_linear"(%x, %expert, %w) {top_k = 2 : i64, transposed = 0 : i64}
         : (tensor<?x64xf32>, tensor<?xi64>, tensor<4x96x64xf16>) -> tensor<?x96xf32>
      return %y : tensor<?x96xf32>
    }"""


def table(bits: int) -> str:
    """A row of integers of `bits` bits, which another tensor says."""
    held = f"tensor<8x64xi{bits}>"
    return f"""
    func.func @look_up(%id: tensor<1xi64>, %w: tensor<8x{64 * bits // 8}xi8>) -> tensor<1x64xf32> {{
      %table = "llmc.bitcast"(%w) : (tensor<8x{64 * bits // 8}xi8>) -> {held}
      %room = tensor.empty() : tensor<1x64xf32>
      %row = linalg.generic {{
        indexing_maps = [affine_map<(t, n) -> (t)>, affine_map<(t, n) -> (t, n)>],
        iterator_types = ["parallel", "parallel"]}}
        ins(%id : tensor<1xi64>) outs(%room : tensor<1x64xf32>) {{
      ^bb0(%i: i64, %old: f32):
        %n = linalg.index 1 : index
        %place = arith.index_cast %i : i64 to index
        %found = tensor.extract %table[%place, %n] : {held}
        %number = arith.sitofp %found : i{bits} to f32
        linalg.yield %number : f32
      }} -> tensor<1x64xf32>
      return %row : tensor<1x64xf32>
    }}"""


def parsed(text: str) -> ir.Module:
    context = ir.Context()
    dialects.load(context)
    return ir.Module.parse(text, context)


def scheduled(text: str, kind: Kind, facts: GPUFacts, flags: list[str]) -> str:
    """The kernels of `text` in IREE's flow dialect, with our schedules."""
    module = parsed(text)
    run((*ROUNDED, LowerLlmc(), "canonicalize,cse", ToIREE()), module)
    flags = [*flags, *OPTIONS, "--compile-to=flow"]
    flow = iree.compile_str(str(module), extra_args=flags).decode()
    kernels = iree_ir.Module.parse(flow, iree_ir.Context())
    schedule_dispatches(kernels, kind, facts)
    return str(kernels)


def compiled(flow: str, flags: list[str], *more: str) -> bytes:
    return iree.compile_str(flow, extra_args=[*flags, *OPTIONS, "--compile-from=flow", *more])


def ptx_of(text: str, arch: str) -> str:
    """The code of the kernels, which the module holds as text."""
    flow = scheduled(text, "cuda", AMPERE, cuda(arch))
    ptx = compiled(flow, cuda(arch)).decode(errors="ignore")
    assert f".target {arch}" in ptx
    assert ".local" not in ptx  # where registers are spilled to
    return ptx


def schedules(text: str, kind: Kind, facts: GPUFacts, flags: list[str]) -> list[str]:
    """The schedules that IREE still knows of when it lowers the kernels."""
    flow = scheduled(text, kind, facts, flags)
    lowered = compiled(flow, flags, "--compile-to=executable-configurations").decode()
    return re.findall(rf'{MARKER} = "(\w+)"', lowered)


@ARCHITECTURES
@pytest.mark.parametrize(
    ("weight", "inputs", "loads"),
    [("f16", 576, 9), ("f16", 512, 2), ("f32", 576, 9), ("f32", 1536, 12)],
)
def test_a_matvec_reads_128_bits_at_once(arch, weight, inputs, loads):
    ptx = ptx_of(linear(1, 96, inputs, weight), arch)
    wide = re.findall(r"ld\.global\.nc\.v4", ptx)
    # A thread has as many of its row, and of the vector, which is of f32.
    assert len(wide) == loads * (3 if weight == "f16" else 2)
    assert len(re.findall(r"ld\.global", ptx)) == len(wide)
    assert "shfl.sync" in ptx
    assert "bar.sync" not in ptx


@pytest.mark.parametrize(
    ("one", "many"),
    [
        (linear(1, 96, 576, "f16"), linear("?", 96, 576, "f16")),
        (blocks(1024, 256, 32, 4), blocks(1024, 256, 32, 4, many=True)),
    ],
    ids=["floats", "blocks"],
)
def test_each_of_many_rows_is_multiplied_as_one_is(one, many):
    kinds = r"(?:ld\.global|ld\.shared|fma|shfl|bar)\.\S*"
    one, many = (Counter(re.findall(kinds, ptx_of(text, "sm_80"))) for text in (one, many))
    assert many == one


@ARCHITECTURES
@pytest.mark.parametrize(
    ("values", "bits", "loads"),
    # In 4 rows that meet the same numbers of the vector.
    [(32, 4, 4 + 8), (64, 4, 4 + 8), (32, 8, 4 + 4)],
)
def test_blocks_are_read_by_128_bits_too(arch, values, bits, loads):
    ptx = ptx_of(blocks(1024, 256, values, bits), arch)
    assert len(re.findall(r"ld\.global\.nc\.v4", ptx)) == loads
    assert "shfl.sync" in ptx


@ARCHITECTURES
def test_both_halves_of_a_row_and_what_joins_them_are_one_kernel(arch):
    text = gated(576, 96, "f16")
    flow = scheduled(text, "cuda", AMPERE, cuda(arch))
    assert len(re.findall("flow.dispatch @", flow)) == 1
    ptx = ptx_of(text, arch)
    assert "ld.global.nc.v4" in ptx
    assert "shfl.sync" in ptx
    assert "bar.sync" not in ptx


def test_halves_are_those_of_the_whole():
    random = np.random.default_rng(0)
    x = random.standard_normal((1, 24)).astype(np.float32)
    weight = random.standard_normal((10, 24)).astype(np.float16)
    module = parsed(gated(24, 5, "f16"))
    run((PairHalves(),), module)
    (y,) = Machine(module, {}).call("gated", x, weight)
    gate, up = np.split(x.astype(np.float64) @ weight.astype(np.float64).T, 2, axis=1)
    # Sums of 24 products of about 10, rounded to 24 bits each, and then their product.
    assert_same(y.astype(np.float64), gate * up, 48 * 10 * 10 * 2**-24)


@ARCHITECTURES
def test_many_rows_meet_weights_of_16_bits_in_tensor_cores(arch):
    ptx = ptx_of(linear(64, 96, 128, "f16"), arch)
    assert "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in ptx
    assert re.search(r"ld\.global\S*\.v4|cp\.async\S* .*, 16", ptx)


def test_tensor_cores_round_activations_alone():
    random = np.random.default_rng(0)
    x = random.standard_normal((16, 24)).astype(np.float32)
    weight = random.standard_normal((5, 24)).astype(np.float16)
    module = parsed(linear(16, 5, 24, "f16"))
    run(ROUNDED, module)
    (y,) = Machine(module, {}).call("linear", x, weight)
    expected = x.astype(np.float16).astype(np.float64) @ weight.astype(np.float64).T
    # 24 products of 22 bits each are exact in float32, and their sums rounded to 24 bits.
    assert_same(y.astype(np.float64), expected, 24 * np.abs(expected).max() * 2**-24)
    assert np.abs(expected - x @ weight.astype(np.float32).T).max() > 1e-4


@pytest.mark.parametrize(
    ("text", "kind", "facts", "flags", "names"),
    [
        (linear(1, 96, 576, "f16"), "cuda", AMPERE, cuda("sm_80"), ["gpu_matvec"]),
        # A row of which no 4 threads read 128 bits each, and few rows beside each other.
        (linear(1, 96, 90, "f16"), "cuda", AMPERE, cuda("sm_80"), []),
        (linear(1, 3, 32, "f16"), "cuda", AMPERE, cuda("sm_80"), []),
        (linear("?", 96, 576, "f16"), "cuda", AMPERE, cuda("sm_80"), ["gpu_matvec"]),
        (linear(64, 96, 128, "f16"), "cuda", AMPERE, cuda("sm_80"), []),
        (gated(576, 96, "f32"), "cuda", AMPERE, cuda("sm_80"), ["gpu_matvec"]),
        (gated(576, 96, "f32"), "vulkan", LEAST, VULKAN, []),
        (blocks(1024, 256, 32, 4), "cuda", AMPERE, cuda("sm_80"), ["gpu_block_matvec"]),
        (blocks(1024, 256, 32, 4, True), "cuda", AMPERE, cuda("sm_80"), ["gpu_block_matvec"]),
        (blocks(1023, 256, 32, 4), "cuda", AMPERE, cuda("sm_80"), []),
        (linear(1, 96, 576, "f32"), "vulkan", LEAST, VULKAN, []),
        (BEST, "cuda", AMPERE, cuda("sm_80"), ["gpu_search"] * 2),
        (BEST, "vulkan", LEAST, VULKAN, ["gpu_search"] * 2),
        (EXPERTS, "cuda", AMPERE, cuda("sm_80"), ["gpu_chosen"]),
        (EXPERTS, "vulkan", LEAST, VULKAN, ["gpu_chosen"]),
        (table(4), "cuda", AMPERE, cuda("sm_80"), ["gpu_chosen"]),
        (table(16), "cuda", AMPERE, cuda("sm_80"), []),
    ],
)
def test_a_kernel_has_the_schedule_that_fits(text, kind, facts, flags, names):
    assert schedules(text, kind, facts, flags) == names


@pytest.mark.parametrize("text", [BEST, EXPERTS.replace("f16", "f32"), table(4)])
def test_what_reads_places_compiles_for_every_device(text):
    for kind, facts, flags in (("cuda", AMPERE, cuda("sm_80")), ("vulkan", LEAST, VULKAN)):
        assert compiled(scheduled(text, kind, facts, flags), flags)
