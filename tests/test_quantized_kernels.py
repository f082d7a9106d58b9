"""Kernels of quantised linear layers compute what the layers and their surroundings mean."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from torch_mlir import ir
from torch_mlir.dialects import arith, func, math, vector
from torch_mlir.extras import types as T

from llmc.dialects import PackedQuantizedLinearOp, PlaneLinearOp, RMSNormOp
from llmc.dialects.block_panels import pack_blocks
from llmc.dialects.block_parts import HIGH, LOW, pack_planes
from llmc.dialects.blocks import FORMATS, Q8_0
from llmc.dialects.index_notation import constant, pointwise, sizes, slice_of
from llmc.pipelines.kernels import byte_instructions
from llmc.pipelines.kernels.byte_instructions import INSTRUCTIONS, plain
from llmc.pipelines.passes import (
    DispatchKernels,
    OutlineQuantizedLinears,
    ScheduleKernels,
    outline_quantized_linears,
)
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.pipelines.targets.parse import parse_cpu
from llmc.pipelines.walks import find
from tests.cpu_code import require
from tests.scheduled import call, new_context


@dataclass(frozen=True)
class Case:
    """A layer on `rows` rows, and what surrounds it.

    Its format is one of blocks, or `planes`, or `high` for these without low bits.
    """

    rows: int
    inputs: int
    outputs: int
    format: str = "q4_1"
    dynamic: bool = False
    norm: bool = False
    bias: bool = False
    after: str = ""
    schedule: str = ""
    columns: int = 16
    target: str = "cpu"

    def arrays(self) -> list[np.ndarray]:
        rng = np.random.default_rng(self.rows + self.inputs)

        def normal(*shape: int) -> np.ndarray:
            return rng.standard_normal(shape).astype(np.float32)

        weight = normal(self.outputs, self.inputs)
        return [
            normal(1, self.rows, self.inputs),
            normal(self.inputs),
            normal(self.outputs),
            normal(1, self.rows, self.outputs),
            *self._packed(weight),
        ]

    def _packed(self, weight: np.ndarray) -> list[np.ndarray]:
        if self.format in FORMATS:
            return [pack_blocks(FORMATS[self.format].encode(weight), self.columns)]
        parts = (HIGH, LOW) if self.format == "planes" else (HIGH,)
        return [pack_planes(Q8_0.encode(weight), part, self.columns) for part in parts]

    def module(self, arrays: list[np.ndarray]) -> ir.Module:
        module = ir.Module.create()
        types = [
            _type(array, self.dynamic and array.ndim == 3 and array.dtype != np.int8)
            for array in arrays
        ]
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("main", (types, []))
        with ir.InsertionPoint(function.add_entry_block()):
            y = self._build(*function.arguments)
            func.ReturnOp([y])
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, [y.type]))
        module.operation.verify()
        return module

    def _build(
        self, x: ir.Value, norm: ir.Value, bias: ir.Value, residual: ir.Value, *weights: ir.Value
    ) -> ir.Value:
        if self.norm:
            x = RMSNormOp(x, _f64(1e-5), _f64(0.0), x.type, weight=norm).out
        y = self._multiplied(x, weights, bias if self.bias else None, residual.type)
        if self.after == "add":
            return pointwise("abn,abn->abn", lambda a, b, _: arith.addf(a, b), residual, y)
        if self.after == "gate":
            one, tokens, width = sizes(y)
            half = [one, tokens, width // 2]
            gate, up = (slice_of(y, [0, 0, start], half, half) for start in (0, width // 2))
            silu = pointwise("abn->abn", lambda x, _: _silu(x), gate)
            return pointwise("abn,abn->abn", lambda a, b, _: arith.mulf(a, b), silu, up)
        return y

    def _multiplied(
        self, x: ir.Value, weights: Sequence[ir.Value], bias: ir.Value | None, type_: ir.Type
    ) -> ir.Value:
        if self.format in FORMATS:
            (weight,) = weights
            format_ = ir.StringAttr.get(self.format)
            return PackedQuantizedLinearOp(x, weight, format_, type_, bias=bias).out
        high, *low = weights
        return PlaneLinearOp(x, high, type_, low=low[0] if low else None).out

    def expected(self, arrays: list[np.ndarray]) -> np.ndarray:
        x, norm, bias, residual, *weights = arrays
        if self.norm:
            x = RMSNormOp.reference(x.astype(np.float64), norm, 1e-5).astype(np.float32)
        y = self._product(x, weights, bias if self.bias else None)
        if self.after == "add":
            return y + residual
        if self.after == "gate":
            gate, up = np.split(y, 2, -1)
            with np.errstate(over="ignore"):  # where the sigmoid is 0
                return gate / (1 + np.exp(-gate)) * up
        return y

    def _product(
        self, x: np.ndarray, weights: Sequence[np.ndarray], bias: np.ndarray | None
    ) -> np.ndarray:
        if self.format in FORMATS:
            (weight,) = weights
            return PackedQuantizedLinearOp.reference(x, weight, self.format, self.outputs, bias)
        high, *low = weights
        return PlaneLinearOp.reference(x, high, self.outputs, low[0] if low else None)


CASES = [
    Case(1, 64, 64),
    Case(1, 576, 960, norm=True),
    Case(1, 96, 64, norm=True, after="gate"),
    Case(1, 64, 96, bias=True, after="add"),
    Case(1, 64, 50, bias=True),
    Case(1, 64, 64, format="q4_0"),
    Case(1, 96, 64, format="q8_0", norm=True),
    Case(1, 32768, 32, norm=True),
    Case(13, 64, 64, dynamic=True, norm=True),
    Case(15, 64, 64, after="add"),
    Case(16, 96, 64, dynamic=True, after="gate", bias=True),
    Case(7, 64, 50, format="q4_0", dynamic=True, bias=True),
    Case(9, 96, 64, format="q8_0", dynamic=True),
    Case(1, 64, 64, dynamic=True, after="add"),
    Case(32, 64, 64),
    Case(53, 576, 96, dynamic=True, norm=True, after="gate"),
    Case(35, 128, 64, format="q8_0", dynamic=True, after="add"),
    Case(18, 192, 64, format="int4_g64", dynamic=True),
    Case(33, 256, 64, format="int4_g128", dynamic=True, bias=True),
    Case(33, 1024, 64, format="int4_g128", after="gate"),  # unpacked at once, it fills the stack
    Case(19, 64, 64, dynamic=True, target="cpu:icelake-server"),
    Case(5, 64, 32, columns=8, target="cpu:alderlake"),
    Case(1, 64, 32, format="q8_0", columns=8, target="cpu:alderlake"),
    Case(5, 64, 64, target="cpu:skylake-avx512"),
    Case(5, 64, 32, format="q4_0", columns=8, target="cpu:haswell"),
    Case(1, 64, 32, format="q8_0", columns=8, target="cpu:haswell"),
    Case(1, 64, 32, format="q8_0", columns=8, target="cpu:x86-64-v2"),
    Case(3, 64, 32, columns=4, target="cpu:x86-64-v2"),
    Case(1, 576, 96, format="int4_g64", norm=True, after="gate"),
    Case(13, 192, 64, format="int4_g64", dynamic=True, norm=True, after="add"),
    Case(1, 384, 50, format="int4_g128", bias=True),
    Case(1, 64, 96, schedule="quantized_matvec{panels=3,together=1,ahead=256,instruction=plain}"),
    Case(1, 256, 64, format="int4_g128", norm=True, after="add"),
    Case(15, 384, 64, format="int4_g128", dynamic=True, after="gate"),
    Case(5, 256, 32, format="int4_g128", columns=8, target="cpu:haswell"),
    Case(3, 128, 32, format="int4_g128", columns=4, target="cpu:x86-64-v2"),
    Case(1, 96, 64, format="q5_0", norm=True),
    Case(35, 128, 64, format="q5_1", dynamic=True, after="add"),
    Case(13, 64, 50, format="q5_0", dynamic=True, bias=True, target="cpu:icelake-server"),
    Case(5, 64, 32, format="q5_0", columns=8, target="cpu:haswell"),
    Case(1, 64, 32, format="q5_1", columns=8, target="cpu:x86-64-v2"),
    Case(1, 48, 64, format="q6_g16", norm=True),
    Case(35, 128, 64, format="q6_g16", dynamic=True, after="gate"),
    Case(7, 64, 32, format="q6_g16", columns=8, bias=True, target="cpu:haswell"),
    Case(3, 64, 32, format="q6_g16", columns=4, target="cpu:x86-64-v2"),
    Case(1, 96, 64, format="planes", norm=True),
    Case(1, 96, 64, format="high"),
    Case(35, 128, 64, format="planes", dynamic=True, after="add"),
    Case(19, 64, 64, format="high", dynamic=True),
    Case(5, 64, 50, format="planes", dynamic=True, target="cpu:icelake-server"),
    Case(5, 64, 32, format="planes", columns=8, target="cpu:haswell"),
    Case(1, 64, 32, format="high", columns=8, target="cpu:x86-64-v2"),
    Case(13, 96, 32, format="high", dynamic=True, columns=8, target="cpu:haswell"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernels(case):
    check(case)


@pytest.mark.parametrize("format_", ["q4_0", "q4_1"])
def test_one_row_of_a_large_weight(monkeypatch, format_):
    monkeypatch.setattr(outline_quantized_linears, "_MOST_WORKGROUPS", 0)
    check(Case(1, 576, 96, format_, norm=True, after="gate"))


@pytest.mark.parametrize(
    "format_", ["q4_1", "q5_0", "q6_g16", "q8_0", "int4_g128", "planes", "high"]
)
def test_two_rows_at_once(monkeypatch, format_):
    """What Arm's SMMLA is given, on any CPU: the instruction as its manual has it."""
    monkeypatch.setattr(byte_instructions, "_smmla", smmla)
    monkeypatch.setitem(INSTRUCTIONS, "smmla", plain)
    schedule = "quantized_matmul{panels=2,rows=4,together=2,instruction=smmla,lanes=4}"
    target = "cpu:x86-64-v2"
    for rows, dynamic in ((4, False), (7, True)):
        check(Case(rows, 128, 32, format_, dynamic, columns=4, target=target, schedule=schedule))


@pytest.mark.parametrize(
    ("arch", "features", "instruction"),
    [
        ("aarch64", ("dotprod", "i8mm"), "smmla"),
        ("aarch64", ("dotprod",), "sdot"),
        ("aarch64", (), "plain"),
        ("x86_64", ("amx-int8", "avx2", "avx512vnni"), "tdpbsud"),
        ("x86_64", ("avx2", "avx512vnni", "avxvnni"), "vpdpbusd"),
        ("x86_64", ("avx2",), "vpmaddubsw"),
        ("x86_64", (), "plain"),
    ],
)
def test_the_best_instruction_of_a_cpu_is_taken(arch, features, instruction):
    target = CPUTarget("some", arch)
    vars(target)["_described"] = ("some", features)  # as LLVM would describe it
    assert target.byte_instruction.name == instruction


def smmla(total: ir.Value, activations: ir.Value, weights: ir.Value) -> ir.Value:
    """Adds the product of a matrix `[2, 8]` of bytes, in words, and the transpose of another."""
    for word in range(2):
        rows = vector.shuffle(activations, activations, [word, word, 2 + word, 2 + word])
        columns = vector.shuffle(weights, weights, [word, 2 + word, word, 2 + word])
        total = plain(total, [(columns, rows)], True, 128)
    return total


def check(case: Case) -> None:
    require(parse_cpu(case.target).byte_instruction)
    arrays = case.arrays()
    with new_context(), ir.Location.unknown():
        module = case.module(arrays)
        for pass_ in (
            OutlineQuantizedLinears(case.target),
            ScheduleKernels(case.target, case.schedule),
            DispatchKernels(),
        ):
            pass_.apply(module)
        module.operation.verify()
        assert find(module.operation, "flow.dispatch")
        (actual,) = call(module, "main", arrays)
    expected = case.expected(arrays)
    scale = np.abs(expected).max()
    # A rounding of the norm may turn one activation into its neighbour.
    np.testing.assert_allclose(actual, expected, rtol=0, atol=(3e-3 if case.norm else 2e-6) * scale)


def _type(array: np.ndarray, dynamic: bool) -> ir.Type:
    shape = list(array.shape)
    if dynamic:
        shape[1] = ir.ShapedType.get_dynamic_size()
    element = T.f32() if array.dtype == np.float32 else T.i8()
    return ir.RankedTensorType.get(shape, element)


def _silu(x: ir.Value) -> ir.Value:
    one = constant(1.0, x.type)
    return arith.divf(x, arith.addf(one, math.exp(arith.negf(x))))


def _f64(value: float) -> ir.Attribute:
    return ir.FloatAttr.get(T.f64(), value)
