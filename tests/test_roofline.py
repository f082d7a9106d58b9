"""How near kernels are to the bounds of a machine, what is counted of them, and the picture."""

from dataclasses import replace

import pytest
from torch_mlir import ir

from llmc import dialects
from llmc.frontend.bench.kernels import KernelTime
from llmc.frontend.bench.machine import Bounds, Machine
from llmc.frontend.bench.plot import plot
from llmc.frontend.bench.roofline import roofline, table
from llmc.pipelines.passes.call_kernels import CallKernels
from llmc.pipelines.walks import find
from llmc.runtime.manifest import ModelFacts
from llmc.tools.tables import write_table
from tests.test_attention_kernel import Shape as AttentionShape


def test_a_kernel_is_held_against_the_nearer_bound():
    bounds = Bounds(read_bytes_per_s=100.0, float_ops_per_s=1000.0, byte_ops_per_s=None)
    kernels = [
        KernelTime("matmul", 2, 40.0, {"layers.0.w": 1600}),
        KernelTime("norm", 1, 1.0, {}),
    ]
    matmul, norm = roofline("decode", 1, 0, model("f32"), kernels, bounds)
    # Two matrices of 10 by 20: 30 values go in and out of each, and 1840 bytes take 18.4 seconds.
    assert (matmul.bound, matmul.share) == ("memory", pytest.approx(0.46))
    assert (norm.bound, norm.share) == (None, None)
    (matmul, _) = roofline(
        "prefill", 40, 0, model("f32"), kernels, replace(bounds, read_bytes_per_s=1e3)
    )
    # 400 weights, 40 tokens, 2 operations: 32 seconds.
    assert (matmul.bound, matmul.share) == ("arithmetic", pytest.approx(0.8))


@pytest.mark.parametrize(
    "name",
    [
        "decode_dispatch_0_elementwise_broadcast_64_i64xf32",
        "region_0_1x1xi64_1xi64_50x8xf32_1x1x8xf32",
        "regions_0_Dx1xi64_Dxi64_50x8xf32_Dx1x8xf32",
        "refined_quantized_panel_0_1x8",
    ],
)
def test_a_kernel_that_reads_some_rows_is_held_against_no_bound(name):
    bounds = Bounds(read_bytes_per_s=100.0, float_ops_per_s=1000.0, byte_ops_per_s=None)
    (point,) = roofline(
        "decode", 1, 0, model("f32"), [KernelTime(name, 1, 1.0, {"w": 200})], bounds
    )
    assert (point.bytes, point.share) == (0, None)


def test_a_layer_that_occurs_once_is_no_head():
    bounds = Bounds(read_bytes_per_s=1e3, float_ops_per_s=1000.0, byte_ops_per_s=None)
    names = ("layers.0.w", "lm_head.weight", "layers.0.mlp.experts.up")
    kernels = [KernelTime("matmul", 1, 40.0, {name: 1600}) for name in names]
    layer, head, experts = roofline("prefill", 40, 0, model("f32"), kernels, bounds)
    assert layer.operations == 40 * head.operations == 2 * 40 * 400
    assert experts.share is None  # which it reads of the weights is not known


def test_what_comes_faster_than_from_memory_is_said_to_be_cached():
    bounds = Bounds(read_bytes_per_s=100.0, float_ops_per_s=1000.0, byte_ops_per_s=None)
    attention = KernelTime("attention", 2, 2.0, {}, cache_bytes=300)
    (point,) = roofline("decode", 1, 0, model("f32"), [attention], bounds)
    assert (point.bytes, point.bound, point.share) == (300, "cache", 1.5)
    (point,) = roofline("decode", 1, 0, model("f32"), [replace(attention, seconds=6.0)], bounds)
    assert (point.bound, point.share) == ("memory", 0.5)


def test_what_has_no_weights_reads_its_rows():
    bounds = Bounds(read_bytes_per_s=1e4, float_ops_per_s=1e3, byte_ops_per_s=None)
    names = "quantize_rows_0_Dx18x32xf32_Dx18x32xi8_Dx18xf32", "append_1xDx32xf32_30xDx3xDx64xf16"
    kernels = [KernelTime(name, 2, 4.0, {}) for name in names]
    quantize, append = roofline("prefill", 4, 0, model("q4_0"), kernels, bounds)
    assert quantize.bytes == 2 * 4 * (18 * 32 * 4 + 18 * 32 + 18 * 4)
    assert append.bytes == 2 * 4 * 32 * 4  # and a cache, of which it is not known how long it is
    assert quantize.share == pytest.approx(quantize.bytes / 1e4 / 4.0)


def test_attention_to_a_prompt_is_arithmetic():
    bounds = Bounds(read_bytes_per_s=1e12, float_ops_per_s=1e3, byte_ops_per_s=1e4)
    kernels = [
        KernelTime(attention_kernel(cache, window=3), 2, 1.0, {}, cache_bytes=10)
        for cache in ("f32", "q8_0")
    ]
    floats, in_bytes = roofline("prefill", 4, 5, model("q4_0"), kernels, bounds)
    # Four tokens see three columns each, of 32 channels of keys and 64 of values, with six heads.
    assert floats.operations == in_bytes.operations == 2 * 2 * (32 + 64) * 6 * 4 * 3
    assert (floats.bound, in_bytes.bound) == ("arithmetic", "arithmetic")
    # The cache, and for each dispatch rows in and out and where sequences start, as if these were
    # as many.
    assert floats.bytes == 10 + 2 * (4 * 4 * 6 * (32 + 64) + 4 * 8)
    bounds = replace(bounds, float_ops_per_s=1e5, byte_ops_per_s=1e6)
    floats, in_bytes = roofline("prefill", 4, 0, model("q4_0"), kernels, bounds)
    # Of the first tokens one and two.
    operations = 2 * 2 * (32 + 64) * 6 * (1 + 2 + 3 + 3)
    assert (floats.share, in_bytes.share) == pytest.approx((operations / 1e5, operations / 1e6))


def attention_kernel(cache: str, window: int) -> str:
    """The name of a kernel for a prompt."""
    context = ir.Context()
    dialects.load(context)
    shape = AttentionShape(6, 2, 32, 64, window=window, cache=cache)
    module = ir.Module.parse(shape.function, context)
    with context, ir.Location.unknown():
        CallKernels().apply(module)
    (executable,) = find(module.operation, "stream.executable")
    return executable.attributes["sym_name"].value


def test_bf16_is_bound_by_pairs_where_rows_are_rounded():
    bounds = Bounds(1e12, float_ops_per_s=1e3, byte_ops_per_s=1e6, pair_ops_per_s=2e3)
    names = "panel_matmul_0_Dx10xbf16_2x2x10x16xbf16_D", "panel_matmul_0_Dx10xf32_2x2x10x16xbf16_D"
    kernels = [KernelTime(name, 1, 10.0, {"layers.0.w": 640}) for name in names]
    in_pairs, alone = roofline("prefill", 6, 0, model("bf16"), kernels, bounds)
    assert in_pairs.operations == alone.operations == 2 * 6 * 320
    assert (in_pairs.share, alone.share) == (3840 / 2e3 / 10, 3840 / 1e3 / 10)


def test_tables_for_files_are_not_cut(capsys):
    name = "quantized_matmul_2_Dx18x32xi8_Dx18xf32_D"
    bounds = Bounds(read_bytes_per_s=1e9, float_ops_per_s=1e3, byte_ops_per_s=1e6)
    points = roofline("greedy", 1, 0, model("f32"), [KernelTime(name, 30, 1.0, {"w": 680})], bounds)
    write_table(table(list(points), 1))
    (line,) = (line for line in capsys.readouterr().out.splitlines() if name in line)
    assert line.split()[1:4] == ["30", "1000000", "100%"]


def test_a_kernel_is_counted_by_its_own_type():
    """The head of a model in q4_1 may be in q8_0: fewer weights in as many bytes, as bytes too."""
    bounds = Bounds(read_bytes_per_s=1e9, float_ops_per_s=1e3, byte_ops_per_s=1e6)
    names = {
        "q4_1": "matvec_1x18x32xi8_30x60x18x320xi8",
        "q8_0": "matvec_1x18x32xf32_3072x18x544xi8",
        "f32": "norm_576xf32",
        "int4_g128": "layers_28x1024xf32_28x256x8x1088xi8",
    }
    kernels = [KernelTime(name, 1, 1.0, {"w": 680}) for name in names.values()]
    points = list(roofline("decode", 1, 0, model("q4_1"), kernels, bounds))
    assert [point.weights for point in points] == list(names)
    assert [point.operations for point in points] == [2 * 1088, 2 * 640, 2 * 170, 2 * 1280]
    assert points[1].share == pytest.approx(2 * 640 / 1e6)
    assert points[2].share == pytest.approx(2 * 170 / 1e3)


@pytest.mark.parametrize(
    ("dtype", "name", "weights"),
    [
        ("f16", "panel_matvec_1x576xf32_3072x576x16xi8", 416),
        ("f16", "panel_matvec_1x576xf32_3072x576x16xi8_3072x576x16xi8", 208),
        ("f32", "panel_matvec_1x576xf32_3072x576x16xi16", 208),
        ("q8_0", "matvec_1x18x32xi8_3072x18x416xi8", 512),
    ],
)
def test_weights_are_counted_where_high_bits_alone_are_read(dtype, name, weights):
    bounds = Bounds(read_bytes_per_s=1e9, float_ops_per_s=1e3, byte_ops_per_s=1e6)
    (point,) = roofline(
        "greedy", 1, 0, model(dtype), [KernelTime(name, 1, 1.0, {"w": 416})], bounds
    )
    assert (point.weights, point.operations) == (dtype, 2 * weights)


def model(dtype):
    return ModelFacts("llama", 2, hidden_size=10, vocab_size=320, parameters=1, dtype=dtype)


def test_the_machine_is_measured():
    bounds = Machine(read_bytes=1 << 20, threads=1).bounds()
    assert 1e8 < bounds.read_bytes_per_s < 1e12
    assert 1e8 < bounds.float_ops_per_s < 1e13


def test_a_roofline_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    bounds = Bounds(read_bytes_per_s=1e10, float_ops_per_s=1e11, byte_ops_per_s=None)
    kernels = [KernelTime("matmul", 2, 1e-3, {"w": 20})]
    (point,) = roofline("decode", 1, 0, model("f32"), kernels, bounds)
    plot([point], bounds, tmp_path / "roofline.png")
    assert (tmp_path / "roofline.png").read_bytes().startswith(b"\x89PNG")
