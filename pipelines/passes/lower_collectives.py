"""`lower-collectives`: collectives become calls that the runtime answers."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, func, linalg, tensor

from llmc.dialects.index_notation import Size, collapse, expand, sizes
from llmc.pipelines.passes.base import Pass, find

MODULE = "collective"
_DYNAMIC = ir.ShapedType.get_dynamic_size()


@dataclass(frozen=True)
class LowerCollectives(Pass):
    """Turns `shard.all_reduce`, `all_gather` and so on into calls of the module `collective`.

    A call takes and returns the elements in their order, and the grid's axes as the bits of a
    number. It is an import of the compiled module, which `llmc.runtime.ranks` answers. The grid
    goes.

        %y = call @collective.all_reduce(%x, %axes) : (tensor<?xf32>, i32) -> tensor<?xf32>
    """

    name: ClassVar[str] = "lower-collectives"

    def apply(self, module: ir.Module) -> None:
        """Lowers every collective, and declares what is called."""
        for name, lower in _LOWERINGS.items():
            for op in find(module.operation, f"shard.{name}"):
                with ir.InsertionPoint(op), op.location:
                    values = lower(module, op)
                for old, new in zip(op.results, values, strict=True):
                    old.replace_all_uses_with(new)
                op.erase()
        for op in find(module.operation, "shard.grid"):
            op.erase()


def _all_reduce(module: ir.Module, op: ir.Operation) -> list[ir.Value]:
    (x,) = op.operands
    return [_in_shape(_call(module, "all_reduce", op, [_flat(x)]), sizes(x))]


def _all_gather(module: ir.Module, op: ir.Operation) -> list[ir.Value]:
    """The pieces come one after another: they are to stand side by side in a dimension."""
    (x,) = op.operands
    dim = op.opview.gather_axis.value
    extents, result = sizes(x), op.results[0].type
    ranks = result.shape[dim] // x.type.shape[dim]
    pieces = _in_shape(_call(module, "all_gather", op, [_flat(x)]), [ranks, *extents])
    order = [*range(1, dim + 1), 0, *range(dim + 1, len(extents) + 1)]
    if any(extent != 1 for extent in extents[:dim]):
        room = tensor.empty([[ranks, *extents][at] for at in order], result.element_type)
        pieces = linalg.transpose(pieces, outs=[room], permutation=order).results[0]
        return [collapse(pieces, [1] * dim + [2] + [1] * (len(extents) - dim - 1))]
    flat = _flat(pieces)
    whole: list[Size] = [*extents]
    whole[dim] = result.shape[dim]
    return [_in_shape(flat, whole)]


_LOWERINGS: dict[str, Callable[[ir.Module, ir.Operation], list[ir.Value]]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
}


def _call(module: ir.Module, name: str, op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
    """What the function `name` of the runtime returns for `operands` and the axes of `op`."""
    i32 = ir.IntegerType.get_signless(32)
    axes = str(op.attributes["grid_axes"]).partition(":")[2].rstrip(">").split(",")
    mask = sum(1 << int(axis) for axis in axes if axis.strip())
    operands = [*operands, arith.ConstantOp(i32, mask).result]
    element = op.operands[0].type.element_type
    result = ir.RankedTensorType.get([_DYNAMIC], element)
    symbol = f"{MODULE}.{name}"
    _declare(module, symbol, [operand.type for operand in operands], [result])
    return func.CallOp([result], symbol, operands).results[0]


def _declare(
    module: ir.Module, symbol: str, operands: list[ir.Type], results: list[ir.Type]
) -> None:
    known = {op.sym_name.value for op in module.body if isinstance(op, func.FuncOp)}
    if symbol not in known:
        with ir.InsertionPoint.at_block_begin(module.body), ir.Location.unknown():
            func.FuncOp(symbol, (operands, results), visibility="private")


def _flat(value: ir.Value) -> ir.Value:
    """The elements of `value` in one dimension, of a size that the type does not say."""
    if value.type.rank != 1:
        value = collapse(value, [value.type.rank])
    return tensor.cast(ir.RankedTensorType.get([_DYNAMIC], value.type.element_type), value)


def _in_shape(flat: ir.Value, extents: list[Size]) -> ir.Value:
    """The elements of `flat` as a tensor of these extents."""
    static = [extent for extent in extents if isinstance(extent, int)]
    if len(static) == len(extents):
        flat = tensor.cast(ir.RankedTensorType.get([prod(static)], flat.type.element_type), flat)
    return flat if len(extents) == 1 else expand(flat, [extents])
