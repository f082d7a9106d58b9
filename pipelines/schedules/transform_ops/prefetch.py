"""`llmc_transform.prefetch`: asks memory for what loops will read."""

from collections.abc import Sequence
from itertools import product
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, bufferization, ext, memref, transform, vector

from llmc.dialects.index_notation import index
from llmc.pipelines.schedules.transform_ops.dialect import ModifiesPayload, Operation, Rewriting
from llmc.pipelines.schedules.transform_ops.splat_reads import is_dim, transfer_reads
from llmc.pipelines.targets.cpu import CACHE_LINE

PANELS, ROWS = -3, -2
"""Dimensions of a weight in panels, `[..., P, K, J]`."""

FIRST_CACHE, SECOND_CACHE = 3, 2
"""What memref calls it to be wanted there. The first is too small for what comes much later."""

Line = tuple[ir.Value, tuple[tuple[ir.Value, ...], ...], int]
"""Of what, where but for constants, and how many lines the constants come to."""


class Interpretation(Rewriting):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def rewrite(op: Any, target: ir.Operation, _rewriter: transform.TransformRewriter) -> None:
        """Prefetches what the reads in it will want."""
        asked: set[Line] = set()
        dimension, ahead, cache = op.dimension.value, op.ahead.value, op.cache.value
        for read in transfer_reads(target):
            if walks(read, dimension):
                with ir.InsertionPoint(read), read.location:
                    prefetch_lines(read, list(read.indices), dimension, ahead, asked, cache)


class PrefetchOp(Operation, name="prefetch", traits=[Interpretation, ModifiesPayload]):
    """Asks memory for what loops read of arguments `ahead` further along `dimension`, -1 the last.

    The CPU does so by itself, but only up to the end of a page of memory. What lies in a line of
    the cache is asked for once, as far as constants tell. `cache` is how near it is wanted, as
    memref.prefetch says it: 3 is the first cache.

        "llmc_transform.prefetch"(%scope) {dimension = -2 : i64, ahead = 32 : i64, cache = 2 : i64}
              : (!transform.any_op) -> ()
    """

    scope: ext.Operand[Any]
    dimension: ir.IntegerAttr
    ahead: ir.IntegerAttr
    cache: ir.IntegerAttr


def walks(read: vector.TransferReadOp, dimension: int) -> bool:
    """Whether it is of an argument, along `dimension` of which, a static one, a loop walks."""
    type_ = ir.RankedTensorType(read.base.type)
    if not isinstance(read.base.owner, ir.Block) or type_.rank < -dimension:
        return False
    is_static = not type_.is_dynamic_dim(type_.rank + dimension)
    return is_static and depends_on(read.indices[dimension], "scf.for")


def depends_on(position: ir.Value, loop: str) -> bool:
    """Whether `position` is computed from a number of a loop of that name."""
    if isinstance(position.owner, ir.Block):
        return position.owner.owner.operation.name == loop
    return any(depends_on(operand, loop) for operand in position.owner.operands)


def prefetch_lines(
    read: vector.TransferReadOp,
    position: Sequence[ir.Value],
    dimension: int,
    ahead: int,
    asked: set[Line],
    cache: int = SECOND_CACHE,
) -> None:
    """Asks for the lines that `read` would want at `position`, moved `ahead` along `dimension`.

    Those among `asked`, which are as they lie before they are moved, are left out, others added.
    """
    type_ = ir.RankedTensorType(read.base.type)
    *dims, _ = zip(read.permutation_map.value.results, read.vector.type.shape, strict=True)
    outer = [(ir.AffineDimExpr(dim).position, extent) for dim, extent in dims if is_dim(dim)]
    for place in product(*(range(extent) for _, extent in outer)):
        offsets = [0] * type_.rank
        for (dim, _), offset in zip(outer, place, strict=True):
            offsets[dim] = offset
        line = _line(read.base, position, offsets)
        if line in asked:
            continue
        asked.add(line)
        offsets[dimension] += ahead
        places = [
            arith.addi(each, index(offset)) if offset else each
            for each, offset in zip(position, offsets, strict=True)
        ]
        buffer = bufferization.to_buffer(
            ir.MemRefType.get(type_.shape, type_.element_type), read.base, read_only=True
        )
        memref.prefetch(buffer, places, False, cache, True)


def _line(base: ir.Value, position: Sequence[ir.Value], offsets: list[int]) -> Line:
    """The line so far behind `position` in `base`, if the rest of the position begins one."""
    type_ = ir.RankedTensorType(base.type)
    terms, stride, distance = [], type_.element_type.width // 8, 0
    for dim in reversed(range(type_.rank)):
        added, constant = _sum(position[dim])
        terms.append(tuple(added))
        distance += (constant + offsets[dim]) * stride
        stride *= 1 if type_.is_dynamic_dim(dim) else type_.shape[dim]
    return base, tuple(terms), distance // CACHE_LINE


def _sum(position: ir.Value) -> tuple[list[ir.Value], int]:
    """The terms that are added to make `position`, and the sum of the constant ones."""
    op = position.owner
    if isinstance(op, ir.Block):
        return [position], 0
    if op.name == "arith.constant":
        return [], op.opview.literal_value
    if op.name != "arith.addi":
        return [position], 0
    (left, first), (right, second) = map(_sum, op.operands)
    return [*left, *right], first + second
