"""`lower-llmc`: replaces llmc operations by what they mean in linalg."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import tensor

from llmc.dialects import OPERATIONS
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.call_kernels import has_kernel
from llmc.pipelines.walks import walk

_LOWERED = {name: op for name, op in OPERATIONS.items() if hasattr(op, "lower")}


@dataclass(frozen=True)
class LowerLlmc(Pass):
    """Lowers every llmc operation that has a lowering, as its class defines it.

    `ops` lists those to lower, without the dialect's name; empty, it stands for all. `keep_kernels`
    leaves those that `call-kernels` replaces. Changes numerics by rounding alone: a lowering's
    constants are of the element type, and its sums in an order of their own.
    """

    name: ClassVar[str] = "lower-llmc"
    keep_kernels: bool = False
    ops: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = [name.removeprefix("llmc.") for name in _LOWERED]
        for name in self.ops:
            if name not in known:
                raise ValueError(f"ops has '{name}', but must be of {', '.join(known)}")

    def apply(self, module: ir.Module) -> None:
        """Rewrites operation by operation, in order."""
        chosen = {f"llmc.{name}" for name in self.ops} or _LOWERED.keys()
        for op in [op for op in walk(module.operation) if op.name in chosen]:
            if not (self.keep_kernels and has_kernel(op)):
                lower(op)


def lower(op: ir.Operation) -> None:
    """Puts what `op` means in its place."""
    with ir.InsertionPoint(op), op.location:
        meaning = op.opview.lower()
        values = meaning if isinstance(meaning, list) else [meaning]
        for old, new in zip(op.results, values, strict=True):
            if new.type != old.type:  # in what is dynamic
                new = tensor.cast(old.type, new)
            old.replace_all_uses_with(new)
    op.erase()
