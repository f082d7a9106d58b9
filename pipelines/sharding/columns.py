"""What a rank does with a KV cache whose columns are dealt out, and with its part of attention.

Column c of all is column c div R of rank c mod R, of R ranks. Every rank appends as many rows as
any: behind its own may be one more, in a column that nobody sees until the rank's next row is
written there.
"""

from math import inf

from torch_mlir import ir
from torch_mlir.dialects import arith, math, tensor

from llmc.dialects import AttentionOp, AttentionPartOp, CacheAllocateOp, CacheAppendOp, CacheReadOp
from llmc.dialects.attributes import i64
from llmc.dialects.block_types import cell_format
from llmc.dialects.cache_cells import COLUMNS
from llmc.dialects.dealt_columns import DealtColumns
from llmc.dialects.index_notation import (
    Size,
    as_value,
    contract,
    expand,
    index,
    loop_index,
    pointwise,
    reduce,
    size,
    sizes,
    slice_of,
)
from llmc.pipelines.errors import fail
from llmc.pipelines.sharding.collectives import all_gather
from llmc.pipelines.sharding.split import Dealt


def allocate_part(op: CacheAllocateOp, split: Dealt) -> None:
    """Makes of `op` room for a rank's columns, and for what it may append behind them."""
    in_cell = COLUMNS if cell_format(op.out.type) else 1
    with ir.InsertionPoint(op), op.location:
        columns = arith.muli(op.capacity, index(in_cell))
        columns = _divided(arith.addi(columns, index(2 * split.ranks - 2)), split.ranks)
        op.operation.operands[1] = arith.ceildivui(columns, index(in_cell))


def append_part(op: CacheAppendOp, split: Dealt, place: int) -> ir.Value:
    """The rank's rows of those that are appended, behind the columns that it has."""
    column = DealtColumns(place, split.ranks).held(op.column)
    rows = _own_rows(op, split.ranks, place)
    return CacheAppendOp(op.cache, rows, op.layer, op.sequence, column, op.out.type).out


def read_part(op: CacheReadOp, split: Dealt, place: int) -> ir.Value:
    """The rank's columns."""
    columns = DealtColumns(place, split.ranks).held(op.columns)
    return CacheReadOp(op.cache, op.layer, op.sequence, op.batch, columns, op.out.type).out


def attend_to_part(
    op: AttentionOp, split: Dealt, place: int, type_: ir.RankedTensorType
) -> ir.Value:
    """Attention to the columns of all ranks: an average of their parts."""
    batch, heads, tokens, channels = type_.shape
    keys, values = (_read_of(op, value) for value in (op.key, op.value))
    part = AttentionPartOp(
        op.query,
        keys.cache,
        values.cache,
        op.start,
        keys.layer,
        keys.sequence,
        op.past,
        i64(place),
        i64(split.ranks),
        op.scale,
        op.window,
        op.softcap,
        ir.RankedTensorType.get([batch, heads, tokens, channels + 1], type_.element_type),
    ).out
    _store_before(op.operation, [keys.cache, values.cache])
    count, *rest = sizes(part)
    parts = expand(part, [[1, count], *([extent] for extent in rest)])
    return _averaged(all_gather(parts, 0, split.ranks, split.axis))


def _read_of(op: AttentionOp, value: ir.Value) -> CacheReadOp:
    read = None if isinstance(value.owner, ir.Block) else value.owner.opview
    if not isinstance(read, CacheReadOp) or op.past is None or op.start is None:
        fail(op.operation, "only attention to a KV cache has its columns dealt out to ranks")
    return read


def _store_before(op: ir.Operation, caches: list[ir.Value]) -> None:
    """Moves the stores of `caches` that follow `op` to before it, and so before ranks exchange.

    Over a call IREE keeps the global as it was, and copies it to write to. A store stays where
    another call, or something else that names its global, comes before it.
    """
    block, named = [each.operation for each in op.block], set()
    for other in block[block.index(op) + 1 :]:
        if other.name == "func.call":
            break
        if "global" not in other.attributes:
            continue
        is_store = other.name == "ml_program.global_store" and other.operands[0] in caches
        if is_store and other.attributes["global"] not in named:
            other.move_before(op)
        named.add(other.attributes["global"])


def _averaged(parts: ir.Value) -> ir.Value:
    """`[R, B, H, T, E + 1]` -> `[B, H, T, E]`: see `llmc.attention_part`."""
    *leading, channels = sizes(parts)
    place = [0] * len(leading)
    extents = [*leading, channels - 1]
    rows = slice_of(parts, [*place, 0], extents, extents)
    logs = slice_of(parts, [*place, channels - 1], [*leading, 1], leading)
    most = reduce("rbht->bht", lambda x, m: arith.maximumf(x, m), -inf, logs)
    weights = pointwise("rbht,bht->rbht", lambda x, m, _: math.exp(arith.subf(x, m)), logs, most)
    total = reduce("rbht->bht", lambda x, y: arith.addf(x, y), 0.0, weights)
    mixed = contract("rbhte,rbht->bhte", rows, weights)
    return pointwise("bhte,bht->bhte", lambda x, y, _: arith.divf(x, y), mixed, total)


def _own_rows(op: CacheAppendOp, ranks: int, place: int) -> ir.Value:
    """Every `ranks`-th row, from the first that is the rank's.

    Where none is left it is the last row, and a single one is appended on all ranks: what is not
    the rank's lies behind its columns, where its next ones are written.
    """
    batch, heads, tokens, channels = sizes(op.rows)
    if tokens == 1:
        return op.rows
    before = arith.remui(op.column, index(ranks))
    skipped = arith.remui(arith.subi(index(place + ranks), before), index(ranks))
    last = arith.subi(as_value(tokens), index(1))

    def row(_first: ir.Value, _: ir.Value) -> ir.Value:
        number = arith.addi(skipped, arith.muli(loop_index(2), index(ranks)))
        places = [loop_index(0), loop_index(1), arith.minui(number, last), loop_index(3)]
        return tensor.extract(op.rows, places)

    one: list[Size] = [batch, heads, 1, channels]
    first = slice_of(op.rows, [0, 0, 0, 0], one, one)  # which says how large the others are
    count = _divided(arith.addi(as_value(size(op.rows, 2)), index(ranks - 1)), ranks)
    return pointwise("bg1d->bgjd", row, first, j=count)


def _divided(number: ir.Value, ranks: int) -> ir.Value:
    return arith.divui(number, index(ranks))
