"""Heads as linear layers leave them: what attention makes of them where a GPU reads them."""

from dataclasses import dataclass

from torch_mlir import ir

from llmc.pipelines.kernels.head_row import NormConstants, Rotation, Write
from llmc.pipelines.kernels.kernel import in_symbol
from llmc.pipelines.kernels.threads import spread
from llmc.pipelines.kernels.token_heads import TokenHeads


@dataclass(frozen=True)
class RawHeads:
    """Heads that lie as `places` says, what is done to them, and by which `factors`.

    Factors are the buffers `cos` and `sin [B or 1, T, R]`, where heads are `rotated`, by pairs that
    are `interleaved` or not, and `weight [L, D]`, where a `norm` is given, which comes first.
    """

    places: TokenHeads
    rotated: bool
    interleaved: bool
    norm: NormConstants | None

    @property
    def text(self) -> str:
        """What the types of the buffers do not say, as part of a symbol."""
        turned = ("interleaved",) if self.interleaved else ()
        normed = (self.norm.text,) if self.norm else ()
        return in_symbol(self.places.offset, *turned, *normed)

    def make(
        self,
        buffer: ir.Value,
        factors: list[ir.Value],
        layer: ir.Value,
        where: tuple[ir.Value, ir.Value, ir.Value],
        threads: int,
        write: Write,
    ) -> None:
        """Passes the channels at `where`, a sequence, head and token, to `write(values, at)`.

        Each of `threads` threads has some of them.
        """
        sequence, head, token = where
        row = self.places.row(buffer, sequence, head, token, spread(threads))
        if self.norm is not None:
            row = row.normed(self.norm.of(factors[-1], layer))
        turned = Rotation(factors[:2], sequence, token, self.interleaved)
        rotation = turned if self.rotated else None
        row.turn(rotation, write)
