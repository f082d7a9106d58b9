"""What observers see of a pipeline, and what becomes of passes that fail."""

from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from torch_mlir import ir

from llmc import dialects
from llmc.pipelines.driver.execution import Observer, SinglePass, run
from llmc.pipelines.driver.reproducer import Reproducer, stored
from llmc.pipelines.passes.base import Pass
from llmc.runtime.errors import UserError

_MODULE = """\
func.func @a() -> tensor<4xf32> {
  %x = torch.operator "torch.unknown"() : () -> !torch.vtensor<[4],f32>
  %y = torch_c.to_builtin_tensor %x : !torch.vtensor<[4],f32> -> tensor<4xf32>
  return %y : tensor<4xf32>
}
module @inner {
  func.func @b() { return }
}
func.func @c() -> tensor<4xf32> {
  %x = torch.operator "torch.unknown"() : () -> !torch.vtensor<[4],f32>
  %y = torch_c.to_builtin_tensor %x : !torch.vtensor<[4],f32> -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


@dataclass
class Log(Observer):
    """The names of passes and of what they ran on."""

    lines: list[str] = field(default_factory=list)

    def after(self, single: SinglePass, op: ir.Operation) -> None:
        """Called after a pass."""
        self.lines.append(f"{single.name} {_name(op)}")

    def failed(self, single: SinglePass, op: ir.Operation) -> None:
        """Called instead where it failed."""
        self.lines.append(f"{single.name} {_name(op)} failed")


def _name(op: ir.Operation) -> str:
    return op.attributes["sym_name"].value if "sym_name" in op.attributes else "root"


@dataclass(frozen=True)
class Buggy(Pass):
    """A pass with a bug."""

    name: ClassVar[str] = "buggy"

    def apply(self, module: ir.Module) -> None:
        """Fails."""
        raise KeyError("a key")


@pytest.fixture
def module() -> ir.Module:
    context = ir.Context()
    dialects.load(context)
    context.attach_diagnostic_handler(lambda _: True)
    return ir.Module.parse(_MODULE, context)


def test_nested_passes_finish_one_operation_before_they_begin_the_next(module):
    log = Log()
    run(["func.func(canonicalize,cse)", "builtin.module(cse)", "cse"], module, observers=[log])
    assert log.lines == [
        "canonicalize a",
        "cse a",
        "cse inner",
        "canonicalize c",
        "cse c",
        "cse root",
    ]


def test_a_failure_on_one_function_does_not_hide_that_on_another(module):
    log = Log()
    with pytest.raises(ir.MLIRError):
        run(
            ["func.func(cse,torch-finalizing-backend-type-conversion,sccp)"],
            module,
            observers=[log],
        )
    assert log.lines == [
        "cse a",
        "torch-finalizing-backend-type-conversion a failed",
        "cse c",
        "torch-finalizing-backend-type-conversion c failed",
    ]


def test_observed_or_not_the_result_is_the_same(module):
    steps = ["func.func(canonicalize,cse)", "any(cse)", "builtin.module(symbol-dce)"]
    text = str(module)
    run(steps, module)
    again = ir.Module.parse(text, module.context)
    run(steps, again, observers=[Observer()])
    assert str(again) == str(module)


def test_a_bug_in_a_pass_is_told_in_a_line_and_reproduced(module, tmp_path):
    reproducer = Reproducer(tmp_path / "again.mlir")
    with pytest.raises(UserError, match=r"^pass 'buggy' has a bug: KeyError: 'a key' \(.*:\d+\)$"):
        run(["cse", Buggy()], module, observers=[reproducer])
    kept = stored((tmp_path / "again.mlir").read_text(), "again.mlir")
    assert kept.pipeline == "builtin.module(buggy)"
    assert kept.verify_each


def test_a_reproducer_says_whether_to_verify(module, tmp_path):
    with pytest.raises(UserError):
        reproducer = Reproducer(tmp_path / "again.mlir", verify_each=False)
        run([Buggy()], module, observers=[reproducer], verify_each=False)
    assert not stored((tmp_path / "again.mlir").read_text(), "again.mlir").verify_each
