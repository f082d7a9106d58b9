"""tensor, and bufferization of tensors: shapes, slices and elements."""

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import scf

from tests.interpreter.machine import Frame, Values, evaluates
from tests.interpreter.types import element_of, undefined

_DYNAMIC = ir.ShapedType.get_dynamic_size()


def mixed(frame: Frame, static: ir.Attribute, dynamic: list[ir.Value]) -> list[int]:
    """The numbers of a list of which some are in an attribute, the others among operands."""
    rest = iter(dynamic)
    return [
        int(frame.values[next(rest)]) if number == _DYNAMIC else int(number) for number in static
    ]


@evaluates("tensor.empty", "bufferization.alloc_tensor", "flow.tensor.alloca")
def _empty(frame: Frame, op: ir.Operation) -> Values:
    (out,) = op.results
    shape = mixed(frame, out.type.shape, list(op.operands))
    return [undefined(shape, element_of(out))]


@evaluates("tensor.dim")
def _dim(frame: Frame, op: ir.Operation) -> Values:
    value, dim = frame.operands(op)
    return [np.asarray(value.shape[int(dim)], np.int64)]


@evaluates("tensor.cast", "builtin.unrealized_conversion_cast")
def _cast(frame: Frame, op: ir.Operation) -> Values:
    return frame.operands(op)


@evaluates("tensor.splat")
def _splat(frame: Frame, op: ir.Operation) -> Values:
    (value, *_), (out,) = frame.operands(op), op.results
    shape = mixed(frame, out.type.shape, list(op.operands)[1:])
    return [np.full(shape, value, element_of(out))]


@evaluates("tensor.from_elements")
def _from_elements(frame: Frame, op: ir.Operation) -> Values:
    (out,) = op.results
    return [np.array(frame.operands(op), element_of(out)).reshape(out.type.shape)]


@evaluates("tensor.extract")
def _extract(frame: Frame, op: ir.Operation) -> Values:
    source, *indices = frame.operands(op)
    return [source[tuple(indices)]]


@evaluates("tensor.insert")
def _insert(frame: Frame, op: ir.Operation) -> Values:
    value, into, *indices = frame.operands(op)
    new = into.copy()
    new[tuple(indices)] = value
    return [new]


@evaluates("tensor.concat")
def _concat(frame: Frame, op: ir.Operation) -> Values:
    return [np.concatenate(frame.operands(op), ir.IntegerAttr(op.attributes["dim"]).value)]


@evaluates("tensor.expand_shape")
def _expand(frame: Frame, op: ir.Operation) -> Values:
    shape = mixed(frame, op.opview.static_output_shape, list(op.opview.output_shape))
    return [frame.values[op.operands[0]].reshape(shape)]


@evaluates("tensor.collapse_shape")
def _collapse(frame: Frame, op: ir.Operation) -> Values:
    (value,) = frame.operands(op)
    groups = [[ir.IntegerAttr(dim).value for dim in group] for group in op.opview.reassociation]
    return [value.reshape([int(np.prod([value.shape[d] for d in dims])) for dims in groups])]


@evaluates("tensor.reshape")
def _reshape(frame: Frame, op: ir.Operation) -> Values:
    value, shape = frame.operands(op)
    return [value.reshape(shape)]


@evaluates("tensor.extract_slice")
def _extract_slice(frame: Frame, op: ir.Operation) -> Values:
    view = op.opview
    whole = frame.values[view.source]
    part = whole[_slices(frame, view, whole)]
    return [part.reshape(_without_units(part.shape, list(view.static_sizes), view.result.type))]


@evaluates("tensor.insert_slice")
def _insert_slice(frame: Frame, op: ir.Operation) -> Values:
    view = op.opview
    new = frame.values[view.dest].copy()
    slices = _slices(frame, view, new)
    new[slices] = frame.values[view.source].reshape(new[slices].shape)
    return [new]


@evaluates("scf.forall")
def _forall(frame: Frame, op: ir.Operation) -> Values:
    """Runs what may run at once one after the other."""
    loop = op.opview
    counts = (range(*bounds) for bounds in zip(*_bounds(frame, loop), strict=True))
    block = op.regions[0].blocks[0]
    outs = [frame.values[out].copy() for out in loop.outputs]
    shared = dict(zip(list(block.arguments)[-len(outs) :], outs, strict=True))
    for indices in product(*counts):
        frame.run(block, [*map(np.int64, indices), *outs])
        for insert in list(block)[-1].regions[0].blocks[0]:
            slices = _slices(frame, insert, shared[insert.dest])
            into = shared[insert.dest][slices]
            into[...] = frame.values[insert.source].reshape(into.shape)
    return outs


def _bounds(frame: Frame, loop: scf.ForallOp) -> tuple[list[int], list[int], list[int]]:
    """First, end and step of each dimension."""
    return (
        mixed(frame, loop.staticLowerBound, list(loop.dynamicLowerBound)),
        mixed(frame, loop.staticUpperBound, list(loop.dynamicUpperBound)),
        mixed(frame, loop.staticStep, list(loop.dynamicStep)),
    )


@evaluates("tensor.pad")
def _pad(frame: Frame, op: ir.Operation) -> Values:
    view = op.opview
    low = mixed(frame, view.static_low, list(view.low))
    high = mixed(frame, view.static_high, list(view.high))
    value = frame.values[view.source]
    rank = value.ndim
    (filling,) = frame.run(op.regions[0].blocks[0], [np.int64(0)] * rank)
    return [np.pad(value, list(zip(low, high, strict=True)), constant_values=filling)]


def _slices(frame: Frame, view: ir.OpView, whole: np.ndarray) -> tuple[slice, ...]:
    offsets = mixed(frame, view.static_offsets, list(view.offsets))
    extents = mixed(frame, view.static_sizes, list(view.sizes))
    strides = mixed(frame, view.static_strides, list(view.strides))
    slices = []
    for offset, extent, stride, size in zip(offsets, extents, strides, whole.shape, strict=True):
        last = offset + (extent - 1) * stride
        if not 0 <= offset <= size or not extent >= 0 or last >= size:
            raise IndexError(f"columns {offset} to {last} of {size} in {view}")
        slices.append(slice(offset, offset + extent * stride, stride))
    return tuple(slices)


def _without_units(
    shape: tuple[int, ...], static_sizes: Sequence[int], type_: ir.RankedTensorType
) -> list[int]:
    """`shape` without the units that `type_` lacks, which are known to be units."""
    for dims in combinations(range(len(shape)), type_.rank):
        left = [shape[dim] for dim in dims]
        dropped = [size for dim, size in enumerate(static_sizes) if dim not in dims]
        fits = all(a in (b, _DYNAMIC) for a, b in zip(type_.shape, left, strict=True))
        if fits and all(size == 1 for size in dropped):
            return left
    raise ValueError(f"{shape} cannot be {type_}")
