"""Chooses a schedule for the dispatches of a module for a GPU."""

from collections.abc import Iterator

from iree.compiler import ir

from llmc.pipelines.schedules.gpu_block_matvec import GPUBlockMatvec
from llmc.pipelines.schedules.gpu_chosen import GPUChosen
from llmc.pipelines.schedules.gpu_loops import loops_of
from llmc.pipelines.schedules.gpu_lowering import Kind
from llmc.pipelines.schedules.gpu_matvec import GPUMatvec
from llmc.pipelines.schedules.gpu_search import GPUSearch
from llmc.pipelines.targets.gpu_facts import GPUFacts


def schedule_dispatches(flow: ir.Module, kind: Kind, facts: GPUFacts) -> None:
    """Sets how IREE lowers the dispatches of `flow`, a module in its flow dialect.

    To be called once they are formed, and before IREE compiles them. What has no schedule of ours
    IREE lowers as it sees fit: it has tiles for tensor cores, for rows that are summed, and for
    what is computed element by element.
    """
    with flow.context, ir.Location.unknown():
        for executable in flow.body:
            if executable.operation.name == "flow.executable":
                generics = list(_generics(executable.operation))
                roots = [each for each in generics if any(loops_of(each).reduced)] or generics
                if roots:
                    _schedule(roots[-1], kind, facts)


def _schedule(root: ir.Operation, kind: Kind, facts: GPUFacts) -> None:
    """Sets the schedule of a dispatch by the last of its sums, if any, which IREE tiles first."""
    if alone := GPUSearch.choose(root, facts) or GPUChosen.choose(root, facts):
        alone.apply(root, kind)
    elif kind == "cuda" and (matvec := _choose_matvec(root, facts)):
        matvec.apply(root)


def _choose_matvec(root: ir.Operation, facts: GPUFacts) -> GPUMatvec | GPUBlockMatvec | None:
    return GPUMatvec.choose(root, facts) or GPUBlockMatvec.choose(root, facts)


def _generics(op: ir.Operation) -> Iterator[ir.Operation]:
    """The generic operations under `op`."""
    for region in op.regions:
        for block in region:
            for inner in block:
                if inner.operation.name == "linalg.generic":
                    yield inner.operation
                yield from _generics(inner.operation)
