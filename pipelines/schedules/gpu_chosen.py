"""`gpu_chosen`: what the kernel chooses as it runs, as rows of a table or matrices of experts."""

from dataclasses import dataclass

from iree.compiler import ir

from llmc.pipelines.schedules.gpu_loops import loops_of
from llmc.pipelines.schedules.gpu_lowering import Kind, set_lone_threads
from llmc.pipelines.targets.gpu_facts import GPUFacts


@dataclass(frozen=True)
class GPUChosen:
    """A workgroup of `threads` threads, each of which computes an output by itself.

    IREE 3.13 has no vectors of places in sums, nor among integers of less than a byte, and so none
    of what lies where another tensor says.
    """

    threads: int

    @classmethod
    def choose(cls, generic: ir.Operation, facts: GPUFacts) -> "GPUChosen | None":
        """Two subgroups; None where `generic` looks nothing up, or sums to a single number."""
        body, reduced = generic.regions[0].blocks[0], loops_of(generic).reduced
        found = [op.result.type for op in body if op.operation.name == "tensor.extract"]
        is_scalar = any(reduced) or any(_is_narrow(type_) for type_ in found)
        if not found or not is_scalar or all(reduced):
            return None
        return cls(min(2 * facts.subgroup_size, facts.workgroup_threads))

    def apply(self, generic: ir.Operation, kind: Kind) -> None:
        """Lets IREE lower `generic` so, the last loop that sums nothing going over threads."""
        set_lone_threads(generic, "gpu_chosen", self.threads, kind)


def _is_narrow(type_: ir.Type) -> bool:
    return isinstance(type_, ir.IntegerType) and type_.width < 8
