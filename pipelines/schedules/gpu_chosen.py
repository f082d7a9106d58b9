"""`gpu_chosen`: products with matrices that the kernel chooses as it runs, as those of experts."""

from dataclasses import dataclass

from iree.compiler import ir

from llmc.pipelines.schedules.gpu_loops import loops_of
from llmc.pipelines.schedules.gpu_lowering import Kind, set_lone_threads
from llmc.pipelines.targets.gpu_facts import GPUFacts


@dataclass(frozen=True)
class GPUChosen:
    """A workgroup of `threads` threads, each of which sums an output by itself.

    IREE 3.13 has no vectors of places, and so none of what lies where another tensor says.
    """

    threads: int

    @classmethod
    def choose(cls, generic: ir.Operation, facts: GPUFacts) -> "GPUChosen | None":
        """Two subgroups; None where `generic` looks nothing up, or sums to a single number."""
        body = generic.regions[0].blocks[0]
        looks_up = any(op.operation.name == "tensor.extract" for op in body)
        if not looks_up or all(loops_of(generic).reduced):
            return None
        return cls(min(2 * facts.subgroup_size, facts.workgroup_threads))

    def apply(self, generic: ir.Operation, kind: Kind) -> None:
        """Lets IREE lower `generic` so, the last loop that sums nothing going over threads."""
        set_lone_threads(generic, "gpu_chosen", self.threads, kind)
