"""The reference pages are what the code says today."""

from pathlib import Path

import pytest
from torch_mlir import ir

from llmc.pipelines.passes.apply_schedule import ApplySchedule
from llmc.pipelines.schedules.documentation import EXAMPLE
from llmc.pipelines.walks import find
from llmc.tools.docs import PAGES
from tests.scheduled import new_context

DOCS = Path(__file__).parent.parent / "docs"

_PRODUCT = """
func.func @kernel(%a: tensor<8x15xf32>, %b: tensor<15x32xf32>, %c: tensor<8x32xf32>)
    -> tensor<8x32xf32> {
  %y = linalg.matmul ins(%a, %b : tensor<8x15xf32>, tensor<15x32xf32>)
                     outs(%c : tensor<8x32xf32>) -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}
"""


@pytest.mark.parametrize("name", PAGES)
def test_page_is_current(name):
    written = (DOCS / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), f"docs/{name} is not what the code says: run `make docs`"


def test_the_example_of_a_schedule_runs(tmp_path):
    (tmp_path / "mine.py").write_text(EXAMPLE)
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(_PRODUCT)
        ApplySchedule(file=f"{tmp_path}/mine.py:outer_products{{rows=2}}").apply(module)
        vectors = find(module.operation, "vector.transfer_write")
        assert {str(write.operands[0].type) for write in vectors} == {"vector<2x16xf32>"}
        assert not find(module.operation, "linalg.matmul", "linalg.generic")
