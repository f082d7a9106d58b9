"""`llmc.group_rows`: sorts rows by the expert that each has chosen."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext
from torch_mlir.extras import types as T

from llmc.dialects.checks import element_is, filled, integers, same, static, tensor_of, verified
from llmc.dialects.index_notation import loop_index, reduce, size
from llmc.dialects.llmc import Operation


class GroupRowsOp(Operation, name="group_rows", traits=[ext.Pure]):
    """The rows that chose expert e are `order[first[e]]` to `order[first[e + 1] - 1]`, ascending.

    `expert` holds numbers less than E, the length of `first` less one. Row r stands at `place[r]`
    of `order`.

        %order, %first, %place = "llmc.group_rows"(%expert)
          : (tensor<?xi64>) -> (tensor<?xi32>, tensor<17xi32>, tensor<?xi32>)
    """

    expert: ext.Operand[Any]
    order: ext.Result[Any]
    first: ext.Result[Any]
    place: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks lengths and element types."""
        rows = tensor_of(self.expert, "expert", 1)[0]
        integers("expert", self.expert)
        tensor_of(self.first, "first", 1)
        static("first", self.first)
        filled("first", self.first)
        element_is("first", self.first, "i32")
        for name, value in (("order", self.order), ("place", self.place)):
            same(name, "its length", tensor_of(value, name, 1)[0], rows)
            element_is(name, value, "i32")

    @staticmethod
    def reference(expert: np.ndarray, experts: int) -> tuple[np.ndarray, ...]:
        """`expert [R]` -> int32 `[R]`, `[E + 1]`, `[R]`, `experts` being E."""
        order = np.argsort(expert, kind="stable")
        first = np.searchsorted(expert[order], np.arange(experts + 1))
        return order.astype(np.int32), first.astype(np.int32), np.argsort(order).astype(np.int32)

    def lower(self) -> list[ir.Value]:
        """Counts of smaller numbers: before each group, and before each row, whose place it is.

        Every row is compared with every other: the kernel counts instead.
        """
        index_type, i32 = T.index(), T.i32()
        smaller, equal = arith.CmpIPredicate.slt, arith.CmpIPredicate.eq

        def count_below(expert: ir.Value, sum_: ir.Value) -> ir.Value:
            expert = arith.index_cast(index_type, expert)
            return add_if(arith.cmpi(smaller, expert, loop_index(0)), sum_)

        def count_before(expert: ir.Value, other: ir.Value, sum_: ir.Value) -> ir.Value:
            earlier = arith.cmpi(smaller, loop_index(1), loop_index(0))
            same_group = arith.andi(earlier, arith.cmpi(equal, other, expert))
            return add_if(arith.ori(arith.cmpi(smaller, other, expert), same_group), sum_)

        groups = self.first.type.shape[0]
        first = reduce("r->e", count_below, 0, self.expert, element=i32, e=groups)
        place = reduce("r,s->r", count_before, 0, self.expert, self.expert, element=i32)
        return [inverse(place), first, place]


def check_groups(op: Any) -> None:
    """Checks that `first` has a number for each matrix of `weight [E, ...]`, and one more."""
    experts = tensor_of(op.weight, "weight")[0]
    same("first", "its length", tensor_of(op.first, "first", 1)[0], experts + 1)
    integers("first", op.first)


def expert_of_rows(first: np.ndarray) -> np.ndarray:
    """The group of each row, where that of expert e are `first[e]` to `first[e + 1] - 1`."""
    return np.repeat(np.arange(len(first) - 1), np.diff(first))


def find_experts(op: Any) -> ir.Value:
    """The group of each row of `op.x`: how many begin there or before, but for one."""
    i64 = T.i64()

    def count(first: ir.Value, sum_: ir.Value) -> ir.Value:
        first = arith.index_cast(T.index(), first)
        return add_if(arith.cmpi(arith.CmpIPredicate.sle, first, loop_index(0)), sum_)

    return reduce("e->r", count, -1, op.first, element=i64, r=size(op.x, 0))


def inverse(order: ir.Value) -> ir.Value:
    """The inverse of the permutation `order [R]` of 0 to R - 1."""

    def find(value: ir.Value, found: ir.Value) -> ir.Value:
        value = arith.index_cast(T.index(), value)
        is_it = arith.cmpi(arith.CmpIPredicate.eq, value, loop_index(0))
        return arith.select(is_it, arith.index_cast(found.type, loop_index(1)), found)

    return reduce("r->p", find, 0, order, p=size(order, 0))


def add_if(condition: ir.Value, sum_: ir.Value) -> ir.Value:
    """`sum_`, and one more where the condition holds."""
    return arith.addi(sum_, arith.extui(sum_.type, condition))
