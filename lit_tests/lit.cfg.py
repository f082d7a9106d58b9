"""How lit runs the FileCheck tests: `lit lit_tests`, or one folder or file of them."""

# ruff: noqa: F821 (lit puts `config` there)

import sys
from pathlib import Path

import lit.formats

config.name = "llmc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["Inputs"]
config.test_source_root = str(Path(__file__).parent)
config.test_exec_root = str(Path(__file__).parent.parent / "build" / "lit")

# llmc-opt and filecheck are beside the interpreter that runs lit.
tools = Path(sys.executable).parent
config.environment["PATH"] = f"{tools}:{config.environment['PATH']}"
