"""`llmc.take_rows`: rows of a tensor of any numbers, in another order or several times."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext
from torch_mlir.extras import types as T

from llmc.dialects.checks import (
    counts,
    integers,
    numbers,
    same_element,
    shaped,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.embedding import look_up
from llmc.dialects.index_notation import index, pointwise
from llmc.dialects.llmc import Operation


class TakeRowsOp(Operation, name="take_rows", traits=[ext.Pure]):
    """The rows of `x [T, ...]` that `ids [R]` name, `[R, ...]`.

    A row of x is there for `top_k` ids that follow each other, all less than `T * top_k`: row r of
    the result is `x[ids[r] / top_k]`. Rows hold any numbers.

        %y = "llmc.take_rows"(%ids, %x) {top_k = 1 : i64}
           : (tensor<?xi32>, tensor<?x64x32xi8>) -> tensor<?x64x32xi8>
    """

    ids: ext.Operand[Any]
    x: ext.Operand[Any]
    top_k: ir.IntegerAttr
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that ids are integers and rows are numbers, and the extents of these."""
        (count,) = tensor_of(self.ids, "ids", 1)
        integers("ids", self.ids)
        counts("top_k", self.top_k)
        _, *row = tensor_of(self.x, "x", at_least=2)
        numbers("x", self.x)
        for dim in range(1, len(row) + 1):
            static("x", self.x, dim)
        shaped("out", self.out, [count, *row])
        same_element("out", self.out, self.x)

    @staticmethod
    def reference(ids: np.ndarray, x: np.ndarray, top_k: int = 1) -> np.ndarray:
        """`ids [R]`, `x [T, ...]` -> `[R, ...]`."""
        return x[ids.astype(np.int64) // top_k]

    def lower(self) -> ir.Value:
        """A gather, number by number."""

        def row_of(number: ir.Value, _: ir.Value) -> ir.Value:
            # As an index: ids may be of fewer bits than `top_k` needs.
            whole = arith.index_cast(T.index(), number)
            return arith.index_cast(number.type, arith.divui(whole, index(self.top_k.value)))

        return look_up(pointwise("r->r", row_of, self.ids), self.x)
