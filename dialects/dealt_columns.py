"""Which columns a KV cache has that is one of several among which columns are dealt out."""

from dataclasses import dataclass
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith

from llmc.dialects.checks import counts, require
from llmc.dialects.index_notation import index


@dataclass(frozen=True)
class DealtColumns:
    """Column c of the cache is column `first + step * c` of all; `first` is less than `step`."""

    first: int
    step: int

    @classmethod
    def of(cls, op: Any) -> "DealtColumns":
        """What the attributes `first` and `step` of `op` say."""
        return cls(op.first.value, op.step.value)

    def held(self, columns: ir.Value) -> ir.Value:
        """How many of the first `columns` of all the cache has."""
        behind = arith.addi(columns, index(self.step - 1 - self.first))
        return arith.divui(behind, index(self.step))

    def place(self, column: ir.Value) -> ir.Value:
        """Which of all columns is number `column` of the cache's."""
        return arith.addi(arith.muli(column, index(self.step)), index(self.first))


def verify_dealt(op: Any) -> None:
    """Checks the attributes `first` and `step`."""
    counts("step", op.step)
    counts("first", op.first, least=0)
    first, step = op.first.value, op.step.value
    require(first < step, f"must be less than 'step', {step}, but is {first}", "first")
