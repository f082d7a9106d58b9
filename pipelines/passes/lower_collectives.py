"""`lower-collectives`: collectives become calls that the runtime answers."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, func, linalg, tensor
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import Size, as_value, collapse, expand, index, sizes
from llmc.pipelines.errors import fail
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import callee
from llmc.pipelines.rewriting.operations import ancestor_in
from llmc.pipelines.sharding.annotations import remove_unused_grid
from llmc.pipelines.sharding.collectives import (
    STARTED,
    axes_of,
    check_sum,
    count_parts,
    place_in,
    side_by_side,
)
from llmc.pipelines.walks import find

MODULE = "collective"
_START = "start_"
_DYNAMIC = ir.ShapedType.get_dynamic_size()


@dataclass(frozen=True)
class LowerCollectives(Pass):
    """Turns `shard.all_reduce`, `all_gather` and so on into calls of the module `collective`.

    A call takes and returns the elements in their order, and the grid's axes as the bits of a
    number. It is an import of the compiled module, which `llmc.runtime.ranks` answers. A grid
    that nothing names any more goes.

        %y = call @collective.all_reduce(%x, %axes) : (tensor<?xf32>, i32) -> tensor<?xf32>

    One that is `llmc.started` becomes two calls, the second just before its result is read. It also
    takes what is computed between the two, which IREE would compute later if nothing needed it.

        %number = call @collective.start_all_reduce(%x, %axes) : (tensor<?xf32>, i32) -> i32
        %y = call @collective.finish(%number) : (i32) -> tensor<?xf32>
        %y = call @collective.finish_after(%z, %number) : (tensor<?xf32>, i32) -> tensor<?xf32>
    """

    name: ClassVar[str] = "lower-collectives"

    def apply(self, module: ir.Module) -> None:
        """Lowers every collective, and declares what is called. PassError where one cannot be."""
        calls = _Calls(module)
        for op in find(module.operation, *_LOWERINGS):
            _check_type(op)
            with ir.InsertionPoint(op), op.location:
                values = _LOWERINGS[op.name](calls, op)
            if STARTED in op.attributes:
                _put_off_end(op, calls)
            for old, new in zip(op.results, values, strict=True):
                old.replace_all_uses_with(new)
            op.erase()
        remove_unused_grid(module)


def _check_type(op: ir.Operation) -> None:
    """PassError for what the runtime's functions do not move from rank to rank."""
    type_ = op.operands[0].type
    if not isinstance(type_.element_type, ir.F32Type) or type_.rank == 0:
        fail(op, "between CPUs only tensors of f32 can be moved, and no scalars")


def _all_reduce(calls: "_Calls", op: ir.Operation) -> list[ir.Value]:
    check_sum(op)
    (x,) = op.operands
    return [_in_shape(calls.returned("all_reduce", op, [_flat(x)]), sizes(x))]


def _all_gather(calls: "_Calls", op: ir.Operation) -> list[ir.Value]:
    """The pieces come one after another: they are to stand side by side in a dimension."""
    (x,) = op.operands
    dim = op.opview.gather_axis.value
    ranks = count_parts(op, op.results[0], x, dim)
    extents = sizes(x)
    pieces = _in_shape(calls.returned("all_gather", op, [_flat(x)]), [ranks, *extents])
    if any(extent != 1 for extent in extents[:dim]):
        return [side_by_side(pieces, dim)]
    whole: list[Size] = [*extents]
    whole[dim] = op.results[0].type.shape[dim]
    return [_in_shape(_flat(pieces), whole)]


def _reduce_scatter(calls: "_Calls", op: ir.Operation) -> list[ir.Value]:
    """The parts stand side by side in a dimension: they are to come one after another."""
    check_sum(op)
    (x,) = op.operands
    dim = op.opview.scatter_dim.value
    ranks = count_parts(op, x, op.results[0], dim)
    extents, each = sizes(x), op.results[0].type.shape[dim]
    if any(extent != 1 for extent in extents[:dim]):
        split = [[ranks, each] if at == dim else [extent] for at, extent in enumerate(extents)]
        order = [dim, *range(dim), *range(dim + 1, len(extents) + 1)]
        flat_extents = [extent for group in split for extent in group]
        room = tensor.empty([flat_extents[at] for at in order], x.type.element_type)
        x = linalg.transpose(expand(x, split), outs=[room], permutation=order).results[0]
    part: list[Size] = [*extents]
    part[dim] = each
    return [_in_shape(calls.returned("reduce_scatter", op, [_flat(x)]), part)]


def _shift(calls: "_Calls", op: ir.Operation) -> list[ir.Value]:
    if not op.opview.rotate:
        fail(op, "a shift that does not rotate leaves ranks without a value: add 'rotate'")
    if axes_of(op) != [op.opview.shift_axis.value]:
        fail(op, "a shift must go along the one axis of its groups")
    (x,) = op.operands
    by = arith.ConstantOp(T.i32(), op.opview.offset.value).result
    return [_in_shape(calls.returned("shift", op, [_flat(x), by]), sizes(x))]


def _broadcast(calls: "_Calls", op: ir.Operation) -> list[ir.Value]:
    root = _place(op, "root")
    (x,) = op.operands
    if [x.type.is_dynamic_dim(dim) for dim in range(x.type.rank)].count(True) > 1:
        fail(op, "a broadcast must be of a tensor with one open extent at most")
    flat = calls.returned("broadcast", op, [_flat(x), root])
    return [_in_shape(flat, _sizes_of_all(flat, x.type))]


def _sizes_of_all(flat: ir.Value, type_: ir.RankedTensorType) -> list[Size]:
    """The extents of a tensor of `type_`, of which one at most is open, that has these elements.

    Where a function returns tensors whose open extents are plainly those of an argument, IREE
    3.13's iree-util-ipo loses them.
    """
    known = prod(extent for extent in type_.shape if extent != _DYNAMIC)
    open_ = (
        [] if type_.has_static_shape else [arith.divui(tensor.dim(flat, index(0)), index(known))]
    )
    return [open_[0] if extent == _DYNAMIC else extent for extent in type_.shape]


def _send(calls: "_Calls", op: ir.Operation) -> list[ir.Value]:
    if STARTED in op.attributes:
        fail(op, "a send ends at once: it is not to be started beforehand")
    destination = _place(op, "destination")
    (x,) = op.operands
    calls.add("send", op, [_flat(x), destination], [])
    return [x]


def _receive(calls: "_Calls", op: ir.Operation) -> list[ir.Value]:
    source = _place(op, "source")
    (room,) = op.operands
    extents, length = sizes(room), index(1)
    for extent in extents:
        length = arith.muli(length, as_value(extent))
    length = arith.index_cast(T.i64(), length)
    return [_in_shape(calls.returned("receive", op, [length, source]), extents)]


_LOWERINGS: dict[str, Callable[["_Calls", ir.Operation], list[ir.Value]]] = {
    "shard.all_reduce": _all_reduce,
    "shard.all_gather": _all_gather,
    "shard.broadcast": _broadcast,
    "shard.recv": _receive,
    "shard.reduce_scatter": _reduce_scatter,
    "shard.send": _send,
    "shard.shift": _shift,
}


def _place(op: ir.Operation, attribute: str) -> ir.Value:
    """A rank's place in its group, of one axis."""
    place = place_in(op, attribute)
    return arith.ConstantOp(T.i32(), place).result


@dataclass(frozen=True)
class _Calls:
    """Adds calls of the runtime's functions, and declares these in `module`."""

    module: ir.Module

    def returned(self, name: str, op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
        """The elements that the function `name` returns for `operands` and the axes of `op`."""
        elements = ir.RankedTensorType.get([_DYNAMIC], op.operands[0].type.element_type)
        if STARTED not in op.attributes:
            return self.add(name, op, operands, [elements])[0]
        number = self.add(f"{_START}{name}", op, operands, [T.i32()])
        return self.call("finish", number, [elements])[0]

    def add(
        self, name: str, op: ir.Operation, operands: list[ir.Value], results: list[ir.Type]
    ) -> list[ir.Value]:
        """Calls the function `name` with `operands` and the axes of `op`."""
        mask = sum(1 << axis for axis in axes_of(op))
        axes = arith.ConstantOp(T.i32(), mask).result
        return self.call(name, [*operands, axes], results)

    def call(self, name: str, operands: list[ir.Value], results: list[ir.Type]) -> list[ir.Value]:
        """Calls the function `name` with `operands` alone."""
        symbol = f"{MODULE}.{name}"
        self._declare(symbol, [operand.type for operand in operands], results)
        return list(func.CallOp(results, symbol, operands).results)

    def _declare(self, symbol: str, operands: list[ir.Type], results: list[ir.Type]) -> None:
        known = {op.sym_name.value for op in self.module.body if isinstance(op, func.FuncOp)}
        if symbol not in known:
            with ir.InsertionPoint.at_block_begin(self.module.body), ir.Location.unknown():
                func.FuncOp(symbol, (operands, results), visibility="private")


def _put_off_end(op: ir.Operation, calls: _Calls) -> None:
    """Moves the end of `op`, which lies between its start and `op`, to where its result is read."""
    ops = [each.operation for each in op.block]
    at = ops.index(op)
    start = max(number for number in range(at) if _is_start(ops[number]))
    readers = [ancestor_in(op.block, use.owner.operation) for use in op.results[0].uses]
    read = min((ops.index(reader) for reader in readers if reader), default=at)
    finish, *others = ops[start + 1 : at]
    for each in (finish, *others):
        each.move_before(ops[read])
    meanwhile = ops[at + 1 : read]
    computed = [each.results[0] for each in meanwhile if _computes(each)]
    if computed and not any(STARTED in each.attributes or _is_start(each) for each in meanwhile):
        _finish_after(computed[-1], finish, calls)


def _finish_after(value: ir.Value, finish: ir.Operation, calls: _Calls) -> None:
    """Replaces the call `finish` by one that takes `value`, too."""
    with ir.InsertionPoint(finish), finish.location:
        operands = [_flat(value), *finish.operands]
        (result,) = calls.call("finish_after", operands, [finish.results[0].type])
    finish.results[0].replace_all_uses_with(result)
    finish.erase()


def _is_start(op: ir.Operation) -> bool:
    return isinstance(op.opview, func.CallOp) and callee(op).startswith(f"{MODULE}.{_START}")


def _computes(op: ir.Operation) -> bool:
    """Whether `op` takes a while to compute a tensor of f32."""
    is_long = isinstance(op.opview, linalg.GenericOp) or op.name == "flow.dispatch"
    type_ = op.results[0].type if is_long else None
    return isinstance(type_, ir.RankedTensorType) and isinstance(type_.element_type, ir.F32Type)


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
