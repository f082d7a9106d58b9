"""Finds where a text uses a custom form that its operation does not have.

MLIR's parser gives up there without a word: operations that are defined in Python have none.
"""

import re

from torch_mlir import ir

from llmc.dialects import OPERATIONS
from llmc.pipelines.driver.diagnostics import Source

# Attributes have names too, but a value or another one follows.
_TOKEN = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"|[!#@%^]?[\w.$-]+(?:\s*[=,}])?')


def refuse_custom_form(source: Source, context: ir.Context) -> bool:
    """Emits an error at the first such use; False where there is none."""
    for token in _TOKEN.finditer(source.text):
        if token[0] in OPERATIONS:
            before = source.text[: token.start()]
            line, start = before.count("\n") + 1, before.rfind("\n") + 1
            column = len(before[start:].encode()) + 1
            ir.Location.file(source.name, line, column, context).emit_error(
                f"'{token[0]}' has no custom form: it is written \"{token[0]}\"(...) : (...) -> ..."
            )
            return True
    return False
