"""Values that take the place of what was erased."""

from collections.abc import Sequence
from itertools import takewhile

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor
from torch_mlir.extras import types as T

_NAMES = ("arith.constant", "tensor.empty", "builtin.unrealized_conversion_cast")


def is_stand_in(value: ir.Value) -> bool:
    """Whether `value` says nothing of how it came about: an argument, a constant, an empty tensor.

    Such values take the place of others, and need not be replaced themselves.
    """
    owner = value.owner
    if isinstance(owner, ir.Block):
        return True
    return owner.name in _NAMES and all(is_stand_in(operand) for operand in owner.operands)


def stand_in(type_: ir.Type, user: ir.Operation, unlike: Sequence[ir.Value] = ()) -> ir.Value:
    """A value of `type_` that `user` can use, an argument of its block where one is of that type.

    Others are at the block's begin, and made where there is none yet. None of `unlike` is taken.
    """
    for argument in user.block.arguments:
        if argument.type == type_ and argument not in unlike:
            return argument
    for op in takewhile(_is_first, (op.operation for op in user.block)):
        if op == user:
            break
        if op.results[0].type == type_:
            return op.results[0]
    return _make(type_, user)


def _is_first(op: ir.Operation) -> bool:
    return len(op.results) == 1 and is_stand_in(op.results[0])


def _make(type_: ir.Type, user: ir.Operation) -> ir.Value:
    begin = ir.InsertionPoint.at_block_begin(user.block)
    if isinstance(type_, ir.FloatType):
        return arith.ConstantOp(type_, 0.0, ip=begin).result
    if isinstance(type_, ir.IntegerType | ir.IndexType):
        return arith.ConstantOp(type_, 0, ip=begin).result
    if isinstance(type_, ir.RankedTensorType):
        return _empty(type_, user)
    return ir.Operation.create("builtin.unrealized_conversion_cast", [type_], ip=begin).result


def _empty(type_: ir.RankedTensorType, user: ir.Operation) -> ir.Value:
    ip = ir.InsertionPoint.at_block_begin(user.block)
    sizes: list[int | ir.Value] = list(type_.shape)
    if not type_.has_static_shape:
        extent = stand_in(T.index(), user)
        if not isinstance(extent.owner, ir.Block):
            ip = ir.InsertionPoint.after(extent.owner)
        sizes = [extent if type_.is_dynamic_dim(d) else s for d, s in enumerate(sizes)]
    return tensor.EmptyOp(sizes, type_.element_type, encoding=type_.encoding, ip=ip).result
