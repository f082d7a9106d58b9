"""A bundle of two ranks through the whole engine, and what happens when one of them is gone."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import llmc.runtime
from llmc.runtime import GenerationOptions, Model, RankError, UserError
from llmc.runtime.ranks.local import LocalCommunicator, share_memory
from llmc.runtime.ranks.steps import follow
from llmc.tools.llmc import main
from tests.processes import is_alive, processes_of, wait_until
from tests.ranked_bundle import PIECE, VOCAB_SIZE, continued, next_token

LLMC = Path(sys.executable).with_name("llmc")
PROMPT = "the cat in the hat"


@pytest.fixture(scope="module")
def model(ranked_bundle):
    return llmc.runtime.load(ranked_bundle, local=True, threads=1)


def open_with_rank_1(bundle: Path, timeout_s: float = 20.0) -> tuple[Model, int]:
    """A model of its own, and the process of its rank 1."""
    before = set(processes_of(os.getpid()))
    model = llmc.runtime.load(bundle, local=True, threads=1, timeout_s=timeout_s)
    (rank_1,) = set(processes_of(os.getpid())) - before
    return model, rank_1


def test_greedy_text_is_that_of_the_whole_model(model):
    result = model.generate(PROMPT, max_new_tokens=20)
    assert result.token_ids == continued(result.prompt_token_ids, 20)


def test_a_long_prompt_is_run_in_pieces_on_all_ranks(model):
    ids = [7] * 127 + [9]
    for length in (1, 2, 128):
        logits = model.logits(ids[-length:])
        assert logits.argmax() == next_token(9, length - 1)
        np.testing.assert_array_equal(logits, -((np.arange(VOCAB_SIZE) - logits.argmax()) ** 2))


def test_a_batch_is_decoded_together(model):
    first, second = model.generate_batch([PROMPT, "one"], max_new_tokens=5)
    assert first.token_ids == continued(first.prompt_token_ids, 5)
    # Its columns begin later, after padding, and this model counts the columns.
    late = len(first.prompt_token_ids) - len(second.prompt_token_ids)
    padded = [0] * late + second.prompt_token_ids
    assert second.token_ids == continued(padded, 5)


def test_sampling_is_that_of_rank_0(model):
    options = {"temperature": 3.0, "top_k": 8, "seed": 5, "max_new_tokens": 12}
    sampled = model.generate(PROMPT, **options)
    assert sampled.token_ids == model.generate(PROMPT, **options).token_ids
    greedy = continued(sampled.prompt_token_ids, 1)
    assert sampled.token_ids[0] != greedy[0] or sampled.token_ids[1:] != continued(greedy, 11)


def test_a_chat_goes_on_from_turn_to_turn(model):
    chat = model.chat()
    for _ in range(2):
        *_, (_, result) = chat.send("Hi", GenerationOptions(max_new_tokens=4))
        assert result.token_ids == continued(result.prompt_token_ids, 4)


def test_bytes_moved_are_those_of_the_collectives(model):
    ids = model.encode(PROMPT)
    model.engine.reset(1, 100)
    model.engine.prefill(ids, 0)
    before = model.communicator.moved
    model.engine.decode([5], len(ids), [0])
    # A sum of one float and a gathered row of logits, of each of which a rank sends 2/2 and 1/2.
    assert model.communicator.moved - before == 4 + 4 * PIECE


def test_ctrl_c_leaves_the_ranks_in_step(model, monkeypatch):
    start_all_reduce = LocalCommunicator.start_all_reduce
    pressed = []

    def press(communicator, x, group):
        if not pressed:
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)
        return start_all_reduce(communicator, x, group)

    with monkeypatch.context() as patch:
        patch.setattr(LocalCommunicator, "start_all_reduce", press)
        with pytest.raises(KeyboardInterrupt):
            model.generate(PROMPT, max_new_tokens=4)
    assert pressed
    result = model.generate(PROMPT, max_new_tokens=4)
    assert result.token_ids == continued(result.prompt_token_ids, 4)


def test_a_rank_that_dies_ends_the_run(ranked_bundle):
    model, rank_1 = open_with_rank_1(ranked_bundle)
    begin = time.monotonic()
    os.kill(rank_1, signal.SIGKILL)
    with pytest.raises(RankError, match="rank 1 ended: SIGKILL"):
        model.generate(PROMPT, max_new_tokens=100)
    assert time.monotonic() - begin < 2
    with pytest.raises(RankError, match="have ended: load it again"):
        model.generate(PROMPT)


def test_a_rank_that_hangs_ends_the_run(ranked_bundle):
    model, rank_1 = open_with_rank_1(ranked_bundle, timeout_s=1.0)
    os.kill(rank_1, signal.SIGSTOP)
    with pytest.raises(RankError, match=r"rank 1 took no part for 1 s"):
        model.generate(PROMPT, max_new_tokens=100)
    wait_until(lambda: not is_alive(rank_1))


class WithoutRoom:
    def reset(self, sequences: int, capacity: int) -> int:
        raise UserError("no room")


def test_a_rank_that_refuses_a_call_ends_the_run():
    descriptor, ended = share_memory(2), []
    rank_0, rank_1 = (
        LocalCommunicator(
            rank, 2, os.dup(descriptor), 5.0, lambda: None, partial(ended.append, rank)
        )
        for rank in range(2)
    )
    os.close(descriptor)
    rank_0.announce(json.dumps(["reset", 1, 8]).encode())
    with pytest.raises(UserError, match="no room"):
        follow(WithoutRoom(), rank_1)
    assert ended == [1]


def test_ranks_end_with_the_model(ranked_bundle):
    model, rank_1 = open_with_rank_1(ranked_bundle)
    assert is_alive(rank_1)
    del model
    wait_until(lambda: not is_alive(rank_1))


def test_ranks_end_with_a_killed_process(ranked_bundle):
    script = (
        "import sys, time, llmc.runtime\n"
        "model = llmc.runtime.load(sys.argv[1], local=True, threads=1)\n"
        "print(flush=True)\n"
        "time.sleep(60)"
    )
    command = [sys.executable, "-c", script, str(ranked_bundle)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        process.stdout.readline()
        (rank_1,) = processes_of(process.pid)
        process.kill()
        assert process.stderr.read() == b""  # which rank 1 has, too
    wait_until(lambda: not is_alive(rank_1))


def test_a_damaged_part_of_another_rank_is_reported(ranked_bundle, tmp_path):
    folder = tmp_path / "bundle"
    shutil.copytree(ranked_bundle, folder)
    (folder / "params.rank1.irpa").write_bytes(b"")
    with pytest.raises(UserError, match=r"rank 1: .*params\.rank1\.irpa has 0 bytes"):
        llmc.runtime.load(folder, local=True)


def test_a_bundle_of_ranks_says_how_to_run_it(ranked_bundle):
    with pytest.raises(UserError, match=r"is for 2 ranks \(tp=2\).*--local.*mpiexec -n 2"):
        llmc.runtime.load(ranked_bundle)


def test_a_bundle_for_one_device_has_no_ranks_to_start(ranked_bundle, tmp_path):
    shutil.copytree(ranked_bundle, tmp_path, dirs_exist_ok=True)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest |= {"grid": [], "modules": manifest["modules"][:1]}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=r"is for one device.*--grid"):
        llmc.runtime.load(tmp_path, local=True)


def test_run_and_chat_take_their_options(ranked_bundle, model, capfd):
    words = ["run", str(ranked_bundle), "--local", "--threads", "1", "--raw", "--prompt", PROMPT]
    assert main([*words, "--max-new-tokens", "6", "--json"]) == 0
    facts = json.loads(capfd.readouterr().out)
    assert facts["token_ids"] == continued(facts["prompt_token_ids"], 6)
    assert facts["bytes_moved"] == 6 * (4 + 4 * PIECE)
    done = subprocess.run(
        [LLMC, "chat", ranked_bundle, "--local", "--max-new-tokens", "3", "--timeout", "9"],
        input="Hi\n/reset\nHi\n/exit\n",
        capture_output=True,
        text=True,
        check=True,
    )
    expected = model.generate("Hi", max_new_tokens=3).text
    assert done.stdout == f"{expected}\n{expected}\n"


@pytest.mark.parametrize("wrong", ["0", "-1", "nan", "soon", "inf"])
def test_a_timeout_is_a_time(ranked_bundle, wrong, capfd):
    assert main(["run", str(ranked_bundle), "--local", "--prompt", "x", f"--timeout={wrong}"]) == 2
    assert "--timeout" in capfd.readouterr().err


def test_a_chat_ends_with_one_message_where_a_rank_is_lost(ranked_bundle):
    command = [LLMC, "chat", ranked_bundle, "--local", "--max-new-tokens", "3"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        process.stdin.write("Hi\n")
        process.stdin.flush()
        process.stdout.readline()
        (rank_1,) = processes_of(process.pid)
        os.kill(rank_1, signal.SIGKILL)
        _, said = process.communicate("Hi\nHi\n", timeout=20)
    assert said == "llmc: error: rank 1 ended: SIGKILL\n"
    assert process.returncode == 2
