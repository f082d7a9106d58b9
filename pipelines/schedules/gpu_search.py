"""`gpu_search`: where in each column something is, found by a thread of its own."""

from dataclasses import dataclass

from iree.compiler import ir

from llmc.pipelines.schedules.gpu_loops import loops_of
from llmc.pipelines.schedules.gpu_lowering import Kind, set_lone_threads
from llmc.pipelines.targets.gpu_facts import GPUFacts


@dataclass(frozen=True)
class GPUSearch:
    """A workgroup of `threads` threads, each of which searches by itself.

    IREE 3.13 has no vectors of places: it shares such a search among threads on no device.
    """

    threads: int

    @classmethod
    def choose(cls, generic: ir.Operation, facts: GPUFacts) -> "GPUSearch | None":
        """Two subgroups, or one thread if all is one search; None where `generic` is none."""
        loops = loops_of(generic)
        is_place = isinstance(generic.results[0].type.element_type, ir.IntegerType)
        if not is_place or not any(loops.reduced):
            return None
        threads = min(2 * facts.subgroup_size, facts.workgroup_threads)
        return cls(1 if all(loops.reduced) else threads)

    def apply(self, generic: ir.Operation, kind: Kind) -> None:
        """Lets IREE lower `generic` so, the last loop that is no search going over threads."""
        set_lone_threads(generic, "gpu_search", self.threads, kind)
