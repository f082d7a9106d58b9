"""Two ranks with a link between them whose rate is known: it carries all that they move."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmc.runtime.ranks.communicator import bytes_moved
from tests.processes import wait_until
from tests.ranked_bundle import continued

BIN = Path(sys.executable).parent
RATE = 100  # Mbit/s, more than a hundred times slower than without
# Else MPI finds that both ranks are on one machine, and that they can share memory.
OVER_TCP = ("-genv", "MPIR_CVAR_NOLOCAL", "1", "-genv", "UCX_TLS", "tcp,self")


@pytest.fixture(scope="module")
def namespaces() -> Iterator[tuple[str, str]]:
    """Two network namespaces, and between them a link of RATE."""
    names = tuple(f"llmc-{os.getpid()}-{end}" for end in (0, 1))
    first, second = names
    commands = [f"ip netns add {name}" for name in names]
    commands.append(f"ip link add end0 netns {first} type veth peer name end1 netns {second}")
    for end, name in enumerate(names):
        commands += [
            f"ip -n {name} address add 10.213.7.{end + 1}/24 dev end{end}",
            f"ip -n {name} link set end{end} up",
            f"ip -n {name} link set lo up",
            f"tc -n {name} qdisc add dev end{end} root tbf rate {RATE}mbit burst 16k latency 100ms",
        ]
    try:
        for command in commands:
            subprocess.run(command.split(), check=True, capture_output=True)
        wait_until(lambda: all(is_up(name) for name in names))
        yield first, second
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"network namespaces with a shaped link need iproute2 and root: {error}")
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def is_up(name: str) -> bool:
    """Whether the end of the link in the namespace `name` has a carrier."""
    command = ["ip", "-n", name, "-brief", "link", "show", "type", "veth"]
    return " UP " in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def run_in(namespaces: tuple[str, str], *words: object) -> str:
    """The standard output of a command of which each namespace has a rank."""
    command = [str(BIN / "mpiexec"), "-launcher", "fork", *OVER_TCP]
    for end, name in enumerate(namespaces):
        separator = (":",) if end else ()
        command += [*separator, "-n", "1", "ip", "netns", "exec", name, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def test_time_follows_the_bytes_that_are_counted(namespaces):
    benchmark = Path(__file__).parent.parent / "benchmarks" / "link.py"
    links = json.loads(run_in(namespaces, sys.executable, benchmark, "--json", "--rounds", 3))
    for link in links:
        size, seconds = max((int(size), seconds) for size, seconds in link["seconds"].items())
        least = 8 * bytes_moved(link["operation"], size, 2) / (RATE * 1e6)
        # The frames' headers and the waits for a turn; a burst of 16 kB is none of the time.
        assert 0.95 * least < seconds < 1.5 * least, link["operation"]


def test_text_is_that_of_the_whole_model(namespaces, ranked_bundle):
    words = ("--raw", "--prompt", "the cat", "--max-new-tokens", 9, "--json")
    facts = json.loads(run_in(namespaces, BIN / "llmc", "run", ranked_bundle, *words))
    assert facts["token_ids"] == continued(facts["prompt_token_ids"], 9)
