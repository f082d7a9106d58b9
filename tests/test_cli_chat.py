"""Conversations: what a chat remembers, and `llmc chat` for people and for programs."""

import contextlib
import json
import os
import pty
import select
import shutil
import string
import subprocess
import sys
import time
from pathlib import Path

import pytest

import llmc.runtime
from llmc.runtime import GenerationOptions, UserError

LLMC = Path(sys.executable).with_name("llmc")
SHORT = GenerationOptions(max_new_tokens=8)


@pytest.fixture(scope="module")
def model(endless_bundle):
    return llmc.runtime.load(endless_bundle)


@pytest.fixture(scope="module")
def other(endless_bundle):
    """The same model with a KV cache of its own."""
    return llmc.runtime.load(endless_bundle)


def last(steps):
    *_, (_, result) = steps
    return result


def fresh_answer(other, messages):
    """The answer of a model that has not seen the beginning of the conversation."""
    return last(other.stream_tokens(other.tokenizer.encode_chat(messages), SHORT))


def test_remembered_tokens_change_no_answer(model, other):
    chat = model.chat()
    for text in ("Hello", "How are you?", "And now?"):
        result = last(chat.send(text, SHORT))
        assert result.token_ids == fresh_answer(other, chat.messages[:-1]).token_ids
        assert result.prefill_tokens < len(result.prompt_token_ids) or text == "Hello"
    assert [message["role"] for message in chat.messages] == ["user", "assistant"] * 3


def test_last_token_of_an_answer_is_run_in_the_next_turn(model, other):
    """An answer whose text becomes the same tokens again, so that all of it is remembered."""
    options = GenerationOptions(max_new_tokens=3)
    for letter in string.ascii_letters:
        chat = model.chat()
        first = last(chat.send(letter, options))
        if model.tokenizer.encode(first.text) == first.token_ids:
            break
    second = last(chat.send("And now?", SHORT))
    assert second.token_ids == fresh_answer(other, chat.messages[:-1]).token_ids
    held = len(first.prompt_token_ids) + len(first.token_ids) - 1
    assert second.prefill_tokens == len(second.prompt_token_ids) - held


def test_interrupted_answer_is_kept(model, other):
    chat = model.chat()
    with contextlib.closing(chat.send("Hello", GenerationOptions(max_new_tokens=500))) as steps:
        for _, result in steps:
            if len(result.text) > 20:
                break
    assert chat.messages[-1] == {"role": "assistant", "content": result.text}
    assert last(chat.send("Go on", SHORT)).token_ids == (
        fresh_answer(other, chat.messages[:-1]).token_ids
    )


def test_unanswered_message_is_forgotten(model, other):
    chat = model.chat()
    last(chat.send("Hello", SHORT))
    known = list(chat.messages)
    for text in ("x" * 9000, "\udcff"):
        with pytest.raises(UserError):
            last(chat.send(text, SHORT))
    assert chat.messages == known
    assert last(chat.send("Well?", SHORT)).token_ids == (
        fresh_answer(other, chat.messages[:-1]).token_ids
    )


def test_interrupted_prefill_is_forgotten(model, other, monkeypatch):
    chat = model.chat()
    last(chat.send("Hello", SHORT))
    known = list(chat.messages)
    prefill = model.engine.prefill

    def interrupted(*arguments):
        prefill(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(model.engine, "prefill", interrupted)
        chat.messages = []
        with pytest.raises(KeyboardInterrupt):
            last(chat.send("Something else", SHORT))
    chat.messages = known
    assert last(chat.send("Well?", SHORT)).token_ids == (
        fresh_answer(other, chat.messages[:-1]).token_ids
    )


def test_chat_goes_on_after_another_generation_took_the_cache(model, other):
    chat = model.chat()
    last(chat.send("Hello", SHORT))
    with contextlib.closing(chat.send("How are you?", SHORT)) as steps:
        next(steps)
        model.generate("Something else", max_new_tokens=2)
        with pytest.raises(UserError, match="took"):
            next(steps)
    assert last(chat.send("And now?", SHORT)).token_ids == (
        fresh_answer(other, chat.messages[:-1]).token_ids
    )
    assert len(chat.messages) == 6


def test_message_sent_during_an_answer_takes_its_place(model, other):
    chat = model.chat()
    with contextlib.closing(chat.send("Hello", SHORT)) as first:
        next(first)
        last(chat.send("Something else", SHORT))
        with pytest.raises(UserError, match="took"):
            next(first)
    assert [message["content"] for message in chat.messages[::2]] == ["Something else"]
    assert last(chat.send("Well?", SHORT)).token_ids == (
        fresh_answer(other, chat.messages[:-1]).token_ids
    )


def test_reset_during_an_answer_forgets_it(model, other):
    chat = model.chat()
    with contextlib.closing(chat.send("Hello", SHORT)) as steps:
        next(steps)
        chat.reset()
    assert chat.messages == []
    assert last(chat.send("Hello", SHORT)).token_ids == (
        fresh_answer(other, chat.messages[:-1]).token_ids
    )


@pytest.mark.parametrize("begun", [True, False])
def test_text_that_lost_the_cache_to_another_ends_in_an_error(model, begun):
    first = model.stream("Hello", max_new_tokens=8)
    if begun:
        next(first)
    second = model.generate("Something else", max_new_tokens=8)
    with pytest.raises(UserError, match="took"):
        next(first)
    assert model.generate("Something else", max_new_tokens=8).token_ids == second.token_ids


def talk(*words: object) -> subprocess.Popen:
    return subprocess.Popen(
        [LLMC, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


CHAT = b"""Hello
How are you?
/stats
/set temperature=0.5 seed=7
/set top_k
/set top_p=9
/set seed=8 --zork=1
/set stop=one stop=two
/set stop=three
/set stop=
/set
/zork\x1b[2J
 /zork
\xff
/help
/reset
Hello
/exit
never read
"""


def test_chat_through_a_pipe(model, endless_bundle):
    process = talk("chat", endless_bundle, "--max-new-tokens", 6)
    out, err = process.communicate(CHAT)
    assert process.returncode == 0
    chat, options = model.chat(), GenerationOptions(max_new_tokens=6)
    greedy = [last(chat.send(text, options)).text for text in ("Hello", "How are you?")]
    assert out.decode().startswith(f"{greedy[0]}\n{greedy[1]}\n")
    told = err.decode()
    assert f" {chat.tokens} of 8192 tokens" in told
    assert "temperature=0.5" in told
    assert "seed=7" in told
    assert "seed=8" not in told
    stops = [line.split()[1] for line in told.splitlines() if line.startswith("max_new_tokens=")]
    assert stops == ["stop=()", "stop=('one',", "stop=('three',)", "stop=()", "stop=()"]
    assert "--help" not in told
    assert told.count("error:") == 5
    assert "\x1b" not in told


def test_chat_that_fills_the_context(tiny_bundle, tmp_path):
    shutil.copytree(tiny_bundle, tmp_path / "bundle")
    path = tmp_path / "bundle" / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "context": 60}))
    process = talk("chat", tmp_path / "bundle", "--max-new-tokens", 50)
    out, err = process.communicate(b"Hello\n" * 3 + b"/reset\nHello\n")
    assert process.returncode == 0
    first, again = out.splitlines()[0], out.splitlines()[-1]
    assert first == again != b""
    assert b"context of 60 tokens is full" in err
    assert b"but the context of this bundle is 60" in err


class Terminal:
    """A process that believes that a person sits before it."""

    def __init__(self, *words: object) -> None:
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.execve(LLMC, [str(LLMC), *map(str, words)], {**os.environ, "TERM": "dumb"})

    def type(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def interrupt(self) -> None:
        """Ctrl-C at a silent prompt, again where readline was about to wait and missed it."""
        for _ in range(20):
            self.type("\x03")
            if select.select([self.descriptor], [], [], 2)[0]:
                return

    def read_until(self, text: str) -> str:
        """What appears up to and with `text`."""
        shown, end = b"", time.monotonic() + 120
        while not shown.endswith(text.encode()):
            left = end - time.monotonic()
            assert select.select([self.descriptor], [], [], max(left, 0))[0], shown
            shown += os.read(self.descriptor, 1)
        return shown.decode(errors="replace")

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def terminal(endless_bundle):
    """`llmc chat` with a model that goes on for long."""
    terminal = Terminal("chat", endless_bundle, "--max-new-tokens", 8000)
    yield terminal
    os.close(terminal.descriptor)  # which hangs up on what still runs


def test_ctrl_c_stops_the_answer_and_not_the_chat(terminal):
    terminal.read_until("> ")
    terminal.type("Hello\n")
    terminal.read_until("Hello\r\n")
    os.read(terminal.descriptor, 1)
    time.sleep(0.2)
    terminal.type("\x03")
    terminal.read_until("(stopped)")
    terminal.read_until("> ")
    terminal.type("/stats\n")
    kept = terminal.read_until("of 8192 tokens").split("context")[-1]
    assert 30 < int(kept.split()[0]) < 8000
    terminal.read_until("> ")
    terminal.type("half a line")
    terminal.read_until("half a line")
    terminal.interrupt()
    terminal.read_until("> ")
    terminal.type("\x04")
    assert terminal.wait() == 0
