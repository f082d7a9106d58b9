"""What a process takes of memory beside the weights and the KV cache, by what it has done.

The cache counts by the tokens that there is room for; one that was larger shows in the rest.

    python benchmarks/memory.py BUNDLE [--tokens 1000]
"""

import argparse
import re
from collections.abc import Callable
from pathlib import Path

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
        last = model.engine.prefill([5] * options.tokens, 0).best
        for past in range(options.tokens, options.tokens + 64, 8):
            *_, last = model.engine.greedy(last, past, [0], 8)

    def chat() -> None:
        for _ in range(4):
            model.generate("Tell me a story.", max_new_tokens=64)

    things: list[tuple[str, Callable[[], None]]] = [
        ("four chats", chat),
        (f"a prompt of {options.tokens} tokens, 64 more", run_prompt),
        ("four chats", chat),
    ]
    rows = []
    for name, do in things:
        do()
        parts = beside(model, options.bundle)
        rows.append((name, *(f"{each / 1e6:.1f}" for each in parts)))
    _print_table("after", "weights, MB", "KV cache, MB", "all else, MB", rows=rows)


def _print_table(*columns: str, rows: list[tuple[str, ...]]) -> None:
    # Only now, for it would take 3 MB of what was measured.
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
