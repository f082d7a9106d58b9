"""Rotary tables in the archive hold what the module computed before, however weights are stored."""

import numpy as np
import pytest
import torch

from llmc.pipelines.passes.bind_parameters import BindParameters
from llmc.pipelines.passes.fold_rotary_tables import FoldRotaryTables
from llmc.pipelines.passes.lower_llmc import LowerLlmc
from tests.arrays import assert_same
from tests.compiled import load

POSITIONS = 2048
TABLE = """
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#column = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#row = affine_map<(d0, d1, d2) -> (d2)>
#parallel = ["parallel", "parallel", "parallel"]
func.func @table(%positions: tensor<2x3xi64>) -> tensor<2x3x8xf32> {
  %scale = arith.constant 1.25 : f64
  %f = "llmc.parameter"() {sources = ["inv_freq"]} : () -> tensor<4xf32>
  %p = tensor.expand_shape %positions [[0], [1, 2]] output_shape [2, 3, 1]
     : tensor<2x3xi64> into tensor<2x3x1xi64>
  %room1 = tensor.empty() : tensor<2x3x1xf32>
  %x = linalg.generic {indexing_maps = [#id, #id], iterator_types = #parallel}
      ins(%p : tensor<2x3x1xi64>) outs(%room1 : tensor<2x3x1xf32>) {
  ^bb0(%in: i64, %out: f32):
    %0 = arith.sitofp %in : i64 to f32
    linalg.yield %0 : f32
  } -> tensor<2x3x1xf32>
  %room4 = tensor.empty() : tensor<2x3x4xf32>
  %angles = linalg.generic {indexing_maps = [#column, #row, #id], iterator_types = #parallel}
      ins(%x, %f : tensor<2x3x1xf32>, tensor<4xf32>) outs(%room4 : tensor<2x3x4xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<2x3x4xf32>
  %both = tensor.concat dim(2) %angles, %angles
        : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x8xf32>
  %room8 = tensor.empty() : tensor<2x3x8xf32>
  %values = linalg.generic {indexing_maps = [#id, #id], iterator_types = #parallel}
      ins(%both : tensor<2x3x8xf32>) outs(%room8 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.FUNCTION %in : f32
    linalg.yield %0 : f32
  } -> tensor<2x3x8xf32>
  %scaled = linalg.generic {indexing_maps = [#id, #id], iterator_types = #parallel}
      ins(%values : tensor<2x3x8xf32>) outs(%room8 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.truncf %scale : f64 to f32
    %1 = arith.mulf %in, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x3x8xf32>
  return %scaled : tensor<2x3x8xf32>
}"""


@pytest.mark.parametrize("function", ["cos", "sin"])
@pytest.mark.parametrize("storage", ["f32", "f16"])
def test_a_table_holds_what_was_computed(function, storage, tmp_path):
    frequencies = 1 / 10000 ** (torch.arange(4) / 4)
    fold = FoldRotaryTables(positions=POSITIONS)
    steps = (fold, BindParameters(storage=storage), LowerLlmc(), "canonicalize,cse")
    text = TABLE.replace("FUNCTION", function)
    run = load(text, steps, {"inv_freq": frequencies}, tmp_path)("table")
    in_float32 = POSITIONS * 8 * 4
    assert (tmp_path / "params.irpa").stat().st_size > in_float32
    positions = np.array([[0, 1, 2], [77, 1000, POSITIONS - 1]])
    angles = (torch.from_numpy(positions)[..., None] * frequencies).repeat(1, 1, 2)
    expected = getattr(torch, function)(angles) * 1.25
    assert_same(run(positions).to_host(), expected.numpy(), 1e-6)
