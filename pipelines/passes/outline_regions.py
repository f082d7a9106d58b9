"""`outline-regions`: makes kernels of what is computed between other kernels."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from llmc.pipelines.kernels.marks import KIND
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.dispatch_chain import is_view
from llmc.pipelines.rewriting.functions import LOAD, functions, loads_constant
from llmc.pipelines.rewriting.kernel_functions import KernelFunctions
from llmc.pipelines.rewriting.kernel_operands import KernelOperands
from llmc.pipelines.rewriting.operations import needed_for
from llmc.pipelines.rewriting.regions import Region, regions

REGION, REGIONS = "region", "regions"


@dataclass(frozen=True)
class OutlineRegions(Pass):
    """Turns what else is computed of small tensors into calls of kernels, as few as can be.

    A `region` is all that can be computed between the same two kernels: of latent attention, say,
    how a part of each head is turned and put beside the rest; or all that a step does before its
    layers, which is to look its token up and to compute tables of positions. Of several sequences
    `regions` is the same for each. Of layers that are nothing but kernels `persist-layers` makes
    one. Kernels that a region waits for run before it.
    """

    name: ClassVar[str] = "outline-regions"

    def apply(self, module: ir.Module) -> None:
        """Outlines region by region."""
        kernels = KernelFunctions(module)
        for function in functions(module):
            if KIND not in function.attributes:
                for region in regions(function.entry_block):
                    _outline(region, kernels)


def _outline(region: Region, kernels: KernelFunctions) -> None:
    """Replaces the results of a region by those of a kernel."""
    leaves, results, first = region.leaves, region.results, region.first_user
    if not _can_move_up(leaves, first):
        return
    _move_up(leaves, first)
    with ir.InsertionPoint(first), region.ops[0].location:
        operands = KernelOperands()
        readers = {leaf: operands.read(leaf) for leaf in leaves}

        def build(*arguments: ir.Value) -> list[ir.Value]:
            return region.build({leaf: read(arguments) for leaf, read in readers.items()})

        kind = REGIONS if region.is_of_rows else REGION
        made = kernels.call(kind, operands.values, build)
    for old, new in zip(results, made, strict=True):
        old.replace_all_uses_with(new)
        _move_views(new, first)
    region.erase()


def _can_move_up(values: list[ir.Value], before: ir.Operation) -> bool:
    """Whether what `values` need from an operation on can be before it.

    That is no global that may be written meanwhile, be it by a function that is called.
    """
    ops = [op.operation for op in before.block]
    needed = needed_for(values, ops[ops.index(before) :])
    return all(loads_constant(op) for op in needed if op.name == LOAD)


def _move_views(value: ir.Value, before: ir.Operation) -> None:
    """Moves views of `value` to an operation that follows it."""
    for use in value.uses:
        user = use.owner.operation
        if is_view(user):
            _move_up(list(user.operands), before)
            user.move_before(before)
            _move_views(user.results[0], before)


def _move_up(values: list[ir.Value], before: ir.Operation) -> None:
    """Has `values` computed before an operation that, by itself, none of them needs."""
    ops = [op.operation for op in before.block]
    for op in needed_for(values, ops[ops.index(before) :]):
        op.move_before(before)
