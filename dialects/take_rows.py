"""`llmc.take_rows`: rows of a tensor of any numbers, in another order or several times."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.checks import integers, same_element, shaped, static, tensor_of, verified
from llmc.dialects.embedding import look_up
from llmc.dialects.llmc import Operation


class TakeRowsOp(Operation, name="take_rows", traits=[ext.Pure]):
    """The rows of `x [T, ...]` that `ids [R]` name, `[R, ...]`.

    The ids are less than T. Rows hold any numbers.

        %y = "llmc.take_rows"(%ids, %x)
           : (tensor<?xi32>, tensor<?x64x32xi8>) -> tensor<?x64x32xi8>
    """

    ids: ext.Operand[Any]
    x: ext.Operand[Any]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that ids are integers, and extents and element types of rows."""
        (count,) = tensor_of(self.ids, "ids", 1)
        integers("ids", self.ids)
        _, *row = tensor_of(self.x, "x", at_least=2)
        for dim in range(1, len(row) + 1):
            static("x", self.x, dim)
        shaped("out", self.out, [count, *row])
        same_element("out", self.out, self.x)

    @staticmethod
    def reference(ids: np.ndarray, x: np.ndarray) -> np.ndarray:
        """`ids [R]`, `x [T, ...]` -> `[R, ...]`."""
        return x[ids]

    def lower(self) -> ir.Value:
        """A gather, number by number."""
        return look_up(self.ids, self.x)
