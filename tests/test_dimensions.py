"""What is said of the sizes of llmc operations fits the operations' own examples."""

import pytest
from torch_mlir import ir

from llmc import dialects
from llmc.dialects import OPERATIONS
from llmc.dialects.dimensions import dimensions
from llmc.pipelines.walks import find
from tests.test_verifiers import CELL_FORMS, Generic, example_text

CONTEXT = ir.Context()
dialects.load(CONTEXT)


@pytest.mark.parametrize("op", OPERATIONS.values(), ids=OPERATIONS)
def test_one_letter_is_one_size(op):
    assert_one_letter_is_one_size(example_text(op), op.OPERATION_NAME)


@pytest.mark.parametrize("form", CELL_FORMS, ids=lambda form: form.name)
def test_one_letter_is_one_size_where_caches_hold_cells(form: Generic):
    assert_one_letter_is_one_size(form.module, form.name)


def assert_one_letter_is_one_size(text: str, name: str) -> None:
    module = ir.Module.parse(text, CONTEXT)
    (parsed,) = find(module.operation, name)
    operands, results = dimensions(parsed.opview)
    sizes: dict[str, int] = {}
    if operands:
        values = [*parsed.operands, *parsed.results]
        for letters, value in zip([*operands, *results], values, strict=True):
            is_tensor = isinstance(value.type, ir.RankedTensorType)
            shape = list(value.type.shape) if is_tensor else []
            assert len(letters) == len(shape)
            for letter, size in zip(letters, shape, strict=True):
                assert letter == "." or sizes.setdefault(letter, size) == size
