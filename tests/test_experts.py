"""Linear layers over experts give what their torch twin gives, however rows are routed."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_mlir import ir

from llmc.dialects import QuantizeRowsOp
from llmc.dialects.blocks import FORMATS
from llmc.frontend import torch_ops
from llmc.pipelines.passes import (
    BindParameters,
    GroupExpertRows,
    LowerLlmc,
    NarrowActivations,
    OutlineExperts,
    OutlineQuantizedExperts,
    PackBlocks,
    PackWeights,
    QuantizeWeights,
    ScheduleKernels,
)
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.schedule_kernels import run_alone
from llmc.pipelines.rewriting.functions import functions
from llmc.pipelines.rewriting.kernel_functions import OVER_EXPERTS, is_distributed, kind_of
from llmc.pipelines.schedules.transform_ops.sum_apart import CHAIN
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.pipelines.tuning.candidates import candidates
from tests.compiled import load

COLUMNS, TILE = 8, 4
ELEMENTS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Layer:
    """A layer of `experts` matrices `[outputs, inputs]`, and how it is compiled."""

    experts: int
    outputs: int
    inputs: int = 24
    top_k: int = 1
    storage: str = "f32"
    transposed: bool = False
    packed: bool = True
    format: str = ""  # of blocks, which replace `storage`

    def weights(self) -> Tensor:
        shape = (self.experts, self.outputs, self.inputs)
        weights = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        if self.format:
            blocks = FORMATS[self.format]
            return torch.from_numpy(blocks.decode(blocks.encode(weights.numpy())))
        weights = weights.to(ELEMENTS[self.storage]).float()
        return weights.mT.contiguous() if self.transposed else weights

    def read(self, x: Tensor) -> Tensor:
        """What the kernels multiply of x."""
        if not self.format:
            return x
        group = FORMATS[self.format].values
        values, scales = QuantizeRowsOp.reference(x.numpy(), group)
        return torch.from_numpy(values * np.repeat(scales, group, axis=-1))

    @property
    def steps(self) -> tuple[Pass | str, ...]:
        """The passes that lay out its weights and make its kernels."""
        if self.format:
            return (
                QuantizeWeights(self.format),
                PackBlocks(CPUTarget().columns),
                BindParameters(),
                GroupExpertRows(),
                OutlineQuantizedExperts(),
                LowerLlmc(keep_kernels=True),
                "canonicalize,cse",
                ScheduleKernels(),
            )
        packing = (PackWeights(columns=COLUMNS),) if self.packed else ()
        return (
            *packing,
            BindParameters(self.storage),
            GroupExpertRows(),
            NarrowActivations(instruction=CPUTarget().pair_instruction),
            OutlineExperts(),
            LowerLlmc(keep_kernels=True),
            "canonicalize,cse",
            ScheduleKernels(),
        )


LAYERS = [
    Layer(experts=4, outputs=16),
    Layer(experts=64, outputs=40, top_k=8),  # an odd number of panels
    Layer(experts=8, outputs=30, top_k=2),  # the last panel is padded
    Layer(experts=4, outputs=8, top_k=2),  # one panel
    Layer(experts=4, outputs=3, storage="f16"),
    Layer(experts=1, outputs=16),  # no loop over experts
    Layer(experts=5, outputs=16, storage="f16"),
    Layer(experts=5, outputs=32, storage="bf16", transposed=True),
    Layer(experts=5, outputs=40, inputs=64, top_k=2, storage="bf16"),  # by pairs, where a CPU can
    Layer(experts=6, outputs=20, top_k=3, transposed=True),
    Layer(experts=6, outputs=20, top_k=2, packed=False),
    Layer(experts=6, outputs=20, storage="f16", transposed=True, packed=False),
    Layer(experts=8, outputs=64, inputs=96, top_k=2, format="q4_0"),
    Layer(experts=5, outputs=40, inputs=64, top_k=3, format="q8_0"),  # the last panel is padded
    Layer(experts=3, outputs=48, inputs=256, format="int4_g128"),
    Layer(experts=4, outputs=4, inputs=32, top_k=2, format="q4_1"),  # one panel: no kernel
    Layer(experts=1, outputs=64, inputs=64, format="q8_0"),
]


@dataclass(frozen=True)
class Compiled:
    """A layer's two functions: for any number of tokens, and for one."""

    layer: Layer
    any_rows: Callable[..., np.ndarray]
    one_token: Callable[..., np.ndarray]


def layer_function(name: str, layer: Layer, tokens: str) -> str:
    rows = "?" if tokens == "?" else str(int(tokens) * layer.top_k)
    x, expert = f"tensor<{tokens}x{layer.inputs}xf32>", f"tensor<{rows}xi64>"
    weight = f"tensor<{'x'.join(map(str, layer.weights().shape))}xf32>"
    out = f"tensor<{rows}x{layer.outputs}xf32>"
    return f"""
      func.func @{name}(%x: {x}, %expert: {expert}) -> {out} {{
        %w = "llmc.parameter"() {{sources = ["w"]}} : () -> {weight}
        %y = "llmc.expert_linear"(%x, %expert, %w)
           {{top_k = {layer.top_k} : i64, transposed = {int(layer.transposed)} : i64}}
           : ({x}, {expert}, {weight}) -> {out}
        return %y : {out}
      }}"""


@pytest.fixture(scope="module", params=LAYERS, ids=repr)
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    layer = request.param
    text = layer_function("any_rows", layer, "?") + layer_function("one_token", layer, "1")
    find = load(text, layer.steps, {"w": layer.weights()}, tmp_path_factory.mktemp("layer"))
    return Compiled(layer, find("any_rows"), find("one_token"))


def assert_as_torch(layer: Layer, run: Callable[..., np.ndarray], expert: Tensor) -> None:
    """The compiled layer gives the torch twin's result, to the error of a sum in float32."""
    x = torch.randn(
        len(expert) // layer.top_k, layer.inputs, generator=torch.Generator().manual_seed(1)
    )
    x = x.to(ELEMENTS[layer.storage]).float()  # of which none is rounded, then
    arguments = (expert, layer.weights().double(), layer.top_k, layer.transposed)
    read = layer.read(x).double()
    expected = torch_ops.expert_linear(read, *arguments)
    size = torch_ops.expert_linear(
        read.abs(), expert, layer.weights().double().abs(), layer.top_k, layer.transposed
    )
    found = torch.from_numpy(run(x.numpy(), expert.numpy()).to_host())
    assert ((found - expected).abs() <= layer.inputs * 2.0**-24 * size).all()


def random_experts(rows: int, experts: int) -> Tensor:
    return torch.randint(experts, (rows,), generator=torch.Generator().manual_seed(rows))


@pytest.mark.parametrize("tokens", [1, 2, 3, 37])
def test_random_routing(compiled, tokens):
    layer = compiled.layer
    expert = random_experts(tokens * layer.top_k, layer.experts)
    assert_as_torch(layer, compiled.any_rows, expert)


@pytest.mark.parametrize("rows", [TILE - 1, TILE, TILE + 1, 5 * TILE + 2])
@pytest.mark.parametrize("last", [False, True])
def test_all_rows_to_one_expert(compiled, rows, last):
    layer = compiled.layer
    which = layer.experts - 1 if last else 0
    assert_as_torch(layer, compiled.any_rows, torch.full((rows * layer.top_k,), which))


def test_one_token(compiled):
    layer = compiled.layer
    assert_as_torch(layer, compiled.one_token, random_experts(layer.top_k, layer.experts))


@dataclass(frozen=True)
class AnyParameters(Pass):
    """Runs on each kernel over experts one of the schedules that tuning tries, by chance."""

    name: ClassVar[str] = "any-parameters"
    seed: int = 0

    def apply(self, module: ir.Module) -> None:
        """Schedules kernel by kernel."""
        chance = Random(self.seed)
        for kernel in functions(module):
            kind = kind_of(kernel)
            if kind in OVER_EXPERTS and not is_distributed(kernel):
                _, *others = candidates(kind, kernel, CPUTarget())
                run_alone(chance.choice(others), kernel)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "layer",
    [
        Layer(experts=5, outputs=192, inputs=64, top_k=2, format="q4_0"),
        Layer(experts=5, outputs=96, top_k=2, storage="f16"),
    ],
    ids=repr,
)
def test_any_parameters_of_schedules(tmp_path, layer, seed):
    text = layer_function("any_rows", layer, "?") + layer_function("one_token", layer, "1")
    *outline, schedule = layer.steps
    steps = (*outline, AnyParameters(seed), schedule)
    find = load(text, steps, {"w": layer.weights()}, tmp_path)
    for tokens, name in ((37, "any_rows"), (1, "one_token")):
        assert_as_torch(layer, find(name), random_experts(tokens * layer.top_k, layer.experts))


def test_rounding_errors_do_not_grow_with_the_length_of_sums(tmp_path):
    """Of 6144 numbers alike: a single chain of additions rounds most of them the same way."""
    layer, third = Layer(experts=2, outputs=16, inputs=6144), np.float32(1 / 3)
    text = layer_function("any_rows", layer, "?") + layer_function("one_token", layer, "1")
    weights = torch.full((layer.experts, layer.outputs, layer.inputs), float(third))
    find = load(text, layer.steps, {"w": weights}, tmp_path)
    expected = layer.inputs * np.float64(third)
    additions = CHAIN + layer.inputs // CHAIN
    for name, rows in (("any_rows", TILE + 1), ("one_token", 1)):
        x, expert = np.ones((rows, layer.inputs), np.float32), np.zeros(rows, np.int64)
        error = np.abs(find(name)(x, expert).to_host() - expected).max()
        assert error <= additions * 2.0**-24 * expected


@pytest.fixture(scope="module")
def group_rows(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., np.ndarray]:
    results = "tensor<?xi32>, tensor<8xi32>, tensor<?xi32>"
    text = f"""
      func.func @group(%expert: tensor<?xi64>) -> ({results}) {{
        %order, %first, %place = "llmc.group_rows"(%expert) : (tensor<?xi64>) -> ({results})
        return %order, %first, %place : {results}
      }}"""
    return load(text, (), {}, tmp_path_factory.mktemp("groups"))("group")


@pytest.mark.parametrize("expert", [[3], [6, 0, 6, 3, 3, 0, 6], [5] * 9, list(range(7)) * 30])
def test_group_rows_sorts_stably(group_rows, expert):
    order, first, place = (result.to_host() for result in group_rows(np.array(expert)))
    assert order.tolist() == np.argsort(expert, kind="stable").tolist()
    assert first.tolist() == np.searchsorted(np.sort(expert), np.arange(8)).tolist()
    assert order[place].tolist() == list(range(len(expert)))


@pytest.mark.parametrize("count", ["9", "?"])
@pytest.mark.parametrize(
    ("element", "shape", "top_k"), [("i8", (64, 32), 1), ("i8", (3, 5), 8), ("f32", (40,), 3)]
)
def test_take_rows(element, shape, top_k, count, tmp_path):
    random = np.random.default_rng(0)
    bytes_ = random.integers(-128, 128, (7, *shape, 4 if element == "f32" else 1), np.int8)
    x = bytes_.view(np.float32 if element == "f32" else np.int8)[..., 0]
    ids = random.integers(0, 7 * top_k, 9).astype(np.int32)
    extents = "x".join(map(str, shape))
    types = f"tensor<{count}xi32>", f"tensor<?x{extents}x{element}>"
    out = f"tensor<{count}x{extents}x{element}>"
    text = f"""
      func.func @take(%ids: {types[0]}, %x: {types[1]}) -> {out} {{
        %y = "llmc.take_rows"(%ids, %x) {{top_k = {top_k} : i64}}
           : ({", ".join(types)}) -> {out}
        return %y : {out}
      }}"""
    found = load(text, (), {}, tmp_path)("take")(ids, x).to_host()
    assert (found.view(np.int8) == np.ascontiguousarray(x[ids // top_k]).view(np.int8)).all()


def assert_added_up(found: np.ndarray, y: Tensor, weights: Tensor) -> None:
    """Sums of `y` by `weights`, of which each addition may round."""
    expected = torch_ops.combine_experts(y.double(), weights.double())
    size = torch_ops.combine_experts(y.double().abs(), weights.double())
    _, chosen = weights.shape
    assert ((torch.from_numpy(found) - expected).abs() <= chosen * 2.0**-24 * size).all()


@pytest.mark.parametrize("adds", [0, 1])
@pytest.mark.parametrize("rows", ["2", "?"])
@pytest.mark.parametrize(("chosen", "columns"), [(8, 1024), (2, 40), (1, 7)])
def test_combine_grouped_experts(chosen, columns, rows, adds, tmp_path):
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(2 * chosen, columns, generator=generator)
    weights = torch.rand(2, chosen, generator=generator)
    place = torch.randperm(2 * chosen, generator=generator)
    residual = torch.randn(2, columns, generator=generator)
    all_rows = "?" if rows == "?" else 2 * chosen
    types = (
        f"tensor<{all_rows}x{columns}xf32>",
        f"tensor<{all_rows}xi32>",
        f"tensor<{rows}x{chosen}xf32>",
    )
    out = f"tensor<{rows}x{columns}xf32>"
    operands, given = "%y, %p, %w" + ", %r" * adds, [*types, *[out] * adds]
    text = f"""
      func.func @combine(%y: {types[0]}, %p: {types[1]}, %w: {types[2]}, %r: {out}) -> {out} {{
        %sum = "llmc.combine_grouped_experts"({operands})
          {{operandSegmentSizes = array<i32: 1, 1, 1, {adds}>}} : ({", ".join(given)}) -> {out}
        return %sum : {out}
      }}"""
    run = load(text, (), {}, tmp_path)("combine")
    arguments = y, place.int(), weights, residual
    found = run(*(each.numpy() for each in arguments)).to_host()
    if not adds:
        assert_added_up(found, y[place], weights)
        return
    one = torch.ones(2, 1)  # a residual is one more row, of weight 1
    rows_of_each = torch.cat([y[place].view(2, chosen, -1), residual[:, None]], 1).flatten(0, 1)
    assert_added_up(found, rows_of_each, torch.cat([weights, one], 1))


@pytest.mark.parametrize(("chosen", "columns"), [(8, 1024), (2, 40), (1, 7)])
def test_combine_experts(chosen, columns, tmp_path):
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(2 * chosen, columns, generator=generator)
    weights = torch.rand(2, chosen, generator=generator)
    types = f"tensor<{2 * chosen}x{columns}xf32>", f"tensor<2x{chosen}xf32>"
    text = f"""
      func.func @combine(%y: {types[0]}, %w: {types[1]}) -> tensor<2x{columns}xf32> {{
        %sum = "llmc.combine_experts"(%y, %w) : ({", ".join(types)}) -> tensor<2x{columns}xf32>
        return %sum : tensor<2x{columns}xf32>
      }}"""
    found = load(text, (), {}, tmp_path)("combine")(y.numpy(), weights.numpy()).to_host()
    assert_added_up(found, y, weights)
