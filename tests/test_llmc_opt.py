"""`llmc-opt` as a process: what it loads, and what it survives."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from torch_mlir import ir

from llmc.pipelines.option_text import options_text
from llmc.pipelines.passes import PASSES, AnnotateShardings
from llmc.pipelines.registry import parse_pipeline
from tests.processes import is_alive, processes_of, wait_until

LLMC_OPT = Path(sys.executable).with_name("llmc-opt")


def loaded_modules(*words: str) -> set[str]:
    """The modules that a run of the command imports."""
    command = [sys.executable, "-X", "importtime", LLMC_OPT, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, input="")
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


def test_help_loads_no_mlir():
    assert not {"torch_mlir", "numpy", "iree"} & loaded_modules("--help")


def test_a_pipeline_loads_no_pytorch():
    loaded = loaded_modules("-", "--cse", "--lower-llmc")
    assert "torch_mlir" in loaded
    assert not {"torch", "transformers", "sympy"} & loaded
    assert "torch_mlir.dialects.torch" not in loaded  # until there is an operation of it


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_what_ends_the_command_ends_its_work(number, status, tmp_path):
    schedule, result = tmp_path / "slow.py", tmp_path / "late.mlir"
    schedule.write_text(
        "import pathlib, time\n"
        "def slow(payload):\n"
        f"    pathlib.Path({str(tmp_path / 'begun')!r}).touch()\n"
        "    time.sleep(60)\n"
    )
    words = [LLMC_OPT, "-", f"--schedule-file={schedule}:slow", "-o", result]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_until((tmp_path / "begun").exists)
    (child,) = processes_of(process.pid)
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (status, b"")
    wait_until(lambda: not is_alive(child))
    assert not result.exists()


def test_a_crash_of_mlir_is_an_error(tmp_path):
    nested = tmp_path / "nested.mlir"
    nested.write_text("func.func private @f(" + "tuple<" * 300_000)
    done = subprocess.run([LLMC_OPT, nested], capture_output=True, text=True)
    assert done.returncode == 1
    assert "MLIR crashed with SIGSEGV" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


# As users have it: output that Python could not write is written again when it ends.
BUFFERED = {key: os.environ[key] for key in os.environ if key != "PYTHONUNBUFFERED"}


@pytest.mark.parametrize("words", [["--list-passes"], ["--help"]])
def test_a_reader_that_has_seen_enough_is_no_error_of_ours(words):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([LLMC_OPT, *words], stdout=write, stderr=subprocess.PIPE, env=BUFFERED)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("words", ["--list-passes", "--help", "-", "- --emit-bytecode"])
def test_an_output_that_takes_nothing_is_no_bug_of_ours(words):
    for output, reason in (("/dev/full", "No space left on device"), ("&-", "closed")):
        command = ["bash", "-c", f"{LLMC_OPT} {words} < /dev/null >{output}"]
        done = subprocess.run(command, capture_output=True, text=True, env=BUFFERED)
        (line,) = done.stderr.splitlines()
        assert (done.returncode, reason in line, "bug" in line) == (1, True, False)


def test_a_closed_input_is_no_bug_of_ours():
    done = subprocess.run(["bash", "-c", f"{LLMC_OPT} - <&-"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "standard input is closed" in done.stderr
    assert "bug" not in done.stderr


@pytest.mark.parametrize(
    "pass_",
    [
        *(each() for each in PASSES.values()),
        *(
            AnnotateShardings(plan=plan, grid="dp=2,tp=2")
            for plan in ("a  b.json", "it's.json", '12".json', "{x}.json")
        ),
    ],
    ids=lambda pass_: pass_.name,
)
def test_the_text_of_a_pass_is_read_back(pass_):
    text = f"builtin.module({pass_.name}{options_text(pass_)})"
    assert parse_pipeline(text, ir.Context()).steps == (pass_,)
