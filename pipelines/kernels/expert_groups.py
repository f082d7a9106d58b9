"""Limits a choice of experts to some of the groups that they are cut into."""

from functools import reduce
from math import inf

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf
from torch_mlir.extras import types as T

from llmc.dialects import ScoredRouteOp
from llmc.dialects.group_rows import add_if
from llmc.dialects.index_notation import constant, index
from llmc.dialects.top_k import goes_before


def leave_out_groups(op: ScoredRouteOp, sums: ir.Value) -> None:
    """Makes less than any number of those in `sums [1, E]` that are of groups which do not count.

    A group counts where fewer than `kept_groups` of them go before it.
    """
    groups, each = op.groups.value, sums.type.shape[1] // op.groups.value
    totals = memref.alloca(ir.MemRefType.get([groups], sums.type.element_type), [], [])
    for group in scf.for_(index(0), index(groups), index(1)):
        first = arith.muli(group, index(each))
        memref.store(_sum_of_best(sums, first, each, op.best.value), totals, [group])
        scf.yield_([])
    kept = constant(op.kept_groups.value, T.i64())
    for group in scf.for_(index(0), index(groups), index(1)):
        is_out = arith.cmpi(arith.CmpIPredicate.uge, _rank(totals, group), kept)
        with ir.InsertionPoint(scf.IfOp(is_out).then_block):
            first = arith.muli(group, index(each))
            for place in scf.for_(first, arith.addi(first, index(each)), index(1)):
                memref.store(constant(-inf, sums.type.element_type), sums, [index(0), place])
                scf.yield_([])
            scf.yield_([])
        scf.yield_([])


def _sum_of_best(sums: ir.Value, first: ir.Value, each: int, best: int) -> ir.Value:
    """The sum of the `best` largest of the `each` numbers from `first` on."""
    end, lowest = arith.addi(first, index(each)), constant(-inf, sums.type.element_type)
    loop = scf.ForOp(first, end, index(1), [lowest] * best)
    with ir.InsertionPoint(loop.body):
        number = memref.load(sums, [index(0), loop.induction_variable])
        largest = []
        for before in loop.inner_iter_args:
            largest.append(arith.maximumf(before, number))
            number = arith.minimumf(before, number)
        scf.yield_(largest)
    return reduce(arith.addf, loop.results)


def _rank(totals: ir.Value, group: ir.Value) -> ir.Value:
    """How many groups go before one: those of a larger total, and earlier ones of the same."""
    (groups,) = totals.type.shape
    own = memref.load(totals, [group])
    loop = scf.ForOp(index(0), index(groups), index(1), [constant(0, T.i64())])
    with ir.InsertionPoint(loop.body):
        other = memref.load(totals, [loop.induction_variable])
        is_before = goes_before(other, loop.induction_variable, own, group)
        scf.yield_([add_if(is_before, loop.inner_iter_args[0])])
    return loop.result
