"""Ranks of one machine: what they compute together, and how they find out that one is missing."""

import json
import os

import iree.runtime as rt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmc.runtime.errors import UserError
from llmc.runtime.hal_device import cpu_device
from llmc.runtime.ranks.agreement import agreement
from llmc.runtime.ranks.collective_module import Collectives
from llmc.runtime.ranks.communicator import bytes_moved
from llmc.runtime.ranks.cpus import CPUShare
from llmc.runtime.ranks.grid import Grid
from tests.collective_cases import check_collectives
from tests.rank_threads import on_ranks


@pytest.mark.parametrize("text", ["tp=2", "tp=3", "dp=2,tp=2"])
def test_collectives_are_what_numpy_says(text):
    grid = Grid.parse(text)
    on_ranks(grid.size, lambda communicator: check_collectives(communicator, grid))


def test_what_no_rank_needs_is_not_broadcast():
    def run(communicator):
        device = cpu_device(1)
        collectives = Collectives(communicator, Grid.parse("pp=2"), device)
        own = np.full(3, communicator.rank, np.float32)
        usage, memory = rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING, rt.MemoryType.HOST_LOCAL
        view = device.allocator.allocate_buffer_copy(
            int(memory), int(usage), device, own, rt.HalElementType.FLOAT_32
        )

        def told() -> float:
            shared = collectives.broadcast(view.ref, 1, 1).deref(rt.HalBufferView)
            return float(shared.map().asarray((3,), np.dtype(np.float32))[0])

        with collectives.unread():
            before = told()
        return before, told(), communicator.moved

    assert on_ranks(2, run) == [(0, 1, 12), (1, 1, 12)]


def test_what_rank_0_announces_arrives_in_order():
    messages = [b"", b"x", bytes(range(256)) * 5000]

    def run(communicator):
        if communicator.rank > 0:
            return [communicator.listen() for _ in messages]
        return [communicator.announce(message) for message in messages]

    assert on_ranks(3, run)[1:] == [messages, messages]


def test_a_rank_that_takes_no_part_is_named():
    def run(communicator):
        if communicator.rank != 1:
            communicator.start_all_reduce(np.ones(3, np.float32), communicator.world)()

    with pytest.raises(UserError, match=r"rank 1 took no part for 0\.2 s"):
        on_ranks(3, run, timeout_s=0.2)


@given(st.integers(0, 2**40), st.integers(1, 64))
def test_a_ring_moves_what_is_counted(piece, members):
    # One piece to the next rank in each step, until all ranks have had it.
    steps, whole = members - 1, piece * members
    assert bytes_moved("all_gather", whole, members) == steps * piece
    assert bytes_moved("reduce_scatter", whole, members) == steps * piece
    assert bytes_moved("all_reduce", whole, members) == 2 * steps * piece
    for operation in ("broadcast", "send", "shift"):
        assert bytes_moved(operation, piece, members) == piece * (members > 1)
    assert bytes_moved("receive", piece, members) == 0


@pytest.mark.parametrize("fault", ["bundle", "llmc", "failure", ""])
def test_ranks_with_something_else_are_refused_everywhere(fault, tmp_path, monkeypatch):
    for rank in range(3):
        (tmp_path / str(rank)).mkdir()
        manifest = {"name": "other" if fault == "bundle" and rank == 1 else "same"}
        (tmp_path / str(rank) / "manifest.json").write_text(json.dumps(manifest))
    versions = iter(["1", "1", "2"] if fault == "llmc" else ["1"] * 3)
    monkeypatch.setattr("importlib.metadata.version", lambda _: next(versions))

    def run(communicator):
        try:
            with agreement(communicator, tmp_path / str(communicator.rank)):
                if fault == "failure" and communicator.rank == 2:
                    raise UserError("params.rank2.irpa is damaged")
        except UserError as error:
            return str(error)
        return ""

    (said,) = set(on_ranks(3, run))
    expected = {
        "bundle": "rank 1 has another bundle than rank 0",
        "llmc": "has llmc",
        "failure": "rank 2: params.rank2.irpa is damaged",
        "": "",
    }
    assert expected[fault] in said
    assert bool(said) == bool(fault)


@pytest.mark.parametrize(
    ("sharers", "shares"),
    [
        (1, [{2, 3, 5, 7, 8}]),
        (2, [{2, 3}, {5, 7}]),
        (5, [{2}, {3}, {5}, {7}, {8}]),
        (6, [{2}, {3}, {5}, {7}, {8}, {2}]),
    ],
)
def test_ranks_of_a_machine_have_cpus_of_their_own(sharers, shares, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {8, 7, 5, 3, 2})
    found = [CPUShare(position, sharers) for position in range(sharers)]
    assert [share.cpus for share in found] == shares
    assert all(share.is_own == (sharers < 6) for share in found)


def test_a_thread_keeps_to_its_cpus_for_a_while():
    before = os.sched_getaffinity(0)
    with CPUShare(0, len(before)).kept():
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before
