"""What a KV cache has room for, and which tokens a model knows: a module checks neither."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llmc.runtime.errors import UserError


@dataclass(frozen=True)
class Room:
    """Room for `sequences` of up to `capacity` columns each, of tokens below `vocabulary`."""

    vocabulary: int
    sequences: int = 0
    capacity: int = 0

    def require_sequence(self, tokens: Sequence[int], past: int, sequence: int, start: int) -> None:
        """UserError unless `tokens` of one sequence, whose columns begin at `start`, fit."""
        if not 0 <= sequence < self.sequences:
            raise UserError(
                f"the KV cache has room for {self.sequences} sequences: none is number {sequence}"
            )
        self._require_row(tokens, past, start)

    def require_batch(
        self, rows: Sequence[Sequence[int]], past: int, starts: Sequence[int]
    ) -> None:
        """UserError unless tokens of all sequences, in columns `past` on, fit."""
        if not len(rows) == len(starts) == self.sequences:
            raise UserError(
                f"the KV cache has room for {self.sequences} sequences: "
                f"tokens are given for {len(rows)}, and starts for {len(starts)}"
            )
        for row, start in zip(rows, starts, strict=True):
            self._require_row(row, past, start)

    def require_columns(self, past: int, count: int) -> None:
        """UserError unless columns `past` to `past + count - 1`, one at least, are there."""
        if not (count > 0 and 0 <= past <= self.capacity - count):
            raise UserError(
                f"the KV cache has room for {self.capacity} columns: "
                f"{count} from column {past} on are not among them"
            )

    def _require_row(self, tokens: Sequence[int], past: int, start: int) -> None:
        require_tokens(tokens, self.vocabulary)
        self.require_columns(past, len(tokens))
        if not 0 <= start < past + len(tokens):
            raise UserError(
                f"a sequence of {past + len(tokens)} columns does not start at column {start}"
            )


def require_tokens(tokens: Iterable[int], vocabulary: int) -> None:
    """UserError unless all `tokens` are of a `vocabulary` of so many."""
    for token in tokens:
        if not 0 <= token < vocabulary:
            raise UserError(f"token {token} is not in the vocabulary of 0 to {vocabulary - 1}")
