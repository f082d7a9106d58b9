"""Passes that rewrite weights leave a function's results as they were, to the error of a sum."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from llmc.pipelines.passes import PASSES
from llmc.pipelines.passes.bind_parameters import BindParameters
from llmc.pipelines.passes.lower_llmc import LowerLlmc
from tests.compiled import load


@dataclass(frozen=True)
class Program:
    """A function `f` of tensors over weights, in text, by the passes that should change it."""

    passes: tuple[str, ...]
    inputs: dict[str, tuple[int, ...]]
    weights: dict[str, tuple[int, ...]]
    body: str
    result: str
    ids: tuple[int, ...] = field(default=())

    @property
    def text(self) -> str:
        arguments = [f"%{name}: tensor<{_dims(shape)}f32>" for name, shape in self.inputs.items()]
        if self.ids:
            arguments.append(f"%ids: tensor<{len(self.ids)}xi64>")
        parameters = "".join(
            f'%{name} = "llmc.parameter"() {{sources = ["{name}"]}} : () -> '
            f"tensor<{_dims(shape)}f32>\n"
            for name, shape in self.weights.items()
        )
        return f"""func.func @f({", ".join(arguments)}) -> {self.result} {{
          {parameters} {self.body}
          return %result : {self.result}
        }}"""


def _dims(shape: tuple[int, ...]) -> str:
    return "".join(f"{size}x" for size in shape)


def linear(out: str, x: str, weight: str, types: str, bias: str = "", transposed: int = 0) -> str:
    operands = ", ".join(filter(None, (x, weight, bias)))
    return f"""{out} = "llmc.linear"({operands}) {{operandSegmentSizes =
      array<i32: 1, 1, {int(bool(bias))}>, transposed = {transposed} : i64}} : {types}\n"""


def product(out: str, a: str, b: str, type_: str) -> str:
    same = "affine_map<(d0, d1) -> (d0, d1)>"
    return f"""%room = tensor.empty() : {type_}
      {out} = linalg.generic {{indexing_maps = [{same}, {same}, {same}],
        iterator_types = ["parallel", "parallel"]}}
        ins({a}, {b} : {type_}, {type_}) outs(%room : {type_}) {{
      ^bb0(%x0: f32, %y0: f32, %o0: f32):
        %m = arith.mulf %x0, %y0 : f32
        linalg.yield %m : f32
      }} -> {type_}\n"""


_QUERY = "(tensor<5x6xf32>, tensor<8x6xf32>, tensor<8xf32>) -> tensor<5x8xf32>"
_KEY = "(tensor<5x6xf32>, tensor<4x6xf32>, tensor<4xf32>) -> tensor<5x4xf32>"
_HEAD = "tensor<1x1x5x4xf32>"
ATTENTION = Program(
    passes=("fuse-qkv", "fold-norm-weights", "pack-weights"),
    inputs={"x": (5, 6)},
    weights={
        **{"n": (6,), "wq": (8, 6), "bq": (8,), "wk": (4, 6), "bk": (4,)},
        **{"wv": (4, 6), "bv": (4,)},
    },
    body=f"""
      %y = "llmc.rms_norm"(%x, %n) {{operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5,
        offset = 1.0}} : (tensor<5x6xf32>, tensor<6xf32>) -> tensor<5x6xf32>
      {linear("%q", "%y", "%wq", _QUERY, "%bq")}
      {linear("%k", "%y", "%wk", _KEY, "%bk")}
      {linear("%v", "%y", "%wv", _KEY, "%bv")}
      %q4 = tensor.expand_shape %q [[0, 1], [2, 3]] output_shape [1, 5, 2, 4]
        : tensor<5x8xf32> into tensor<1x5x2x4xf32>
      %qroom = tensor.empty() : tensor<1x2x5x4xf32>
      %qt = linalg.transpose ins(%q4 : tensor<1x5x2x4xf32>) outs(%qroom : tensor<1x2x5x4xf32>)
        permutation = [0, 2, 1, 3]
      %k4 = tensor.expand_shape %k [[0, 1, 2], [3]] output_shape [1, 1, 5, 4]
        : tensor<5x4xf32> into {_HEAD}
      %v4 = tensor.expand_shape %v [[0, 1, 2], [3]] output_shape [1, 1, 5, 4]
        : tensor<5x4xf32> into {_HEAD}
      %result = "llmc.attention"(%qt, %k4, %v4) {{operandSegmentSizes =
        array<i32: 1, 1, 1, 0, 0>, scale = 0.5, window = 0 : i64, softcap = 0.0}}
        : (tensor<1x2x5x4xf32>, {_HEAD}, {_HEAD}) -> tensor<1x2x5x4xf32>""",
    result="tensor<1x2x5x4xf32>",
)
_STORED = "(tensor<5x6xf32>, tensor<6x9xf32>) -> tensor<5x9xf32>"
MLP = Program(
    passes=("fuse-gate-up", "fold-transposes", "pack-weights"),
    inputs={"x": (5, 6)},
    weights={"wg": (6, 9), "wu": (6, 9)},
    body=f"""
      {linear("%g", "%x", "%wg", _STORED, transposed=1)}
      {linear("%u", "%x", "%wu", _STORED, transposed=1)}
      %a = math.tanh %g : tensor<5x9xf32>
      {product("%result", "%a", "%u", "tensor<5x9xf32>")}""",
    result="tensor<5x9xf32>",
)
_CHOSEN = "(tensor<2x6xf32>, tensor<4xi64>, tensor<3x9x6xf32>) -> tensor<4x9xf32>"
EXPERTS = Program(
    passes=("fuse-gate-up", "fold-norm-weights", "pack-weights"),
    inputs={"x": (2, 6)},
    ids=(2, 0, 1, 2),
    weights={"n": (6,), "wg": (3, 9, 6), "wu": (3, 9, 6)},
    body=f"""
      %y = "llmc.rms_norm"(%x, %n) {{operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5,
        offset = 0.0}} : (tensor<2x6xf32>, tensor<6xf32>) -> tensor<2x6xf32>
      %g = "llmc.expert_linear"(%y, %ids, %wg) {{top_k = 2 : i64, transposed = 0 : i64}}
        : {_CHOSEN}
      %u = "llmc.expert_linear"(%y, %ids, %wu) {{top_k = 2 : i64, transposed = 0 : i64}}
        : {_CHOSEN}
      {product("%result", "%g", "%u", "tensor<4x9xf32>")}""",
    result="tensor<4x9xf32>",
)
TIED = Program(
    passes=("pack-weights",),
    inputs={"x": (5, 6)},
    ids=(2, 0, 8, 2, 1),
    weights={"w": (9, 6)},
    body=f"""
      %e = "llmc.embedding"(%ids, %w) : (tensor<5xi64>, tensor<9x6xf32>) -> tensor<5x6xf32>
      {product("%xe", "%x", "%e", "tensor<5x6xf32>")}
      {linear("%result", "%xe", "%w", "(tensor<5x6xf32>, tensor<9x6xf32>) -> tensor<5x9xf32>")}""",
    result="tensor<5x9xf32>",
)
PROGRAMS = {"attention": ATTENTION, "mlp": MLP, "experts": EXPERTS, "tied": TIED}


def results(program: Program, passes: tuple[str, ...], folder: Path) -> np.ndarray:
    folder.mkdir()
    random = partial(torch.randn, generator=torch.Generator().manual_seed(0))
    inputs = [random(shape).numpy() for shape in program.inputs.values()]
    weights = {name: random(shape) for name, shape in program.weights.items()}
    if program.ids:
        inputs.append(np.array(program.ids))
    steps = (*(PASSES[name]() for name in passes), BindParameters())
    steps = (*steps, LowerLlmc(keep_kernels=True), "canonicalize,cse")
    return load(program.text, steps, weights, folder)("f")(*inputs).to_host()


@pytest.fixture(scope="module", params=PROGRAMS.values(), ids=PROGRAMS)
def program(request):
    return request.param


@pytest.fixture(scope="module")
def expected(program, tmp_path_factory):
    return results(program, (), tmp_path_factory.mktemp("as_it_is") / "bundle")


def test_passes_one_by_one(program, expected, tmp_path):
    for name in program.passes:
        found = results(program, (name,), tmp_path / name)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=name)


def test_passes_in_any_order(program, expected, tmp_path):
    for passes in {program.passes, program.passes[::-1]}:
        found = results(program, passes, tmp_path / passes[0])
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=str(passes))
