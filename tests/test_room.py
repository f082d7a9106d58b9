"""An engine refuses what its KV cache has no room for: the module would write beyond it."""

import numpy as np
import pytest

import llmc.runtime
from llmc.runtime.engine import Engine
from llmc.runtime.errors import UserError

CAPACITY = 6


@pytest.fixture(scope="module")
def model(endless_bundle):
    return llmc.runtime.load(endless_bundle)


def run(engine: Engine) -> np.ndarray:
    engine.prefill_batch([[5, 6, 7], [5, 5, 8]], [0, 1])
    return engine.decode([3, 4], CAPACITY - 1, [0, 1]).logits


def sampled(engine, past: int, count: int) -> list[list[int]]:
    return engine.sample([3, 4], past, [0, 1], 5, [1.0, 1.0, 0.0], [[0.5, 0.5]] * count)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: e.decode([3, 4], CAPACITY, [0, 1]), "room for 6 columns: 1 from column 6 on"),
        (lambda e: e.decode([3, 4], -1, [0, 0]), "1 from column -1 on"),
        (lambda e: e.decode([3], 3, [0]), "tokens are given for 1, and starts for 1"),
        (lambda e: e.decode([3, 4], 3, [0]), "tokens are given for 2, and starts for 1"),
        (lambda e: e.decode([3, 4], 3, [0, 4]), "of 4 columns does not start at column 4"),
        (lambda e: e.decode([3, -1], 3, [0, 0]), "token -1 is not in the vocabulary"),
        (lambda e: e.greedy([3, 4], CAPACITY - 2, [0, 1], 3), "3 from column 4 on"),
        (lambda e: e.greedy([3, 4], 3, [0, 1], 0), "0 from column 3 on"),
        (lambda e: sampled(e, CAPACITY - 2, 3), "3 from column 4 on"),
        (lambda e: sampled(e, 3, 0), "0 from column 3 on"),
        (lambda e: e.prefill([5] * (CAPACITY + 1), 0), "7 from column 0 on"),
        (lambda e: e.prefill([5, 5], CAPACITY - 1), "2 from column 5 on"),
        (lambda e: e.prefill([], 0), "0 from column 0 on"),
        (lambda e: e.prefill([5], 0, sequence=2), "2 sequences: none is number 2"),
        (lambda e: e.prefill([5], 0, sequence=-1), "none is number -1"),
        (lambda e: e.prefill([5], 0, start=-1), "does not start at column -1"),
        (lambda e: e.prefill([5, 1 << 40], 0), "token 1099511627776 is not in the vocabulary"),
        (lambda e: e.prefill_batch([[5]], [0]), "tokens are given for 1, and starts for 1"),
        (lambda e: e.prefill_batch([[5], [5] * 7], [0, 0]), "7 from column 0 on"),
    ],
)
def test_what_does_not_fit_is_refused(model, call, message):
    engine = model.engine
    engine.reset(2, CAPACITY)
    expected = run(engine)
    with pytest.raises(UserError, match=message):
        call(engine)
    np.testing.assert_array_equal(run(engine), expected)
    engine.greedy([3, 4], CAPACITY - 2, [0, 1], 2)  # as many as fit
    sampled(engine, CAPACITY - 2, 2)


def test_the_engine_has_no_room_before_it_is_told(endless_bundle):
    with pytest.raises(UserError, match="room for 0 sequences"):
        llmc.runtime.load(endless_bundle).engine.prefill([5], 0)


def test_what_the_device_cannot_allocate_is_refused(model, monkeypatch):
    engine = model.engine
    monkeypatch.setattr(engine, "_memory", None)  # as where nobody knows how much there is
    claim = engine.reset(1, CAPACITY)
    with pytest.raises(UserError):
        engine.reset(1, 1 << 44)
    assert not engine.holds(claim)
    with pytest.raises(UserError, match="room for 0 sequences"):
        engine.prefill([5], 0)
    engine.reset(2, CAPACITY)
    run(engine)
