"""Runs a pipeline, ours and MLIR's passes alike, and lets observers look on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from llmc.pipelines.driver.bugs import described
from llmc.pipelines.errors import PassError
from llmc.pipelines.option_text import options_text
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.pipeline import Step
from llmc.pipelines.pipeline_syntax import ANY, Element, parse_elements
from llmc.runtime.errors import UserError

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
    def pipeline(self) -> str:
        """The pipeline of this pass alone, from the root."""
        return _within(self.anchors, self.text)

    @property
    def on_anchor(self) -> str:
        """What runs on the operation of the innermost anchor.

        `any` takes operations of all kinds, and so stays within the operation that holds them.
        """
        first = next((at for at, anchor in enumerate(self.anchors) if at and anchor == ANY), None)
        return self.text if first is None else _within(self.anchors[first:], self.text)


@dataclass(frozen=True)
class Nest:
    """Passes that run one after the other on each operation `anchor` before they do on the next."""

    anchor: str
    members: tuple["SinglePass | Nest", ...]


class Observer:
    """Looks on while a pipeline runs. The methods do nothing; a subclass overrides some.

    `op` is the operation that a pass runs on: the root or one below it.
    """

    def before(self, single: SinglePass, op: ir.Operation) -> None:
        """Before a pass."""

    def after(self, single: SinglePass, op: ir.Operation) -> None:
        """After a pass that succeeded."""

    def failed(self, single: SinglePass, op: ir.Operation) -> None:
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

    Where nobody looks on, MLIR runs its pipelines whole, on several threads. PassError or MLIRError
    at the first pass that fails, of which a diagnostic has said why; UserError where it raises
    that, or has a bug.
    """
    operation = root.operation
    if steps and anchor not in (operation.name, ANY):
        message = f"can't run '{anchor}' pass manager on '{operation.name}' op"
        operation.location.emit_error(message)
        raise PassError(message)
    with operation.context, ir.Location.unknown():
        if observers:
            _Observed(observers, verify_each).run(_tree(steps, anchor), root)
            return
        for step in _joined(steps):
            if isinstance(step, Pass):
                _apply(step, root, verify_each)
            else:
                _run_mlir(f"{anchor}({step})", operation, verify_each)


def describe(steps: Sequence[Step], anchor: str = "builtin.module") -> str:
    """The pipeline, each pass with all its options in a line of its own. Needs a context."""
    members = _tree(steps, anchor)
    return f"Pass Manager with {len(members)} passes:\n{_described(Nest(anchor, members), '')}"


def spelled(steps: Sequence[Step], anchor: str = "builtin.module") -> str:
    """The pipeline in one line, named pipelines taken apart. Needs a context."""
    return _spelled(Nest(anchor, _tree(steps, anchor)))


def _spelled(member: SinglePass | Nest) -> str:
    if isinstance(member, SinglePass):
        return member.on_anchor
    return f"{member.anchor}({','.join(map(_spelled, member.members))})"


def _described(member: SinglePass | Nest, indent: str) -> str:
    if isinstance(member, SinglePass):
        return f"{indent}{member.on_anchor}"
    inner = ",\n".join(_described(each, f"{indent}  ") for each in member.members)
    return f"{indent}{member.anchor}(\n{inner}\n{indent})"


def single_passes(steps: Sequence[Step], anchor: str = "builtin.module") -> Iterator[SinglePass]:
    """The passes of `steps` one by one, MLIR's own pipelines taken apart. Needs a context."""
    yield from _leaves(_tree(steps, anchor))


def _within(anchors: Sequence[str], text: str) -> str:
    for anchor in reversed(anchors):
        text = f"{anchor}({text})"
    return text


def _leaves(members: Sequence[SinglePass | Nest]) -> Iterator[SinglePass]:
    for member in members:
        if isinstance(member, Nest):
            yield from _leaves(member.members)
        else:
            yield member


def _joined(steps: Sequence[Step]) -> Iterator[Step]:
    """The steps with those of MLIR's that follow each other in one."""
    for is_ours, group in groupby(steps, key=lambda step: isinstance(step, Pass)):
        if is_ours:
            yield from group
        else:
            yield ",".join(map(str, group))


def _tree(steps: Sequence[Step], anchor: str) -> tuple[SinglePass | Nest, ...]:
    """The passes of `steps` in the nests in which they run. Needs a context."""
    tree: list[SinglePass | Nest] = []
    for step in _joined(steps):
        if isinstance(step, Pass):
            tree.append(SinglePass((anchor,), step))
        else:
            (whole,) = parse_elements(str(PassManager.parse(f"{anchor}({step})")))
            tree += _members(whole.nested or (), (anchor,))
    return tuple(tree)


def _members(elements: Sequence[Element], anchors: tuple[str, ...]) -> Iterator[SinglePass | Nest]:
    for element in elements:
        if element.nested is None:
            yield SinglePass(anchors, str(element))
            continue
        below = tuple(_members(element.nested, (*anchors, element.name)))
        # No binding tells which operations `any` takes: MLIR goes through them itself.
        if element.name == ANY:
            yield from _leaves(below)
        else:
            yield Nest(element.name, below)


@dataclass(frozen=True)
class _Observed:
    """Runs passes one by one, on one operation after the other as MLIR does."""

    observers: Sequence[Observer]
    verify_each: bool

    def run(self, members: Sequence[SinglePass | Nest], op: Root) -> None:
        for are_nests, group in groupby(members, key=lambda member: isinstance(member, Nest)):
            if are_nests:
                self._run_nests([member for member in group if isinstance(member, Nest)], op)
                continue
            for single in group:
                if isinstance(single, SinglePass):
                    self._run_single(single, op)

    def _run_nests(self, nests: Sequence[Nest], op: Root) -> None:
        """Runs nests that follow each other, on each operation all that are for it.

        One operation's failure does not keep the passes from those beside it.
        """
        failures: list[Exception] = []
        for inner in _children(op.operation):
            members = [
                m for nest in nests if nest.anchor == inner.operation.name for m in nest.members
            ]
            try:
                self.run(members, inner)
            except (PassError, ir.MLIRError) as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _run_single(self, single: SinglePass, op: Root) -> None:
        for observer in self.observers:
            observer.before(single, op.operation)
        try:
            if isinstance(single.pass_, Pass):
                _apply(single.pass_, op, self.verify_each)
            else:
                _run_mlir(
                    f"{op.operation.name}({single.on_anchor})", op.operation, self.verify_each
                )
        except Exception:
            for observer in self.observers:
                observer.failed(single, op.operation)
            raise
        for observer in self.observers:
            observer.after(single, op.operation)


def _children(op: ir.Operation) -> list[ir.OpView]:
    return [inner for region in op.regions for block in region for inner in block]


def _apply(pass_: Pass, root: Root, verify_each: bool) -> None:
    try:
        pass_.apply(root)
    except (PassError, ir.MLIRError, UserError, RecursionError):
        raise
    except Exception as error:
        raise UserError(f"pass '{pass_.name}' has a bug: {described(error)}") from error
    if verify_each:
        root.operation.verify()


def _run_mlir(pipeline: str, op: ir.Operation, verify_each: bool) -> None:
    manager = PassManager.parse(pipeline)
    manager.enable_verifier(verify_each)
    manager.run(op)
