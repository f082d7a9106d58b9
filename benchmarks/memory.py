"""What a process takes of memory beside the weights and the KV cache, by what it has done.

The cache counts by the tokens that there is room for; one that was larger shows in the rest.

    python benchmarks/memory.py BUNDLE [--tokens 1000]
"""

import argparse
import re
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

import llmc.runtime
from llmc.runtime.manifest import Manifest
from llmc.runtime.model import Model

_MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \S+ *(.*)$")


def resident(smaps: str) -> dict[str, int]:
    """Bytes in memory of each file that the process maps, and under "" of what is of none."""
    found: dict[str, int] = {}
    name = ""
    for line in smaps.splitlines():
        if mapping := _MAPPING.match(line):
            name = mapping[1] if mapping[1].startswith("/") else ""
        elif line.startswith("Rss:"):
            found[name] = found.get(name, 0) + int(line.split()[1]) * 1024
    return found


def beside(model: Model, bundle: Path) -> tuple[int, int, int]:
    """Bytes of weights, of the KV cache, and of all else, of this process."""
    (code,) = Manifest.read(bundle).modules
    parts = resident(Path("/proc/self/smaps").read_text())
    weights = parts.get(str((bundle / code.parameters).resolve()), 0)
    room = model.engine.room
    cache = room.sequences * code.kv_bytes(room.capacity)
    return weights, cache, sum(parts.values()) - weights - cache


def main() -> None:
    """Does one thing after the other and prints what the process takes then."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--tokens", type=int, default=1000)
    options = parser.parse_args()
    model = llmc.runtime.load(options.bundle)

    def run_prompt() -> None:
        model.engine.reset(1, options.tokens + 64)
        best = model.engine.prefill([5] * options.tokens, 0).best
        model.engine.greedy(best, options.tokens, [0], 64)

    def chat() -> None:
        for _ in range(4):
            model.generate("Tell me a story.", max_new_tokens=64)

    things: list[tuple[str, Callable[[], None]]] = [
        ("four chats", chat),
        (f"a prompt of {options.tokens} tokens, 64 more", run_prompt),
        ("four chats", chat),
    ]
    table = Table("after", "weights, MB", "KV cache, MB", "all else, MB")
    for name, do in things:
        do()
        parts = beside(model, options.bundle)
        table.add_row(name, *(f"{each / 1e6:.1f}" for each in parts))
    Console().print(table)


if __name__ == "__main__":
    main()
