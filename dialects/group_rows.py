"""`llmc.group_rows`: sorts rows by the expert that each has chosen."""

from typing import Any

from torch_mlir.dialects import ext

from llmc.dialects.checks import integers, require, same, static, tensor_of, verified
from llmc.dialects.llmc import Operation


class GroupRowsOp(Operation, name="group_rows", traits=[ext.Pure]):
    """The rows that chose expert e are `order[first[e]]` to `order[first[e + 1] - 1]`, ascending.

    `expert` holds numbers less than E, the length of `first` less one.

        %order, %first = "llmc.group_rows"(%expert)
                       : (tensor<?xi64>) -> (tensor<?xi32>, tensor<17xi32>)
    """

    expert: ext.Operand[Any]
    order: ext.Result[Any]
    first: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks lengths and element types."""
        rows = tensor_of(self.expert, "expert", 1)[0]
        integers("expert", self.expert)
        same("order", "its length", tensor_of(self.order, "order", 1)[0], rows)
        tensor_of(self.first, "first", 1)
        static("first", self.first)
        for name, value in (("order", self.order), ("first", self.first)):
            require(str(value.type.element_type) == "i32", f"result '{name}' must hold i32")
