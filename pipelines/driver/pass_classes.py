"""The names by which MLIR calls passes in its dumps: those of their C++ classes."""

import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from torch_mlir import ir
from torch_mlir.dialects import func
from torch_mlir.passmanager import PassManager

from llmc.pipelines.driver.execution import SinglePass
from llmc.pipelines.pipeline_syntax import ANY

_MODULE, _FUNCTION = "builtin.module", "func.func"


def class_name(single: SinglePass) -> str:
    """What a dump calls the pass; the name in pipelines where no more can be known."""
    if not isinstance(single.pass_, str):
        return type(single.pass_).__name__
    return _mlir_class_name(single.pass_, single.anchors[-1]) or single.name


@cache
def _mlir_class_name(text: str, anchor: str) -> str | None:
    """As MLIR spells it in a dump before the pass, here of an empty module or function.

    No binding tells it, and such a run takes a millisecond.
    """
    if anchor not in (_MODULE, _FUNCTION, ANY):
        return None
    silence = ir.Context.current.attach_diagnostic_handler(lambda _: True)
    with silence, tempfile.TemporaryDirectory() as directory, ir.Location.unknown():
        module = ir.Module.create()
        if anchor == _FUNCTION:
            with ir.InsertionPoint(module.body):
                func.FuncOp("empty", ([], []), visibility="private")
        manager = PassManager.parse(f"{anchor}({text})")
        manager.enable_ir_printing(
            print_before_all=True, print_after_all=False, tree_printing_dir_path=directory
        )
        with suppress(ir.MLIRError):
            manager.run(next(iter(module.body), module).operation)
        for file in Path(directory).rglob("*.mlir"):
            return file.read_text().partition(" Before ")[2].partition(":")[0]
    return None
