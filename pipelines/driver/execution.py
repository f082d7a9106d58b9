"""Runs a pipeline pass by pass, ours and MLIR's alike, and lets observers look on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from llmc.pipelines.option_text import options_text
from llmc.pipelines.passes.base import Pass, PassError
from llmc.pipelines.pipeline import Step
from llmc.pipelines.pipeline_syntax import Element, parse_elements

Root: TypeAlias = "ir.Module | ir.OpView"


@dataclass(frozen=True)
class SinglePass:
    """One pass of a pipeline and the anchors down to it, the root's own first.

    `pass_` is a pass of ours, or the text of one of MLIR's with its options.
    """

    anchors: tuple[str, ...]
    pass_: Pass | str

    @property
    def name(self) -> str:
        """What a pipeline calls it."""
        return self.pass_.partition("{")[0] if isinstance(self.pass_, str) else self.pass_.name

    @property
    def text(self) -> str:
        """The pass with its options, as a pipeline spells it."""
        if isinstance(self.pass_, str):
            return self.pass_
        return f"{self.pass_.name}{options_text(self.pass_)}"

    @property
    def below_root(self) -> str:
        """The pass within its anchors but the root's."""
        text = self.text
        for anchor in reversed(self.anchors[1:]):
            text = f"{anchor}({text})"
        return text

    @property
    def pipeline(self) -> str:
        """The pipeline of this pass alone."""
        return f"{self.anchors[0]}({self.below_root})"


class Observer:
    """Looks on while a pipeline runs. The methods do nothing; a subclass overrides some."""

    def configure(self, single: SinglePass, manager: PassManager) -> None:
        """Before a pass of MLIR's, with the pass manager that will run it."""

    def before(self, single: SinglePass, root: Root) -> None:
        """Before any pass."""

    def after(self, single: SinglePass, root: Root) -> None:
        """After a pass that succeeded."""

    def failed(self, single: SinglePass, root: Root) -> None:
        """After a pass that failed, or left invalid IR behind."""


def run(
    steps: Sequence[Step],
    root: Root,
    *,
    anchor: str = "builtin.module",
    observers: Sequence[Observer] = (),
    verify_each: bool = True,
) -> None:
    """Runs `steps` on `root`, an operation of the name `anchor`, in place.

    PassError or MLIRError at the first pass that fails; a diagnostic has said why.
    """
    operation = root.operation
    if steps and anchor not in (operation.name, "any"):
        message = f"can't run '{anchor}' pass manager on '{operation.name}' op"
        operation.location.emit_error(message)
        raise PassError(message)
    with operation.context, ir.Location.unknown():
        for single in single_passes(steps, anchor):
            for observer in observers:
                observer.before(single, root)
            try:
                _run_one(single, root, observers, verify_each)
            except (PassError, ir.MLIRError):
                for observer in observers:
                    observer.failed(single, root)
                raise
            for observer in observers:
                observer.after(single, root)


def single_passes(steps: Sequence[Step], anchor: str = "builtin.module") -> Iterator[SinglePass]:
    """The passes of `steps` one by one, MLIR's own pipelines taken apart. Needs a context."""
    for step in steps:
        if isinstance(step, Pass):
            yield SinglePass((anchor,), step)
        else:
            manager = PassManager.parse(f"{anchor}({step})")
            yield from _leaves(parse_elements(str(manager)), ())


def _leaves(elements: Sequence[Element], anchors: tuple[str, ...]) -> Iterator[SinglePass]:
    for element in elements:
        if element.nested is None:
            yield SinglePass(anchors, str(element))
        else:
            yield from _leaves(element.nested, (*anchors, element.name))


def _run_one(
    single: SinglePass, root: Root, observers: Sequence[Observer], verify_each: bool
) -> None:
    if isinstance(single.pass_, Pass):
        single.pass_.apply(root)
        if verify_each:
            root.operation.verify()
        return
    manager = PassManager.parse(single.pipeline)
    manager.enable_verifier(verify_each)
    for observer in observers:
        observer.configure(single, manager)
    manager.run(root.operation)
