"""Replicas of a model, which share the sequences of a batch out among them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any, TypeVar

import numpy as np

from llmc.runtime.engine import Engine
from llmc.runtime.ranks.communicator import Communicator
from llmc.runtime.ranks.grid import Grid
from llmc.runtime.runner import Output, Runner, Together, rows

AXIS = "dp"

T = TypeVar("T")


class Replicas(Runner):
    """Runs on every rank what its replica, those at one place along the axis `dp`, has of a batch.

    Each replica has some sequences one after another, the first as many as any; where there are
    fewer than replicas, others rest. Rank 0 gets what all have computed, and another rank no more
    than its own.
    """

    def __init__(
        self, engine: Engine, communicator: Communicator, grid: Grid, together: Together
    ) -> None:
        """`engine` is this rank's of the `grid`, and is called by nobody else."""
        super().__init__(engine.room.vocabulary)
        self._engine = engine
        self._communicator = communicator
        self._together = together
        axis = [axis.name for axis in grid.axes].index(AXIS)
        self._leaders = grid.group(0, 1 << axis)
        self._replica = grid.coordinates(communicator.rank)[axis]
        self._shares: list[range] = []

    def reset(self, sequences: int, capacity: int) -> int:
        """Each replica for its own; one that rests frees what it had."""
        count = len(self._leaders)
        bounds = [-(-sequences * replica // count) for replica in range(count + 1)]
        shares = [range(*bound) for bound in pairwise(bounds)]
        room = max(len(shares[self._replica]), 1)
        self._engine.require_room(room, capacity)
        with self.lock, self._together("reset", sequences, capacity):
            claim = self.claim()
            self._shares = shares
            self._engine.reset(room, capacity if self._mine else 1)
            self.room = replace(self.room, sequences=sequences, capacity=capacity)
        return claim

    def prefill(self, tokens: list[int], past: int, sequence: int = 0, start: int = 0) -> Output:
        """On the replica that has the sequence."""
        self.room.require_sequence(tokens, past, sequence, start)
        with self._together("prefill", tokens, past, sequence, start):
            if sequence not in self._mine:
                return self._gathered_output(None)
            here = sequence - self._mine.start
            return self._gathered_output(self._engine.prefill(tokens, past, here, start))

    def prefill_batch(self, prompts: list[list[int]], starts: list[int], past: int = 0) -> Output:
        """On all replicas at once."""
        self.room.require_batch(prompts, past, starts)
        with self._together("prefill_batch", prompts, starts, past):
            if not self._mine:
                return self._gathered_output(None)
            part = self._engine.prefill_batch(self._part(prompts), self._part(starts), past)
            return self._gathered_output(part)

    def decode(self, tokens: list[int], past: int, starts: list[int]) -> Output:
        """On all replicas at once."""
        self.room.require_batch([[token] for token in tokens], past, starts)
        with self._together("decode", tokens, past, starts):
            if not self._mine:
                return self._gathered_output(None)
            part = self._engine.decode(self._part(tokens), past, self._part(starts))
            return self._gathered_output(part)

    def greedy(
        self, tokens: list[int], past: int, starts: list[int], count: int
    ) -> list[list[int]]:
        """As many steps as all replicas have made."""
        self.room.require_batch([[token] for token in tokens], past, starts)
        self.room.require_columns(past, count)
        with self._together("greedy", tokens, past, starts, count):
            steps: list[list[int]] = []
            if self._mine:
                steps = self._engine.greedy(self._part(tokens), past, self._part(starts), count)
            gathered = zip(*self._gathered(steps), strict=False)
            return [list(chain.from_iterable(parts)) for parts in gathered]

    @property
    def _mine(self) -> range:
        return self._shares[self._replica]

    def _part(self, of_sequences: list[T]) -> list[T]:
        return of_sequences[self._mine.start : self._mine.stop]

    def _gathered_output(self, part: Output | None) -> Output:
        """The output for all replicas' sequences, of which this one has computed `part`."""
        best = list(chain.from_iterable(self._gathered(part.best if part else [])))

        def read_logits() -> np.ndarray:
            with self._together("logits"):
                mine = part.logits.tobytes() if part else b""
                all_logits = bytearray().join(self._gathered_messages(mine))
            # One row where there is nothing, on a replica that rests.
            return np.frombuffer(all_logits, np.float32).reshape(len(best) or 1, -1)

        return Output(
            best,
            read_logits,
            lambda count: rows(self._gathered(part.find_top(count) if part else ([], []))),
            self._together,
        )

    def _gathered(self, mine: Sequence[Any]) -> list[Any]:
        messages = self._gathered_messages(json.dumps(mine).encode())
        return [json.loads(message) for message in messages]

    def _gathered_messages(self, mine: bytes) -> list[bytes]:
        """On rank 0 what the first rank of each replica that does not rest gives."""
        rank = self._communicator.rank
        others = [
            leader for leader, share in zip(self._leaders, self._shares, strict=True) if share
        ][1:]
        if rank == 0:
            return [mine, *map(self._communicator.receive_message, others)]
        if rank in others:
            self._communicator.send_message(mine, 0)
        return [mine]
