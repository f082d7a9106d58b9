"""Chooses a schedule for the dispatches of a module for a GPU."""

from iree.compiler import ir

from llmc.pipelines.schedules.gpu_block_matvec import GPUBlockMatvec
from llmc.pipelines.schedules.gpu_chosen import GPUChosen
from llmc.pipelines.schedules.gpu_loops import loops_of
from llmc.pipelines.schedules.gpu_lowering import Kind
from llmc.pipelines.schedules.gpu_matvec import GPUMatvec
from llmc.pipelines.schedules.gpu_search import GPUSearch
from llmc.pipelines.targets.gpu_facts import GPUFacts
from llmc.pipelines.walks import find


def schedule_dispatches(flow: ir.Module, kind: Kind, facts: GPUFacts) -> None:
    """Sets how IREE lowers the dispatches of `flow`, a module in its flow dialect.

    To be called once they are formed, and before IREE compiles them. What has no schedule of ours
    IREE lowers as it sees fit: it has tiles for tensor cores, for rows that are summed, and for
    what is computed element by element.
    """
    executables = [op.operation for op in flow.body if op.operation.name == "flow.executable"]
    with flow.context, ir.Location.unknown():
        for root in filter(None, map(_root, executables)):
            _schedule(root, kind, facts)


def _root(executable: ir.Operation) -> ir.Operation | None:
    """The last sum of a dispatch, which IREE tiles first, or its last `linalg.generic`, if any."""
    generics = find(executable, "linalg.generic")
    sums = [each for each in generics if any(loops_of(each).reduced)]
    return next(reversed(sums or generics), None)


def _schedule(root: ir.Operation, kind: Kind, facts: GPUFacts) -> None:
    """Sets the schedule of a dispatch by its `root`."""
    if alone := GPUSearch.choose(root, facts) or GPUChosen.choose(root, facts):
        alone.apply(root, kind)
    elif kind == "cuda" and (matvec := _choose_matvec(root, facts)):
        matvec.apply(root)


def _choose_matvec(root: ir.Operation, facts: GPUFacts) -> GPUMatvec | GPUBlockMatvec | None:
    return GPUMatvec.choose(root, facts) or GPUBlockMatvec.choose(root, facts)
