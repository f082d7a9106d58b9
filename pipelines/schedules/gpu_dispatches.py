"""Chooses a schedule for the dispatches of a module for a GPU."""

from collections.abc import Iterator

from iree.compiler import ir

from llmc.pipelines.schedules.gpu_block_matvec import GPUBlockMatvec
from llmc.pipelines.schedules.gpu_chosen import GPUChosen
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
                sums = list(_sums(executable.operation))
                if sums:
                    _schedule(sums[-1], kind, facts)


def _schedule(root: ir.Operation, kind: Kind, facts: GPUFacts) -> None:
    """Sets the schedule of a dispatch by the last of its sums, which IREE tiles first."""
    if alone := GPUSearch.choose(root, facts) or GPUChosen.choose(root, facts):
        alone.apply(root, kind)
    elif kind == "cuda" and (matvec := _choose_matvec(root, facts)):
        matvec.apply(root)


def _choose_matvec(root: ir.Operation, facts: GPUFacts) -> GPUMatvec | GPUBlockMatvec | None:
    return GPUMatvec.choose(root, facts) or GPUBlockMatvec.choose(root, facts)


def _sums(op: ir.Operation) -> Iterator[ir.Operation]:
    """The generic operations under `op` that sum up, or otherwise fold, something."""
    for region in op.regions:
        for block in region:
            for inner in block:
                kinds = inner.operation.attributes.get("iterator_types", ())
                if inner.operation.name == "linalg.generic" and "reduction" in str(kinds):
                    yield inner.operation
                yield from _sums(inner.operation)
