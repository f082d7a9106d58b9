"""The best token, found in two steps, is numpy's."""

import numpy as np
import pytest
from torch_mlir import ir

from llmc import dialects
from llmc.dialects import ArgmaxOp
from llmc.pipelines.driver.execution import run
from llmc.pipelines.passes.split_argmax import SplitArgmax
from tests.interpreter import Machine
from tests.test_argmax_kernel import rows_of

_BEST = """\
func.func @best(%x: tensor<?x{0}xf32>) -> tensor<?xi64> {{
  %best = "llmc.argmax"(%x) : (tensor<?x{0}xf32>) -> tensor<?xi64>
  return %best : tensor<?xi64>
}}"""


@pytest.mark.parametrize(("width", "columns"), [(24, 4), (21, 4), (30, 16)])
def test_best_is_numpys(width, columns):
    context = ir.Context()
    dialects.load(context)
    module = ir.Module.parse(_BEST.format(width), context)
    run((SplitArgmax(columns=columns),), module)
    assert "llmc.argmax" not in str(module)
    rows = rows_of(width)
    (best,) = Machine(module, {}).call("best", rows)
    np.testing.assert_array_equal(best, ArgmaxOp.reference(rows))
