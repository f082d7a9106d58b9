"""Attention over caches of blocks of 8 bits: products of bytes in integers.

Lanes are columns where keys are multiplied, whose words of four channels are turned to lie side by
side, and channels where values are added up. What meets the bytes becomes integers of two digits of
7 bits, multiplied one by one: beside the rounding of a cache's numbers to 8 bits, theirs is lost.
"""

from itertools import product

from torch_mlir import ir
from torch_mlir.dialects import arith, math, memref, scf, vector

from llmc.dialects.blocks import Q8_0
from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.byte_rows import ByteRows, interleaved, join
from llmc.pipelines.kernels.cache_rows import INTEGERS, SCALE, read_bytes
from llmc.pipelines.kernels.kernel import multiply_add
from llmc.pipelines.kernels.online_softmax import BLOCK, HEADS, Caches, OnlineSoftmax, buffer
from llmc.pipelines.kernels.vectors import (
    divisor,
    floats,
    highest,
    load,
    maximum,
    splat,
    transpose,
)
from llmc.pipelines.schedules.byte_instructions import INSTRUCTIONS, vpdpbusd
from llmc.pipelines.schedules.byte_instructions import splat as integers

# Bits of a digit, of which a number has two.
_BITS = 7
_DIGITS = range(2)
# What the largest of a block's queries becomes, and a weight of 1 by the largest scale. A query's
# low digit is at least -64.
_QUERY, _WEIGHT = 127.0 * 2**_BITS / 2, 2.0 ** (2 * _BITS) - 1
# What a number is taken for at least, so that it divides.
_LEAST = 1e-30
# Bytes of a lane of 32 bits: channels of a key, or columns of values.
_WORD = 4
# Columns whose scales are gathered together.
_GATHERED = 16
# Sums of 32 bits of instructions that have as many whatever the register.
_LANES = {"vpmaddubsw": 8, "sdot": 4, "smmla": 4}
# Vectors of sums that stay in registers, of which there are 32 if they are the widest.
_SUMS = {16: 24, 8: 12, 4: 12}


class ByteSoftmax(OnlineSoftmax):
    """`OnlineSoftmax` over keys and values in blocks, as `cache_rows` says, by an `instruction`.

    Buffers of the queries: `digits [heads, blocks, 2, 32]`, of which 1 is worth `steps [heads,
    blocks]`, and `starts [heads, blocks]` for the sums of products. Of a block of columns:
    `key_scales` and `value_scales [blocks, columns * 2]`, the bytes of float16, and digits of
    weights by scales `shares [heads, blocks, 2, columns]`, of which 1 is worth `units [blocks]`.
    """

    def __init__(
        self, heads: int, caches: Caches, lanes: int, softcap: float, instruction: str
    ) -> None:
        super().__init__(heads, caches, _LANES.get(instruction, lanes), softcap)
        self.multiply = INSTRUCTIONS[instruction]
        self.signed = self.multiply is not vpdpbusd  # which wants unsigned bytes
        self.keys, self.values = (
            ByteRows(cache, caches.head) for cache in (caches.keys, caches.values)
        )
        i32, byte = (ir.IntegerType.get_signless(bits) for bits in (32, 8))
        self.words = ir.VectorType.get([self.lanes], i32)
        self.bytes_of_words = ir.VectorType.get([_WORD * self.lanes], byte)
        in_key, in_value = caches.channels // Q8_0.values, caches.value_channels // Q8_0.values
        self.digits = buffer(heads, in_key, len(_DIGITS), Q8_0.values, element=byte)
        self.steps, self.starts = buffer(heads, in_key), buffer(heads, in_key, element=i32)
        self.key_scales = buffer(in_key, 2 * BLOCK, element=byte)
        self.value_scales = buffer(in_value, 2 * BLOCK, element=byte)
        self.shares = buffer(heads, in_value, len(_DIGITS), BLOCK, element=byte)
        self.units = buffer(in_value)

    @staticmethod
    def bytes(heads: int, caches: Caches, lanes: int) -> int:
        """What the buffers take."""
        in_key, in_value = caches.channels // Q8_0.values, caches.value_channels // Q8_0.values
        of_head = in_key * (2 * Q8_0.values + 8) + in_value * 2 * BLOCK
        of_all = (in_key + in_value) * 2 * BLOCK + 4 * in_value
        return OnlineSoftmax.bytes(heads, caches, lanes) + heads * of_head + of_all

    def attend(self, begin: ir.Value, end: ir.Value) -> None:
        """Takes in columns `begin` to `end - 1`, if there are any."""
        for head in scf.for_(index(0), index(self.heads)):
            for block in scf.for_(index(0), index(self.steps.type.shape[1])):
                self._round_query(head, block)
                scf.yield_([])
            scf.yield_([])
        super().attend(begin, end)

    def begin_block(self, column: ir.Value, count: ir.Value) -> None:
        """Gathers the scales of the keys."""
        self._gather(self.keys, self.key_scales, column, count)

    def products(
        self, heads: list[ir.Value], column: ir.Value, at: ir.Value, limit: ir.Value | None
    ) -> list[ir.Value]:
        """The products, block by block for all columns; the sums of blocks wait in `scores`."""
        rows = self._rows(self.keys, column, at, self.lanes, limit)
        self.values.prefetch(arith.addi(column, at), self.lanes)
        end = arith.addi(heads[-1], index(1))
        for block in range(self.steps.type.shape[1]):
            keys, scales = self._keys(block, rows), self._scales(self.key_scales, block, at)
            for head in scf.for_(heads[0], end, index(1)):
                step = memref.load(self.steps, [head, index(block)])
                factors = arith.mulf(scales, vector.broadcast(scales.type, step))
                products = arith.sitofp(scales.type, self._integer_products(head, block, keys))
                place = [head, at]
                sum_ = load(self.scores, place, self.lanes) if block else splat(0.0, self.lanes)
                vector.store(multiply_add(products, factors, sum_), self.scores, place)
                scf.yield_([])
        return [load(self.scores, [head, at], self.lanes) for head in heads]

    def add_values(self, column: ir.Value, count: ir.Value) -> None:
        """The values by their weights, some heads and some channels at a time."""
        self._gather(self.values, self.value_scales, column, count)
        together = divisor(self.heads, HEADS)
        chunks = self.caches.value_channels // self.lanes
        wide = divisor(chunks, _SUMS[self.lanes] // (len(_DIGITS) * together))
        for first in scf.for_(index(0), index(self.heads), index(together)):
            heads = [arith.addi(first, index(i)) for i in range(together)]
            self._round_weights(heads, count)
            for chunk in range(0, chunks, wide):
                self._add_chunks(heads, range(chunk, chunk + wide), column, count)
            scf.yield_([])

    def _round_query(self, head: ir.Value, block: ir.Value) -> None:
        """Makes digits of 32 channels."""
        f32, i32 = ir.F32Type.get(), self.words.element_type
        at = [head, arith.muli(block, index(Q8_0.values))]
        numbers = vector.load(floats(Q8_0.values), self.query, at)
        largest = arith.maximumf(
            vector.reduction(f32, vector.CombiningKind.MAXIMUMF, math.absf(numbers)),
            constant(_LEAST, f32),
        )
        memref.store(arith.divf(largest, constant(_QUERY, f32)), self.steps, [head, block])
        inverse = arith.divf(constant(_QUERY, f32), largest)
        wide = ir.VectorType.get([Q8_0.values], i32)
        nearest = math.roundeven(arith.mulf(numbers, vector.broadcast(numbers.type, inverse)))
        whole = arith.fptosi(wide, nearest)
        high = arith.addi(whole, integers(2 ** (_BITS - 1), wide))
        high = arith.shrsi(high, integers(_BITS, wide))
        low = arith.subi(whole, arith.shli(high, integers(_BITS, wide)))
        for digit, part in zip(_DIGITS, (high, low), strict=True):
            stored = arith.trunci(
                ir.VectorType.get([Q8_0.values], self.digits.type.element_type), part
            )
            vector.store(stored, self.digits, [head, block, index(digit), index(0)])
        sum_ = vector.reduction(i32, vector.CombiningKind.ADD, whole)
        # Keys that must be unsigned have 128 too much.
        start = arith.muli(sum_, constant(0 if self.signed else -128, i32))
        memref.store(start, self.starts, [head, block])

    def _gather(self, rows: ByteRows, scales: ir.Value, column: ir.Value, count: ir.Value) -> None:
        """Puts the scales of a block's columns side by side, and zeros up to a whole vector."""
        blocks = range(scales.type.shape[0])
        last = arith.muli(
            arith.divui(arith.subi(count, index(1)), index(self.lanes)), index(2 * self.lanes)
        )
        zeros = ir.VectorType.get([2 * self.lanes], scales.type.element_type)
        for block in blocks:
            vector.store(integers(0, zeros), scales, [index(block), last])
        whole = arith.muli(arith.divui(count, index(_GATHERED)), index(_GATHERED))
        for begin, end, step in ((index(0), whole, _GATHERED), (whole, count, 1)):
            for offset in scf.for_(begin, end, index(step)):
                row, at = rows.begin(arith.addi(column, offset)), arith.muli(offset, index(2))
                for number, block in product(range(step), blocks):
                    scale = number * rows.bytes + block * Q8_0.bytes + SCALE
                    place = [index(block), arith.addi(at, index(2 * number))]
                    vector.store(rows.read(row, scale, 2), scales, place)
                scf.yield_([])

    def _scales(self, scales: ir.Value, block: int, at: ir.Value) -> ir.Value:
        """Scales of the columns from `at` on."""
        both = read_bytes(scales, [index(block), arith.muli(at, index(2))], 2 * self.lanes)
        halves = vector.bitcast(ir.VectorType.get([self.lanes], ir.F16Type.get()), both)
        return arith.extf(floats(self.lanes), halves)

    def _rows(
        self, rows: ByteRows, column: ir.Value, at: ir.Value, count: int, limit: ir.Value | None
    ) -> list[tuple[ir.Value, int]]:
        """Where the rows of `count` columns begin; those past the limit with the last before."""
        if limit is None:
            first = rows.begin(arith.addi(column, at))
            return [(first, number * rows.bytes) for number in range(count)]
        last = arith.subi(limit, index(1))
        offsets = [arith.minui(arith.addi(at, index(i)), last) for i in range(count)]
        return [(rows.begin(arith.addi(column, offset)), 0) for offset in offsets]

    def _keys(self, block: int, rows: list[tuple[ir.Value, int]]) -> list[ir.Value]:
        """Of each word of a block the bytes of all columns."""
        together = min(Q8_0.values // _WORD, self.lanes)
        keys = []
        for at in range(0, Q8_0.values, _WORD * together):
            inner = block * Q8_0.bytes + INTEGERS + at
            parts = [self.keys.read(row, more + inner, _WORD * together) for row, more in rows]
            joined = [join(parts[number::together]) for number in range(together)]
            turned = transpose([vector.bitcast(self.words, each) for each in joined])
            keys += [vector.bitcast(self.bytes_of_words, each) for each in turned]
        if self.signed:
            return keys
        return [arith.xori(key, integers(-128, key.type)) for key in keys]

    def _integer_products(self, head: ir.Value, block: int, keys: list[ir.Value]) -> ir.Value:
        total = vector.broadcast(self.words, memref.load(self.starts, [head, index(block)]))
        most = 128 if self.signed else 255
        for digit, shift in zip(_DIGITS, (_BITS, 0), strict=True):
            place = [head, index(block), index(digit)]
            pairs = [
                (key, self._word(self.digits, [*place, index(_WORD * number)]))
                for number, key in enumerate(keys)
            ]
            # Of its own, so that the digits' sums do not wait for each other.
            sum_ = self.multiply(integers(0, self.words), pairs, self.signed, most)
            total = arith.addi(total, arith.shli(sum_, integers(shift, self.words)))
        return total

    def _round_weights(self, heads: list[ir.Value], count: ir.Value) -> None:
        """Makes digits of a block's weights by the scales of values; the weights are 1 at most."""
        stored = ir.VectorType.get([self.lanes], self.shares.type.element_type)
        for block in range(self.units.type.shape[0]):
            inverse = vector.broadcast(floats(self.lanes), self._unit(block, count))
            for at in scf.for_(index(0), count, index(self.lanes)):
                factor = arith.mulf(self._scales(self.value_scales, block, at), inverse)
                for head in heads:
                    weight = load(self.scores, [head, at], self.lanes)
                    nearest = multiply_add(weight, factor, splat(0.5, self.lanes))
                    whole = arith.fptosi(self.words, nearest)
                    high = arith.shrui(whole, integers(_BITS, self.words))
                    low = arith.andi(whole, integers(2**_BITS - 1, self.words))
                    for digit, part in zip(_DIGITS, (high, low), strict=True):
                        place = [head, index(block), index(digit), at]
                        vector.store(arith.trunci(stored, part), self.shares, place)
                scf.yield_([])

    def _unit(self, block: int, count: ir.Value) -> ir.Value:
        """Stores what 1 in the digits is worth, and gives its inverse."""
        loop = scf.ForOp(index(0), count, index(self.lanes), [splat(_LEAST, self.lanes)])
        with ir.InsertionPoint(loop.body):
            scales = self._scales(self.value_scales, block, loop.induction_variable)
            scf.yield_([maximum(loop.inner_iter_args[0], scales)])
        largest = vector.extract(highest(loop.results[0]), [], [0])
        most = constant(_WEIGHT, largest.type)
        memref.store(arith.divf(largest, most), self.units, [index(block)])
        return arith.divf(most, largest)

    def _add_chunks(
        self, heads: list[ir.Value], chunks: range, column: ir.Value, count: ir.Value
    ) -> None:
        """Adds a block's values to the sums of `chunks` of as many channels as there are lanes."""
        sums = [integers(0, self.words)] * (len(heads) * len(chunks) * len(_DIGITS))
        whole = arith.muli(arith.divui(count, index(_WORD)), index(_WORD))
        for begin, end, limit in ((index(0), whole, None), (whole, count, count)):
            loop = scf.ForOp(begin, end, index(_WORD), sums)
            with ir.InsertionPoint(loop.body):
                at = loop.induction_variable
                if limit is None and chunks.start == 0:
                    ahead = arith.addi(arith.addi(column, at), index(BLOCK))
                    self.keys.prefetch(ahead, _WORD)
                values = self._values(chunks, column, at, limit)
                scf.yield_(self._added(list(loop.inner_iter_args), heads, chunks, values, at))
            sums = list(loop.results)
        results = iter(sums)
        for head, chunk in product(heads, chunks):
            high, low = next(results), next(results)
            both = arith.addi(arith.shli(high, integers(_BITS, self.words)), low)
            self._add_sum(head, chunk, arith.sitofp(floats(self.lanes), both))

    def _values(
        self, chunks: range, column: ir.Value, at: ir.Value, limit: ir.Value | None
    ) -> list[ir.Value]:
        """Of each chunk the bytes of four columns, those of a channel together."""
        rows, values = self._rows(self.values, column, at, _WORD, limit), []
        for chunk in chunks:
            block, channel = divmod(chunk * self.lanes, Q8_0.values)
            inner = block * Q8_0.bytes + INTEGERS + channel
            parts = [self.values.read(row, more + inner, self.lanes) for row, more in rows]
            values.append(interleaved(parts))
        return values

    def _added(
        self,
        sums: list[ir.Value],
        heads: list[ir.Value],
        chunks: range,
        values: list[ir.Value],
        at: ir.Value,
    ) -> list[ir.Value]:
        """`sums` with `values` by their weights."""
        before, after = iter(sums), []
        for head, (chunk, value) in product(heads, zip(chunks, values, strict=True)):
            for digit in _DIGITS:
                place = [head, index(chunk * self.lanes // Q8_0.values), index(digit), at]
                pair = (self._word(self.shares, place), value)
                after.append(self.multiply(next(before), [pair], False, 2**_BITS - 1))
        return after

    def _add_sum(self, head: ir.Value, chunk: int, sum_: ir.Value) -> None:
        shrink, unit = (
            vector.broadcast(sum_.type, memref.load(factors, place))
            for factors, place in (
                (self.shrinks, [head, index(0)]),
                (self.units, [index(chunk * self.lanes // Q8_0.values)]),
            )
        )
        place = [head, index(chunk * self.lanes)]
        before = arith.mulf(load(self.sums, place, self.lanes), shrink)
        vector.store(multiply_add(sum_, unit, before), self.sums, place)

    def _word(self, bytes_: ir.Value, where: list[ir.Value]) -> ir.Value:
        """Four of `bytes_`, in every lane."""
        one = ir.VectorType.get([1], self.words.element_type)
        word = vector.bitcast(one, read_bytes(bytes_, where, _WORD))
        words = vector.broadcast(self.words, vector.extract(word, [], [0]))
        return vector.bitcast(self.bytes_of_words, words)
