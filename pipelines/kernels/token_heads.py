"""The heads of many tokens, which workgroups go through token by token."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, scf

from llmc.dialects.index_notation import Size, index
from llmc.pipelines.kernels.head_row import HeadRow, Loop, in_turn
from llmc.pipelines.kernels.kernel import div_rem

# Tokens of a workgroup.
_TOKENS = 16


@dataclass(frozen=True)
class TokenHeads:
    """Where H `heads` of D `channels` lie for all T tokens of B sequences, the `batch`.

    In a buffer `[B, H, T, D]`, or, where an `offset` is given, in one `[B, _, N]` from channel
    `offset` on. `widest` is the number of floats in a vector register.
    """

    batch: int
    heads: int
    channels: int
    offset: int | None
    widest: int

    def grid(self, tokens: ir.Value) -> tuple[Size, Size]:
        """A workgroup for some tokens of a head."""
        return arith.ceildivui(tokens, index(_TOKENS)), self.batch * self.heads

    def each(
        self, buffer: ir.Value, tile: ir.Value, number: ir.Value, tokens: ir.Value
    ) -> Iterator[tuple[HeadRow, ir.Value, ir.Value, ir.Value]]:
        """A loop over the tokens of workgroup (tile, number): row, sequence, head and token."""
        sequence, head = div_rem(number, self.heads)
        begin = arith.muli(tile, index(_TOKENS))
        end = arith.minui(arith.addi(begin, index(_TOKENS)), tokens)
        for token in scf.for_(begin, end, index(1)):
            yield self.row(buffer, sequence, head, token), sequence, head, token
            scf.yield_([])

    def row(
        self,
        buffer: ir.Value,
        sequence: ir.Value,
        head: ir.Value,
        token: ir.Value,
        loop: Loop = in_turn,
    ) -> HeadRow:
        """That of a head of a token, passed on in a `loop`."""
        if self.offset is None:
            place, first = [sequence, head, token], index(0)
        else:
            place = [sequence, token]
            first = arith.addi(index(self.offset), arith.muli(head, index(self.channels)))
        return HeadRow(buffer, place, first, self.channels, self.widest, loop)
