"""The kernel of attention for one new token of each sequence, over keys and values in the cache.

It turns the new query and key, appends key and value to the cache, and attends, all in one
dispatch. A workgroup has a key head and a part of the columns; the last one of a head to be done
combines what the parts gave, so that few heads and a long cache keep all cores busy and a short
cache is not cut up at all. Neither linalg nor the transform dialect has workgroups that count each
other, or parts whose number the length decides. Dao et al., "Flash-Decoding", 2023.
"""

from dataclasses import dataclass
from functools import partial

from torch_mlir import ir
from torch_mlir.dialects import arith, scf, vector

from llmc.dialects import DecodeAttentionOp, DecodeAttentionPartOp
from llmc.dialects.cache_cells import KEYS, PANEL, VALUES
from llmc.dialects.dealt_columns import DealtColumns
from llmc.dialects.divisor import divisor
from llmc.dialects.index_notation import Size, index
from llmc.pipelines.kernels.attention_cuts import DecodeAttentionCut
from llmc.pipelines.kernels.cache_rows import RowWriter, holds_bytes_of_cells
from llmc.pipelines.kernels.float_softmax import FloatSoftmax
from llmc.pipelines.kernels.head_row import HeadNorm, HeadRow, Preparation, Rotation
from llmc.pipelines.kernels.kernel import STACK_BYTES, Kernel, div_rem, in_symbol, load_index
from llmc.pipelines.kernels.online_softmax import BLOCK, Caches, OnlineSoftmax
from llmc.pipelines.kernels.partial_attention import PARTS, Parts
from llmc.pipelines.kernels.progressive_softmax import ProgressiveSoftmax
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.kernels.vectors import LOG2_E, clear_behind

# Heads of a core with which it does not matter that some cores have one more.
_ROUNDS = 4
# What buffers beside cells may take of the stack: those of 8 heads of 128 channels, which are many
# for one key head, and which all of its columns would be read for again.
_CELL_STACK_BYTES = 72_000


@dataclass(frozen=True)
class DecodeShape:
    """What is fixed when compiling beside the operands' types.

    The caches have all columns, or a `part` of them.
    """

    heads: int
    key_heads: int
    head_stride: int
    query_offset: int
    key_offset: int
    value_offset: int
    key_channels: int
    value_channels: int
    scale: float
    window: int
    softcap: float
    norm_epsilon: float
    norm_offset: float
    interleaved: bool
    part: DealtColumns | None = None

    @classmethod
    def of(cls, op: DecodeAttentionOp) -> "DecodeShape":
        """What `op` says."""
        return cls(
            op.heads,
            op.keys.type.shape[2],
            op.head_stride.value,
            op.query_offset.value,
            op.key_offset.value,
            op.value_offset.value,
            op.key_channels.value,
            op.value_channels.value,
            op.scale.value,
            op.window.value,
            op.softcap.value,
            op.norm_epsilon.value,
            op.norm_offset.value,
            bool(op.interleaved.value),
            DealtColumns.of(op) if isinstance(op, DecodeAttentionPartOp) else None,
        )

    @property
    def sharing(self) -> int:
        """Query heads for each key head."""
        return self.heads // self.key_heads

    @property
    def text(self) -> str:
        """What the types of a kernel's operands do not say, as part of a symbol."""
        rows = (self.head_stride, self.query_offset, self.key_offset, self.value_offset)
        channels = (self.key_channels, self.value_channels)
        scores = (self.scale, self.window, self.softcap)
        norm = (self.norm_epsilon, self.norm_offset)
        turned = ("interleaved",) if self.interleaved else ()
        columns = (self.part.first, self.part.step) if self.part else ()
        return in_symbol(*rows, *channels, *scores, *norm, *turned, *columns)

    def preparation(
        self, tables: list[ir.Value], norms: list[ir.Value], row: ir.Value, layer: ir.Value
    ) -> Preparation:
        """That of the heads of `row` in `layer`, by two `tables` and two `norms`, or none."""
        rotation = Rotation(tables, row, index(0), self.interleaved) if tables else None
        query_norm, key_norm = (
            HeadNorm(norm, layer, self.norm_epsilon, self.norm_offset) if norm else None
            for norm in (norms or (None, None))
        )
        return Preparation(rotation, query_norm, key_norm)

    def begin(self, offset: int, head: ir.Value, channels: int) -> ir.Value:
        """Where `head`, of so many `channels`, begins in a row of heads that begin at `offset`."""
        return arith.addi(index(offset), arith.muli(head, index(self.head_stride or channels)))

    def held(self, columns: ir.Value) -> ir.Value:
        """How many of the first `columns` the caches have."""
        return self.part.held(columns) if self.part else columns


def decode_attention(
    shape: DecodeShape,
    batch: int | None,
    rotated: bool,
    normed: bool,
    widest: int,
    instruction: str,
    cut: DecodeAttentionCut,
) -> Kernel:
    """Operands `query [B, _]`, `key [B, _]`, `value [B, _]`, `start [B]`, `cos` and `sin [B or 1,
    1, R]` if `rotated`, `query_norm` and `key_norm [L, D]` if `normed`, then those that are
    updated: `keys [L, S, G, C, D]`, `values [L, S, G, C, E]` and `done [PARTS]`, which is 0 before
    and after.

    Results are `[B, H * E]`, of a part of the columns `[B, H * (E + 1)]`, and room for the parts,
    `room_type`. All but the caches hold float32, and these that, a narrower type or the bytes of
    cells. The scalars are the layer, the first sequence and the column of the token. `batch` is B,
    None where dynamic; `widest` the number of floats in a vector register, and `instruction` the
    one that multiplies bytes.
    """

    def grid(extents: list[ir.Value]) -> tuple[Size, Size]:
        groups = arith.muli(_batch(extents, batch), index(shape.key_heads))
        return _parts(shape, cut, extents[-1], groups), groups

    def build(
        part: ir.Value,
        group: ir.Value,
        extents: list[ir.Value],
        query: ir.Value,
        key: ir.Value,
        value: ir.Value,
        start: ir.Value,
        *rest: ir.Value,
    ) -> None:
        *read, keys, values, done, out, room = rest
        tables, norms = read[: 2 * rotated], read[len(read) - 2 * normed :]
        layer, sequence, past = extents[-3:]
        row, head = div_rem(group, shape.key_heads)
        groups = arith.muli(_batch(extents, batch), index(shape.key_heads))
        count = _parts(shape, cut, past, groups)
        part = _in_turns(part, count, group)
        caches = Caches(keys, values, [layer, arith.addi(sequence, row), head])
        preparation = shape.preparation(tables, norms, row, layer)
        first = load_index(start, row)
        columns = _columns(shape, first, past, index(0), index(1))
        step = _Step(shape, cut, caches, widest, instruction, columns, row, head, preparation)
        begin, end = _columns(shape, first, past, part, count)
        softmax = step.softmax()
        softmax.ask(begin, end)
        step.append_if_last(part, count, shape.held(past), key, value)
        parts = Parts(room, done, group, part, count, shape.part is not None)
        step.attend(softmax, query, begin, end, parts, out)

    name = f"decode_attention_{in_symbol(*_effect(shape, cut))}_{shape.text}"
    return Kernel(name, grid, build)


def _effect(shape: DecodeShape, cut: DecodeAttentionCut) -> tuple[int, ...]:
    """The numbers of `cut`, the same for all that make the same of `shape`."""
    together = divisor(shape.sharing, cut.together)
    is_never_cut = cut.cores == 1
    whole, part = (1, 1) if is_never_cut else (cut.whole, cut.part)
    return whole, part, together, cut.cores


def _batch(extents: list[ir.Value], batch: int | None) -> ir.Value:
    return extents[0] if batch is None else index(batch)


def _parts(
    shape: DecodeShape, cut: DecodeAttentionCut, past: ir.Value, groups: ir.Value
) -> ir.Value:
    """How many parts the columns of a head are cut into: `PARTS` for all heads, at most."""
    columns = arith.addi(past, index(1))
    if shape.window:
        columns = arith.minui(columns, index(shape.window))
    columns = shape.held(columns)
    most = arith.maxui(arith.divui(index(PARTS), groups), index(1))
    pairs = arith.muli(arith.ceildivui(columns, index(2 * cut.part * BLOCK)), index(2))
    is_short = arith.cmpi(arith.CmpIPredicate.ule, columns, index(cut.whole * BLOCK))
    is_one = arith.ori(is_short, _share_evenly(groups, cut.cores))
    return arith.minui(arith.select(is_one, index(1), pairs), most)


def _share_evenly(groups: ir.Value, cores: int) -> ir.Value:
    """Whether as many workgroups keep all `cores` busy nearly to the end."""
    are_many = arith.cmpi(arith.CmpIPredicate.uge, groups, index(_ROUNDS * cores))
    left = arith.remui(groups, index(cores))
    are_even = arith.cmpi(arith.CmpIPredicate.eq, left, index(0))
    return arith.ori(are_many, are_even)


def _in_turns(part: ir.Value, count: ir.Value, group: ir.Value) -> ir.Value:
    """The parts of every other head from the last on: so that no core has all that take longest.

    The newest columns count most, and all bits of them are read.
    """
    is_odd = arith.cmpi(arith.CmpIPredicate.ne, arith.remui(group, index(2)), index(0))
    behind = arith.subi(arith.subi(count, index(1)), part)
    return arith.select(is_odd, behind, part)


def _columns(
    shape: DecodeShape, start: ir.Value, past: ir.Value, part: ir.Value, count: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """The columns of `part`, from the first to behind the last; the last part has the newest.

    They are cut between panels.
    """
    end = arith.addi(past, index(1))
    if shape.window:
        start = arith.maxsi(start, arith.subi(end, index(shape.window)))
    start, end = shape.held(start), shape.held(end)
    panels_end = arith.muli(arith.ceildivui(end, index(PANEL)), index(PANEL))
    each = arith.ceildivui(arith.maxsi(arith.subi(panels_end, start), index(1)), count)
    each = arith.muli(arith.ceildivui(each, index(BLOCK)), index(BLOCK))
    behind = arith.muli(arith.subi(arith.subi(count, index(1)), part), each)
    stop = arith.subi(panels_end, behind)
    return arith.maxsi(start, arith.subi(stop, each)), arith.minsi(stop, end)


@dataclass(frozen=True)
class _Step:
    """What one workgroup does for key head `head` of row `row`."""

    shape: DecodeShape
    cut: DecodeAttentionCut
    caches: Caches
    lanes: int
    instruction: str
    columns: tuple[ir.Value, ir.Value]
    row: ir.Value
    head: ir.Value
    preparation: Preparation

    def append_if_last(
        self, part: ir.Value, count: ir.Value, column: ir.Value, key: ir.Value, value: ir.Value
    ) -> None:
        """Writes the new key and value to `column`: the last part reads them, if any does."""
        last = arith.cmpi(arith.CmpIPredicate.eq, part, arith.subi(count, index(1)))
        caches, shape = self.caches, self.shape
        kept = holds_bytes_of_cells(caches.keys)
        keys = RowWriter(caches.keys, shape.key_channels, self.lanes, KEYS if kept else None)
        values = RowWriter(
            caches.values, shape.value_channels, self.lanes, VALUES if kept else None
        )
        branch = scf.IfOp(last)
        with ir.InsertionPoint(branch.then_block):
            row = self._row(key, shape.key_offset, self.head, shape.key_channels)
            keys.append([*caches.head, column], partial(self.preparation.key, row))
            row = self._row(value, shape.value_offset, self.head, shape.value_channels)
            values.append([*caches.head, column], row.copy)
            scf.yield_([])

    def attend(
        self,
        softmax: OnlineSoftmax,
        query: ir.Value,
        begin: ir.Value,
        end: ir.Value,
        parts: Parts,
        out: ir.Value,
    ) -> None:
        """Attends to columns `begin` to `end - 1` by as many heads at once as `softmax` has."""
        sharing = self.shape.sharing
        heads = softmax.heads
        base = arith.muli(self.head, index(sharing))
        for first in scf.for_(index(0), index(sharing), index(heads)):
            softmax.reset()
            for each in scf.for_(index(0), index(heads)):
                head = arith.addi(base, arith.addi(first, each))
                self._load_query(query, head, softmax.query, each)
                scf.yield_([])
            softmax.attend(begin, end)
            for each in scf.for_(index(0), index(heads)):
                place = arith.addi(first, each)
                parts.put(softmax, each, place, self.lanes)
                scf.yield_([])
            scf.yield_([])
        parts.combine(out, self.row, base, self.lanes)

    def softmax(self) -> OnlineSoftmax:
        """For as many heads at once as the stack bears."""
        caches, sharing, softcap = self.caches, self.shape.sharing, self.shape.softcap
        together = self.cut.together
        if holds_bytes_of_cells(caches.keys):
            most = _CELL_STACK_BYTES // ProgressiveSoftmax.bytes(
                1, caches.channels, caches.value_channels, self.lanes
            )
            heads = divisor(sharing, max(1, most))
            first, end = self.columns
            # Others than the newest, which another workgroup may be writing.
            seen = first, arith.subi(end, index(1))
            return ProgressiveSoftmax(
                heads, caches, self.lanes, softcap, together, self.instruction, seen
            )
        most = STACK_BYTES // OnlineSoftmax.bytes(
            1, caches.channels, caches.value_channels, self.lanes
        )
        heads = divisor(sharing, max(1, most))
        return FloatSoftmax(heads, caches, self.lanes, softcap, together)

    def _load_query(
        self, query: ir.Value, head: ir.Value, buffer: ir.Value, place: ir.Value
    ) -> None:
        channels = self.shape.key_channels
        row = self._row(query, self.shape.query_offset, head, channels)

        def write(x: ir.Value, at: ir.Value) -> None:
            scaled = arith.mulf(x, splat(self.shape.scale * LOG2_E, x.type))
            vector.store(scaled, buffer, [place, at])

        self.preparation.query(row, write)
        clear_behind(buffer, [place], channels)

    def _row(self, buffer: ir.Value, offset: int, head: ir.Value, channels: int) -> HeadRow:
        first = self.shape.begin(offset, head, channels)
        return HeadRow(buffer, [self.row], first, channels, self.lanes)
