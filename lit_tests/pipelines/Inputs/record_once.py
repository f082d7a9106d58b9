"""Prints a module in IREE's HAL dialect after `record_once` for `decode`."""

import sys
from pathlib import Path

from iree.compiler import ir

from llmc.pipelines.replay import record_once

for text in Path(sys.argv[1]).read_text().split("// -----"):
    module = ir.Module.parse(text, ir.Context())
    record_once(module, "decode")
    module.operation.verify()
    print(module)
