"""The kernels of attention for one new token of each sequence on a GPU.

The first turns the new query and key, appends key and value to the cache, and attends to a part of
the columns, so that few heads and a long cache keep a GPU busy. The second adds the parts up. Dao
et al., "Flash-Decoding", 2023.
"""

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, math, memref, scf
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import Size, constant, index
from llmc.pipelines.kernels.decode_attention import DecodeShape
from llmc.pipelines.kernels.head_row import HeadRow, Preparation
from llmc.pipelines.kernels.kernel import Kernel, div_rem, load_index, multiply_add
from llmc.pipelines.kernels.launch import Launch
from llmc.pipelines.kernels.online_softmax import Caches
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.kernels.threads import (
    LANES,
    load_one,
    rounded,
    shared,
    spread,
    store_lanes,
    wait,
)
from llmc.pipelines.kernels.workgroup_softmax import (
    NOTHING,
    RowTile,
    State,
    WorkgroupSoftmax,
    factor,
    own_channels,
    store_channels,
)
from llmc.runtime.vm_function import Integers

_PARTS = 16
"""Into how many parts the columns of a head are cut at most."""


def room_type(batch: int | None, heads: int, value_channels: int) -> ir.RankedTensorType:
    """What the parts leave: for each head of `batch` rows, None where dynamic, and each part of its
    columns the sums of values, then the peak and the sum of weights."""
    rows = ir.ShapedType.get_dynamic_size() if batch is None else batch
    return ir.RankedTensorType.get([rows, heads, _PARTS, value_channels + 2], T.f32())


def slot_type() -> ir.RankedTensorType:
    """Of `slot`: the first sequence and the column of the token."""
    return ir.RankedTensorType.get([2], T.i32())


def attend_to_parts(
    shape: DecodeShape,
    batch: int | None,
    rotated: bool,
    normed: bool,
    tile: RowTile,
    integers: Integers,
) -> Kernel:
    """Operands and what is updated are those of `decode_attention`, but for `done`.

    The result is `room_type`. Before the caches comes `slot`, as `slot_type` has it, and the
    scalars are the caches' capacity and the layer: what changes from token to token is read from
    memory, and the grid is that of a full cache, so that the commands for one token are those for
    the next. `batch` is B, None where dynamic; the heads of a `tile` share a key head.
    """
    turns = shape.sharing // tile.rows

    def grid(extents: list[ir.Value]) -> tuple[Size, Size]:
        *_, capacity, _ = extents
        rows = extents[0] if batch is None else index(batch)
        tiles = arith.ceildivui(capacity, index(tile.threads))
        return arith.minui(tiles, index(_PARTS)), arith.muli(rows, index(shape.key_heads * turns))

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
        *read, slot, keys, values, room = rest
        tables, norms = read[: 2 * rotated], read[len(read) - 2 * normed :]
        layer, (sequence, past) = extents[-1], _load_slot(slot)
        group, turn = div_rem(group, turns)
        row, head = div_rem(group, shape.key_heads)
        caches = Caches(keys, values, [layer, arith.addi(sequence, row), head])
        preparation = shape.preparation(tables, norms, row, layer)
        step = _Step(shape, tile, caches, row, head, turn, past, preparation)
        columns = _Columns.of(shape, tile, past, load_index(start, row))
        works = arith.cmpi(arith.CmpIPredicate.ult, part, columns.parts)
        with ir.InsertionPoint(scf.IfOp(works).then_block):
            step.run(query, key, value, part, columns, room)
            scf.yield_([])

    launch = Launch("gpu_decode_attention", tile.threads, integers)
    return Kernel(f"gpu_decode_attention_{shape.text}", grid, build, launch)


def add_parts(shape: DecodeShape, batch: int | None, tile: RowTile, integers: Integers) -> Kernel:
    """Operands `room`, as `attend_to_parts` leaves it, `start [B]` and `slot`.

    The result is `[B, H * E]`. `batch` is B, None where dynamic.
    """

    def grid(extents: list[ir.Value]) -> tuple[Size, Size]:
        return shape.heads, extents[0] if batch is None else batch

    def build(
        head: ir.Value,
        row: ir.Value,
        extents: list[ir.Value],
        room: ir.Value,
        start: ir.Value,
        slot: ir.Value,
        out: ir.Value,
    ) -> None:
        _, past = _load_slot(slot)
        columns = _Columns.of(shape, tile, past, load_index(start, row))
        width = room.type.shape[3] - 2
        state = _sum(room, [row, head], columns.parts, own_channels(width, tile.threads))
        first = arith.muli(head, index(width))
        store_channels(state.mean(0), width, tile.threads, out, [row], first)

    launch = Launch("gpu_add_parts", tile.threads, integers)
    return Kernel(f"gpu_add_parts_{shape.window}", grid, build, launch)


@dataclass(frozen=True)
class _Columns:
    """The columns from `begin` to before `end`, in `parts` parts of `size` each."""

    begin: ir.Value
    end: ir.Value
    size: ir.Value
    parts: ir.Value

    @classmethod
    def of(cls, shape: DecodeShape, tile: RowTile, past: ir.Value, start: ir.Value) -> "_Columns":
        """Those from `start` on that a token in column `past` sees before its own.

        At least a tile is a part, and as many columns in every sequence.
        """
        least, begin = index(0), start
        if shape.window:
            least = arith.maxsi(arith.subi(past, index(shape.window - 1)), least)
            begin = arith.maxsi(begin, least)
        threads = index(tile.threads)
        tiles = arith.ceildivui(arith.subi(past, least), threads)
        size = arith.muli(_at_least_one(arith.ceildivui(tiles, index(_PARTS))), threads)
        parts = _at_least_one(arith.ceildivui(arith.subi(past, begin), size))
        return cls(begin, past, size, parts)

    def part(self, number: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The first column of a part, and the one behind its last."""
        first = arith.addi(self.begin, arith.muli(number, self.size))
        return first, arith.minui(arith.addi(first, self.size), self.end)


@dataclass(frozen=True)
class _Step:
    """What one workgroup does for key head `head` of row `row`, of whose heads it has a tile."""

    shape: DecodeShape
    tile: RowTile
    caches: Caches
    row: ir.Value
    head: ir.Value
    turn: ir.Value
    past: ir.Value
    preparation: Preparation

    def run(
        self,
        query: ir.Value,
        key: ir.Value,
        value: ir.Value,
        part: ir.Value,
        columns: _Columns,
        room: ir.Value,
    ) -> None:
        """Attends to a part of the columns; the first part has the new one too, and appends it."""
        softmax = WorkgroupSoftmax(self.tile, self.caches, self.shape.softcap)
        heads = self._heads()
        for place, head in enumerate(heads):
            self._load_query(query, head, softmax.query, index(place))
        new_key = shared(self.caches.channels)
        self._load_key(key, new_key)
        wait()
        new_value = self._own_values(value)
        is_first = arith.cmpi(arith.CmpIPredicate.eq, part, index(0))
        is_appended = arith.andi(is_first, arith.cmpi(arith.CmpIPredicate.eq, self.turn, index(0)))
        with ir.InsertionPoint(scf.IfOp(is_appended).then_block):
            self._append(new_key, new_value)
            scf.yield_([])
        state = softmax.one(new_key, new_value).where(is_first, softmax.nothing())
        state = softmax.attend(state, *columns.part(part), lambda _row, _column: None)
        for place, head in enumerate(heads):
            self._leave(state, place, room, [self.row, head, part])

    def _heads(self) -> list[ir.Value]:
        """The query heads of the tile."""
        first = arith.addi(
            arith.muli(self.head, index(self.shape.sharing)),
            arith.muli(self.turn, index(self.tile.rows)),
        )
        return [arith.addi(first, index(place)) for place in range(self.tile.rows)]

    def _load_query(
        self, query: ir.Value, head: ir.Value, buffer: ir.Value, place: ir.Value
    ) -> None:
        row = self._row(query, self.shape.query_offset, head, self.caches.channels)
        by = factor(self.shape.scale, self.shape.softcap)

        def write(x: ir.Value, at: ir.Value) -> None:
            store_lanes(arith.mulf(x, splat(by, x.type)), buffer, [place, at])

        self.preparation.query(row, write)

    def _load_key(self, key: ir.Value, buffer: ir.Value) -> None:
        """As the cache will have it."""
        row = self._row(key, self.shape.key_offset, self.head, self.caches.channels)
        element = self.caches.keys.type.element_type

        def write(x: ir.Value, at: ir.Value) -> None:
            store_lanes(rounded(x, element), buffer, [at])

        self.preparation.key(row, write)

    def _own_values(self, value: ir.Value) -> list[ir.Value]:
        """This thread's channels of the new value, as the cache will have them."""
        width, element = self.caches.value_channels, self.caches.values.type.element_type
        first = self.shape.begin(self.shape.value_offset, self.head, width)
        return [
            rounded(load_one(value, self.row, arith.addi(first, channel)), element)
            for channel in own_channels(width, self.tile.threads)
        ]

    def _append(self, key: ir.Value, value: list[ir.Value]) -> None:
        place, threads = [*self.caches.head, self.past], self.tile.threads
        row = HeadRow(key, [], index(0), self.caches.channels, LANES, spread(threads))
        row.copy(lambda x, at: store_lanes(x, self.caches.keys, [*place, at]))
        store_channels(
            value, self.caches.value_channels, threads, self.caches.values, place, index(0)
        )

    def _leave(self, state: State, place: int, room: ir.Value, where: list[ir.Value]) -> None:
        """Writes what row `place` of the tile has seen; all threads know its peak and total."""
        width = self.caches.value_channels
        store_channels(state.sums[place], width, self.tile.threads, room, where, index(0))
        memref.store(state.peaks[place], room, [*where, index(width)])
        memref.store(state.totals[place], room, [*where, index(width + 1)])

    def _row(self, buffer: ir.Value, offset: int, head: ir.Value, channels: int) -> HeadRow:
        first = self.shape.begin(offset, head, channels)
        return HeadRow(buffer, [self.row], first, channels, LANES, spread(self.tile.threads))


def _load_slot(slot: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The first sequence and the column of the token."""
    return load_index(slot, index(0)), load_index(slot, index(1))


def _at_least_one(count: ir.Value) -> ir.Value:
    return arith.maxui(count, index(1))


def _sum(room: ir.Value, where: list[ir.Value], parts: ir.Value, channels: list[ir.Value]) -> State:
    """What the head at `where` has seen in all `parts`, as far as `channels` go."""
    f32 = T.f32()
    width = room.type.shape[3] - 2
    zero = constant(0.0, f32)
    empty = State([constant(NOTHING, f32)], [zero], [[zero] * len(channels)])
    loop = scf.ForOp(index(0), parts, index(1), empty.values)
    with ir.InsertionPoint(loop.body):
        old = empty.of(list(loop.inner_iter_args))
        found = [*where, loop.induction_variable]
        (before,) = old.peaks
        peak = load_one(room, *found, index(width))
        highest = arith.maximumf(before, peak)
        by, of_new = (math.exp2(arith.subf(each, highest)) for each in (before, peak))

        def added(sum_: ir.Value, at: ir.Value) -> ir.Value:
            return multiply_add(load_one(room, *found, at), of_new, arith.mulf(sum_, by))

        total = added(old.totals[0], index(width + 1))
        sums = [added(*each) for each in zip(old.sums[0], channels, strict=True)]
        scf.YieldOp(State([highest], [total], [sums]).values)
    return empty.of(list(loop.results))
