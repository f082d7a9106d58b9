"""A head's row of a linear layer's result, as attention wants it: normed, turned and scaled."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from torch_mlir import ir
from torch_mlir.dialects import arith, math, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.kernel import in_symbol, multiply_add
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.kernels.vectors import floats, load, total, width_of

Write = Callable[[ir.Value, ir.Value], None]

Loop = Callable[[int, int, int], Iterable[ir.Value]]
"""Writes a loop from a number to one before another in steps, as `scf.for_`."""


def in_turn(start: int, end: int, step: int) -> Iterable[ir.Value]:
    """All of the steps, one after the other."""
    loop: Iterable[ir.Value] = scf.for_(index(start), index(end), index(step))
    return loop


@dataclass(frozen=True)
class Rotation:
    """Tables `cos` and `sin`, buffers `[B or 1, T, R]`, and the sequence and its token to turn.

    Pairs of channels are `interleaved` or not, as `llmc.rotary` says.
    """

    tables: list[ir.Value]
    batch: ir.Value
    token: ir.Value
    interleaved: bool

    @property
    def channels(self) -> int:
        """How many channels are turned."""
        return self.tables[0].type.shape[2]

    def factors(self, at: ir.Value, lanes: int) -> tuple[ir.Value, ir.Value]:
        """Cosines and sines from channel `at` on."""
        row = index(0) if self.tables[0].type.shape[0] == 1 else self.batch
        cos, sin = (load(table, [row, self.token, at], lanes) for table in self.tables)
        return cos, sin


@dataclass(frozen=True)
class NormConstants:
    """What is fixed when compiling of a `HeadNorm`."""

    epsilon: float
    offset: float

    @property
    def text(self) -> str:
        """As part of a symbol."""
        return f"normed_{in_symbol(self.epsilon, self.offset)}"

    def of(self, weight: ir.Value, layer: ir.Value) -> "HeadNorm":
        """The norm by row `layer` of `weight [layers, D]`."""
        return HeadNorm(weight, layer, self.epsilon, self.offset)


@dataclass(frozen=True)
class HeadNorm:
    """A root mean square normalisation by row `layer` of `weight [layers, D]`."""

    weight: ir.Value
    layer: ir.Value
    epsilon: float
    offset: float

    def factors(self, at: ir.Value, lanes: int) -> ir.Value:
        """What the channels from `at` on are multiplied by."""
        weight = load(self.weight, [self.layer, at], lanes)
        return arith.addf(weight, splat(self.offset, floats(lanes))) if self.offset else weight


@dataclass(frozen=True)
class HeadRow:
    """`channels` numbers of the row of `buffer [..., N]` that is at `where`, from `first` on.

    They are multiplied by `scale`, a number, and as `norm` says, where that is given. They are
    passed on in a `loop`.
    """

    buffer: ir.Value
    where: list[ir.Value]
    first: ir.Value
    channels: int
    lanes: int
    loop: Loop = in_turn
    norm: HeadNorm | None = None
    scale: ir.Value | None = None

    def normed(self, norm: HeadNorm) -> "HeadRow":
        """It, normalised."""
        lanes = width_of(self.lanes, self.channels)
        zero = splat(0.0, floats(lanes))
        loop = scf.ForOp(index(0), index(self.channels), index(lanes), [zero])
        with ir.InsertionPoint(loop.body):
            x = self._load(loop.induction_variable, lanes)
            scf.YieldOp([multiply_add(x, x, loop.inner_iter_args[0])])
        f32 = T.f32()
        mean = arith.divf(total(loop.results[0]), constant(float(self.channels), f32))
        scale = math.rsqrt(arith.addf(mean, constant(norm.epsilon, f32)))
        return replace(self, norm=norm, scale=scale)

    def copy(self, write: Write) -> None:
        """Passes all channels to `write(values, at)`, vector by vector."""
        self._each(0, self.channels, width_of(self.lanes, self.channels), write)

    def turn(self, rotation: Rotation | None, write: Write) -> None:
        """As `rotate` where there is a rotation, and as `copy` where not."""
        if rotation is None:
            self.copy(write)
        else:
            self.rotate(rotation, write)

    def rotate(self, rotation: Rotation, write: Write) -> None:
        """As `copy`, turned as `llmc.rotary` says."""
        turned = rotation.channels
        half = turned // 2
        lanes = width_of(self.lanes, half, self.channels)
        for pair in self.loop(0, half, lanes):
            other = arith.addi(pair, index(half))
            factors = [rotation.factors(at, lanes) for at in (pair, other)]
            if rotation.interleaved:
                first = arith.muli(pair, index(2))
                places = first, arith.addi(first, index(lanes))
                low, high = _dealt(*(self._load(at, lanes) for at in places))
                new = _joined(*_turned(low, high, factors))
            else:
                places = pair, other
                low, high = (self._load(at, lanes) for at in places)
                new = _turned(low, high, factors)
            for channels, at in zip(new, places, strict=True):
                write(channels, at)
            scf.yield_([])
        self._each(turned, self.channels, lanes, write)

    def _load(self, at: ir.Value, lanes: int) -> ir.Value:
        x = load(self.buffer, [*self.where, arith.addi(self.first, at)], lanes)
        if self.norm is None or self.scale is None:
            return x
        scaled = arith.mulf(x, vector.broadcast(floats(lanes), self.scale))
        return arith.mulf(scaled, self.norm.factors(at, lanes))

    def _each(self, start: int, end: int, lanes: int, write: Write) -> None:
        for at in self.loop(start, end, lanes):
            write(self._load(at, lanes), at)
            scf.yield_([])


@dataclass(frozen=True)
class Preparation:
    """What is done to heads before queries meet keys: a norm, where there is one, and a turn."""

    rotation: Rotation | None
    query_norm: HeadNorm | None
    key_norm: HeadNorm | None

    def query(self, row: HeadRow, write: Write) -> None:
        """Passes a query's `row`, prepared, to `write(values, at)`."""
        self._prepare(row, self.query_norm, write)

    def key(self, row: HeadRow, write: Write) -> None:
        """As `query`, of a key."""
        self._prepare(row, self.key_norm, write)

    def _prepare(self, row: HeadRow, norm: HeadNorm | None, write: Write) -> None:
        row = row.normed(norm) if norm else row
        row.turn(self.rotation, write)


def _turned(
    low: ir.Value, high: ir.Value, factors: list[tuple[ir.Value, ir.Value]]
) -> tuple[ir.Value, ir.Value]:
    """Both members of pairs, turned by the cosines and sines of each."""
    (cos, sin), (other_cos, other_sin) = factors
    new_low = multiply_add(arith.negf(high), sin, arith.mulf(low, cos))
    return new_low, multiply_add(low, other_sin, arith.mulf(high, other_cos))


def _dealt(x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The even and the odd channels of two vectors that follow each other."""
    lanes = x.type.shape[0]
    even, odd = (vector.shuffle(x, y, list(range(i, 2 * lanes, 2))) for i in range(2))
    return even, odd


def _joined(even: ir.Value, odd: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The two vectors that `_dealt` makes these of."""
    lanes = even.type.shape[0]
    order = [lane + lanes * i for lane in range(lanes) for i in range(2)]
    x, y = (vector.shuffle(even, odd, part) for part in (order[:lanes], order[lanes:]))
    return x, y
