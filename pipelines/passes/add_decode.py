"""`add-decode`: makes the step of one sequence of that of several."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.specialize_tokens import SpecializeTokens
from llmc.pipelines.rewriting.layers import trunks
from llmc.runtime.abi import DECODE, DECODE_BATCH


@dataclass(frozen=True)
class AddDecode(Pass):
    """Adds `decode`, a copy of `decode_batch` for one sequence, with the layers that it calls.

    To export it, too, would take as long as for either other variant. A module that has a `decode`
    of its own, or no `decode_batch`, stays as it is.
    """

    name: ClassVar[str] = "add-decode"

    def apply(self, module: ir.Module) -> None:
        """Adds the copy before the function."""
        names = {trunk.sym_name.value for trunk in trunks(module)}
        if DECODE_BATCH in names and DECODE not in names:
            copy = SpecializeTokens(function=DECODE_BATCH, tokens=0, batch=1, copy=DECODE)
            copy.apply(module)
