"""A recipe computes what the operations it stands for compute, and is read with distrust."""

from pathlib import Path

import iree.runtime as rt
import numpy as np
import pytest
import torch
from torch_mlir import ir

from llmc import dialects
from llmc.pipelines.driver.execution import run
from llmc.pipelines.parameters import StoredParameter, stored_parameters, write_archive
from llmc.pipelines.passes.lower_llmc import LowerLlmc
from llmc.pipelines.recipes.recipe import Weight, read_recipe, recipe_of
from llmc.pipelines.walks import find
from llmc.runtime.errors import UserError
from tests.cpu_code import compile_for_cpu

# Operations on weights and the type of what they give.
EXPRESSIONS = {
    "concat": (
        {"a": "2x5", "b": "3x5"},
        "%r = tensor.concat dim(0) %a, %b : (tensor<2x5xf32>, tensor<3x5xf32>) -> tensor<5x5xf32>",
    ),
    "concat_columns": (
        {"a": "4x2", "b": "4x3"},
        "%r = tensor.concat dim(1) %a, %b : (tensor<4x2xf32>, tensor<4x3xf32>) -> tensor<4x5xf32>",
    ),
    "slice": (
        {"a": "4x6"},
        """%r = tensor.extract_slice %a[1, 2] [2, 3] [1, 1]
           : tensor<4x6xf32> to tensor<2x3xf32>""",
    ),
    "slice_of_slice": (
        {"a": "4x6"},
        """%s = tensor.extract_slice %a[1, 0] [3, 6] [1, 1] : tensor<4x6xf32> to tensor<3x6xf32>
        %r = tensor.extract_slice %s[1, 2] [2, 3] [1, 1]
           : tensor<3x6xf32> to tensor<2x3xf32>""",
    ),
    "transpose": (
        {"a": "2x3x4"},
        """%o = tensor.empty() : tensor<4x2x3xf32>
        %r = linalg.transpose ins(%a : tensor<2x3x4xf32>) outs(%o : tensor<4x2x3xf32>)
           permutation = [2, 0, 1]""",
    ),
    "pack": (
        {"a": "10x6"},
        """%o = tensor.empty() : tensor<3x6x4xf32>
        %r = linalg.pack %a padding_value(%zero : f32) inner_dims_pos = [0] inner_tiles = [4]
           into %o : tensor<10x6xf32> -> tensor<3x6x4xf32>""",
    ),
    "pack_transposed_experts": (
        {"a": "2x6x8"},
        """%o = tensor.empty() : tensor<2x2x6x4xf32>
        %r = linalg.pack %a outer_dims_perm = [0, 2, 1] inner_dims_pos = [2] inner_tiles = [4]
           into %o : tensor<2x6x8xf32> -> tensor<2x2x6x4xf32>""",
    ),
    "pack_both_ways": (
        {"a": "10x7"},
        """%o = tensor.empty() : tensor<3x3x3x4xf32>
        %r = linalg.pack %a padding_value(%zero : f32) outer_dims_perm = [1, 0]
           inner_dims_pos = [1, 0] inner_tiles = [3, 4] into %o
           : tensor<10x7xf32> -> tensor<3x3x3x4xf32>""",
    ),
    "scale_columns": (
        {"a": "3x4x5", "b": "5"},
        """%r = "llmc.scale_columns"(%a, %b) {offset = 0.5}
           : (tensor<3x4x5xf32>, tensor<5xf32>) -> tensor<3x4x5xf32>""",
    ),
    "high_half": (
        {"a": "3x4"},
        """%n = arith.truncf %a : tensor<3x4xf32> to tensor<3x4xf16>
        %r = "llmc.split_float"(%n) {part = "high"} : (tensor<3x4xf16>) -> tensor<3x4xi8>""",
    ),
    "low_half": (
        {"a": "3x4"},
        """%r = "llmc.split_float"(%a) {part = "low"} : (tensor<3x4xf32>) -> tensor<3x4xi16>""",
    ),
    "repeat_rows": (
        {"a": "3x4"},
        """%r = "llmc.repeat_rows"(%a) : (tensor<3x4xf32>) -> tensor<5x4xf32>""",
    ),
    "nested": (
        {"a": "4x6", "b": "6x5", "c": "6"},
        """%o = tensor.empty() : tensor<5x6xf32>
        %t = linalg.transpose ins(%b : tensor<6x5xf32>) outs(%o : tensor<5x6xf32>)
           permutation = [1, 0]
        %ab = tensor.concat dim(0) %a, %t : (tensor<4x6xf32>, tensor<5x6xf32>) -> tensor<9x6xf32>
        %s = "llmc.scale_columns"(%ab, %c) {offset = 1.0}
           : (tensor<9x6xf32>, tensor<6xf32>) -> tensor<9x6xf32>
        %p = tensor.empty() : tensor<3x6x4xf32>
        %r = linalg.pack %s padding_value(%zero : f32) inner_dims_pos = [0] inner_tiles = [4]
           into %p : tensor<9x6xf32> -> tensor<3x6x4xf32>""",
    ),
}


@pytest.fixture
def context():
    context = ir.Context()
    dialects.load(context)
    with context, ir.Location.unknown():
        yield context


def function(shapes: dict[str, str], body: str, weights: bool) -> ir.Module:
    """A function of `shapes`, or one that reads weights of these names and shapes."""
    given = "".join(
        f'%{name} = "llmc.parameter"() {{sources = ["{name}"]}} : () -> tensor<{shape}xf32>\n'
        for name, shape in shapes.items()
    )
    arguments = ", ".join(f"%{name}: tensor<{shape}xf32>" for name, shape in shapes.items())
    result = body[body.rindex("tensor<") :].split(" permutation")[0].strip()
    result = result[: result.index(">") + 1]
    return ir.Module.parse(
        f"""func.func @f({"" if weights else arguments}) -> {result} {{
          {given if weights else ""} %zero = arith.constant 0.0 : f32
          {body}
          return %r : {result}
        }}"""
    )


def run_by_iree(module: ir.Module, operands: list[np.ndarray]) -> np.ndarray:
    run((LowerLlmc(), "canonicalize"), module)
    code = compile_for_cpu(module)
    system = rt.SystemContext(config=rt.Config("local-sync"))
    system.add_vm_module(rt.VmModule.copy_buffer(system.instance, code))
    return system.modules.module["f"](*operands).to_host()


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_recipe_computes_what_its_operations_do(name, context):
    shapes, body = EXPRESSIONS[name]
    generator = np.random.default_rng(0)
    weights = {
        weight: generator.standard_normal([int(size) for size in shape.split("x")], np.float32)
        for weight, shape in shapes.items()
    }
    expected = run_by_iree(function(shapes, body, weights=False), list(weights.values()))
    module = function(shapes, body, weights=True)
    (end,) = find(module.operation, "func.return")
    recipe = recipe_of(end.operands[0])

    def weight(name, part=None):
        return weights[name] if part is None else part.compute(weights[name])

    np.testing.assert_array_equal(recipe.compute(weight, 0, {}), expected)
    assert read_recipe(recipe.attribute()) == recipe


def stored(recipe: str, type_: str = "tensor<6x4xf32>") -> list[StoredParameter]:
    """What a file asks for that has one global."""
    text = f"""ml_program.global private @w(#ml_program.extern : {type_}) : {type_}
      {{llmc.recipe = {recipe}}}"""
    return stored_parameters(ir.Module.parse(text))


WRONG = {
    "a word": '"w"',
    "no names": "[]",
    "numbers": "[1]",
    "no operation": '{operands = [["a"]]}',
    "unknown operation": '{op = "tensor.pad", operands = [["a"]]}',
    "no operands": '{op = "tensor.concat", dim = 0 : i64}',
    "an empty list of operands": '{op = "tensor.concat", dim = 0 : i64, operands = []}',
    "operands that are none": '{op = "tensor.concat", dim = 0 : i64, operands = ["a"]}',
    "too many operands": '{op = "linalg.transpose", operands = [["a"], ["a"]],'
    " permutation = array<i64: 1, 0>}",
    "weights of one layer and of two": '{op = "tensor.concat", dim = 0 : i64,'
    ' operands = [["a"], ["a", "b"]]}',
    "a field that is missing": '{op = "tensor.concat", operands = [["a"]]}',
    "a field of another kind": '{op = "tensor.concat", dim = 0.0, operands = [["a"]]}',
    "a part that floats have not": '{op = "llmc.split_float", operands = [["a"]], part = "top"}',
    "a part that blocks have not": '{op = "llmc.pack_planes", operands = [["a"]],'
    ' columns = 4 : i64, part = "middle"}',
}


@pytest.mark.parametrize("recipe", WRONG.values(), ids=WRONG)
def test_what_is_no_recipe_is_refused_in_one_line(recipe, context):
    with pytest.raises(UserError, match="'w'") as refusal:
        stored(recipe)
    assert "\n" not in str(refusal.value)


MISFITS = {
    "a weight that the model has not": '["c"]',
    "another shape": '["b"]',
    "a dimension that is none": '{op = "tensor.concat", dim = 2 : i64, operands = [["a"], ["a"]]}',
    "parts that do not fit": '{op = "tensor.concat", dim = 0 : i64, operands = [["a"], ["b"]]}',
    "no permutation": '{op = "linalg.transpose", operands = [["a"]],'
    " permutation = array<i64: 0, 0>}",
    "tiles of nothing": '{op = "linalg.pack", operands = [["a"]], inner_dims_pos = array<i64: 0>,'
    " inner_tiles = array<i64: 0>, outer_dims_perm = array<i64: 0, 1>}",
    "tiles beyond all memory": '{op = "linalg.pack", operands = [["a"]],'
    " inner_dims_pos = array<i64: 0>, inner_tiles = array<i64: 1000000000000>,"
    " outer_dims_perm = array<i64: 0, 1>}",
    "a part beyond its end": '{op = "tensor.extract_slice", operands = [["a"]],'
    " offsets = array<i64: 2, 0>, sizes = array<i64: 6, 4>}",
    "a part longer than the whole": '{op = "tensor.extract_slice", operands = [["a"]],'
    " offsets = array<i64: 0, 0>, sizes = array<i64: 9, 4>}",
    "a part of more dimensions": '{op = "tensor.extract_slice", operands = [["b"]],'
    " offsets = array<i64: 0, 0>, sizes = array<i64: 6, 4>}",
    "bit planes of floats": '{op = "llmc.pack_planes", operands = [["a"]],'
    ' columns = 4 : i64, part = "high"}',
    "rows that are more than twice as many": '{op = "llmc.repeat_rows", operands = [["a"]],'
    " rows = 13 : i64}",
    "fewer rows": '{op = "llmc.repeat_rows", operands = [["a"]], rows = 5 : i64}',
    "a metric of one row": '{op = "llmc.rough_metric", operands = [["b"]]}',
    "bounds by another metric": '{op = "llmc.rough_spread", operands = [["a"], ["b"]]}',
    "parts of integers": '{op = "llmc.split_float", part = "high", operands = ['
    '{op = "llmc.split_float", part = "high", operands = [["a"]]}]}',
    "a scale of another length": '{op = "llmc.scale_columns", operands = [["a"], ["b"]],'
    " offset = 0.0 : f64}",
}


@pytest.mark.parametrize("recipe", MISFITS.values(), ids=MISFITS)
def test_weights_that_do_not_fit_are_refused_in_one_line(recipe, context, tmp_path):
    weights = {"a": torch.zeros(6, 4), "b": torch.zeros(5)}
    with pytest.raises(UserError, match="'w'") as refusal:
        write_archive(stored(recipe), weights, tmp_path / "params.irpa")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("type_", ["tensor<6x4xi1>", "tensor<6x4xcomplex<f32>>", "f32"])
def test_a_type_that_no_entry_has_is_refused(type_, context):
    with pytest.raises(UserError, match="'w' must hold"):
        stored('["a"]', type_)


def entry(path: Path, name: str) -> np.ndarray:
    """The bytes of an entry of an archive."""
    index = rt.ParameterIndex()
    index.load(str(path))
    return np.array(dict(index.items())[name].file_view)


def test_layers_are_stacked_in_the_type_of_their_global(context, tmp_path):
    types = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64}
    weights = {
        "0.m": torch.randn(4, 3),
        "1.m": torch.randn(4, 3).bfloat16(),
        "v": torch.randn(5).half(),
        "ids": torch.arange(6).reshape(2, 3),
    }
    entries = [
        *(StoredParameter(f"m.{t}", Weight(("0.m", "1.m")), (2, 4, 3), t) for t in types),
        StoredParameter("v", Weight(("v",)), (5,), "f32"),
        StoredParameter("one_layer", Weight(("v",)), (1, 5), "f16"),
        StoredParameter("ids", Weight(("ids",)), (2, 3), "i64"),
    ]
    write_archive(entries, weights, tmp_path / "params.irpa")
    expected = {
        **{
            f"m.{name}": torch.stack([weights["0.m"], weights["1.m"].float()]).to(type_)
            for name, type_ in types.items()
        },
        "v": weights["v"].float(),
        "one_layer": weights["v"],
        "ids": weights["ids"],
    }
    for name, values in expected.items():
        held = entry(tmp_path / "params.irpa", name)
        np.testing.assert_array_equal(held, values.flatten().view(torch.uint8).numpy())
