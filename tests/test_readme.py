"""The README's screens are what its commands print."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def screens() -> list[tuple[str, str]]:
    """The README's console blocks: command and output."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n\$ (.*)\n((?:.*\n)*?)```", text)
    assert blocks, "the README has no screens"
    return blocks


def pattern(screen: str) -> re.Pattern[str]:
    """Matches `screen` with any numbers for its timings and any lines for `...`, on any CPU."""
    lines = []
    for line in screen.splitlines():
        if line == "...":
            lines.append(r"(?:.*\n)*.*")
        elif line.startswith("target "):
            words, _ = line.rsplit(maxsplit=1)
            lines.append(rf"{re.escape(words)} \S+")
        elif line.startswith("  dispatches "):
            # A CPU that multiplies bf16 has the rows of a prompt rounded first.
            lines.append(re.sub(r"\d+(?=\\ for\\ a\\ prompt$)", r"\\d+", re.escape(line)))
        elif re.search(r"\d (s|tokens/s)$", line):
            lines.append(re.sub(r"(?:\\ )*\d+(?:\\\.\d+)?", r"\\s*[\\d.]+", re.escape(line)))
        else:
            lines.append(re.escape(line))
    return re.compile("\n".join(lines))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("readme")


@pytest.mark.parametrize(("command", "screen"), screens(), ids=lambda text: text.splitlines()[0])
def test_screen(command, screen, folder):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # Under `make test` a make within would tell of the folders it enters.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    environment["PATH"] = path
    make = command.startswith("make ")
    if make:  # the first run of the demo compiles: the README shows the second one
        subprocess.run(shlex.split(command), cwd=ROOT, env=environment, capture_output=True)
    done = subprocess.run(
        shlex.split(command),
        cwd=ROOT if make else folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert pattern(screen).fullmatch(done.stdout.rstrip("\n")), done.stdout
