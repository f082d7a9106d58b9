"""A KV cache is allocated anew only where the one that is there does not do."""

from dataclasses import replace

import numpy as np
import pytest

from llmc.runtime.engine import Engine
from llmc.runtime.model import load
from llmc.runtime.runner import Runner

TOKENS = np.random.default_rng(0).integers(5, 300, 40).tolist()


@pytest.fixture
def engine(tiny_bundle) -> Runner:
    return load(tiny_bundle).engine


def logits(engine: Runner, tokens: list[int]) -> np.ndarray:
    """After all `tokens` but the last, and after that."""
    *prompt, last = tokens
    first = engine.prefill(prompt, 0).logits.copy()
    return np.concatenate([first, engine.decode([last], len(prompt), [0]).logits])


def spied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """What engines allocate from now on."""
    allocated, really = [], Engine._allocate

    def spy(self: Engine, *room: int) -> None:
        allocated.append(room)
        really(self, *room)

    monkeypatch.setattr(Engine, "_allocate", spy)
    return allocated


@pytest.mark.parametrize(
    ("sequences", "capacity", "anew"),
    [(1, 100, False), (1, 60, False), (1, 50, False), (1, 101, True), (1, 49, True), (2, 60, True)],
)
def test_room_that_suffices_is_used_again(engine, monkeypatch, sequences, capacity, anew):
    engine.reset(1, 100)
    allocated = spied(monkeypatch)
    engine.reset(sequences, capacity)
    assert allocated == ([(0, 0), (sequences, capacity)] if anew else [])
    assert (engine.room.sequences, engine.room.capacity) == (sequences, capacity)


@pytest.mark.parametrize(("capacity", "anew"), [(512, False), (1, False), (513, True)])
def test_room_is_of_whole_cells(engine, tiny_bundle, monkeypatch, capacity, anew):
    """Even where a cache is not of cells, as some layers' may be beside others'."""
    tokens, other = (TOKENS * 13)[:capacity], load(tiny_bundle).engine
    other.reset(1, capacity)
    expected = other.prefill(tokens, 0).logits
    in_cells = replace(engine._memory, kv_room=lambda tokens: -(-tokens // 512) * 512)
    monkeypatch.setattr(engine, "_memory", in_cells)
    engine.reset(1, 100)
    allocated = spied(monkeypatch)
    engine.reset(1, capacity)
    assert bool(allocated) == anew
    np.testing.assert_array_equal(engine.prefill(tokens, 0).logits, expected)
    assert (engine.room.sequences, engine.room.capacity) == (1, capacity)


def test_what_was_in_it_is_forgotten(engine):
    engine.reset(1, len(TOKENS))
    expected = logits(engine, TOKENS)
    engine.reset(1, 2 * len(TOKENS))
    logits(engine, 2 * TOKENS[::-1])
    engine.reset(1, len(TOKENS))
    np.testing.assert_array_equal(logits(engine, TOKENS), expected)
