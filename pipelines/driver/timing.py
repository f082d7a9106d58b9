"""Times the passes of a pipeline, ours and MLIR's, and prints one table as MLIR does."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from llmc.pipelines.driver.execution import Observer, Root, SinglePass

_RULE = f"===-{'-' * 73}-==="
_TITLE = "... Execution time report ..."


@dataclass
class Timing(Observer):
    """Wall time of each pass, in seconds, in the order in which they ran.

    A row is a path of names, anchors first, and a time; passes on one anchor that follow each other
    stand below one row.
    """

    rows: list[tuple[tuple[str, ...], float]] = field(default_factory=list)
    _begin: float = field(default_factory=time.perf_counter, init=False)
    _pass_began: float = field(default=0.0, init=False)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Times what is not a pass, such as reading the file."""
        begin = time.perf_counter()
        yield
        self.rows.append(((name,), time.perf_counter() - begin))

    def before(self, single: SinglePass, root: Root) -> None:
        """Starts the clock."""
        self._pass_began = time.perf_counter()

    def after(self, single: SinglePass, root: Root) -> None:
        """Notes the time of the pass, with that of the verifier after it."""
        nests = tuple(f"'{anchor}' Pipeline" for anchor in single.anchors[1:])
        self.rows.append(((*nests, single.name), time.perf_counter() - self._pass_began))

    def failed(self, single: SinglePass, root: Root) -> None:
        """Notes the time that the pass took to fail."""
        self.after(single, root)

    def table(self) -> str:
        """The report: rows indented below the anchors that they run on, the rest, and the total."""
        total = time.perf_counter() - self._begin
        rest = total - sum(seconds for _, seconds in self.rows)
        rows = [*_with_nests(self.rows), (0, "Rest", rest), (0, "Total", total)]
        lines = [
            f"  {seconds:9.4f} ({seconds / total:6.1%})  {'  ' * depth}{name}"
            for depth, name, seconds in rows
        ]
        return "\n".join(
            [
                _RULE,
                _TITLE.center(len(_RULE)).rstrip(),
                _RULE,
                f"  Total Execution Time: {total:.4f} seconds",
                "",
                "  ----Wall Time----  ----Name----",
                *lines,
            ]
        )


def _with_nests(
    rows: list[tuple[tuple[str, ...], float]], depth: int = 0
) -> list[tuple[int, str, float]]:
    """The rows with one above each run of rows that share their name at `depth`."""
    out: list[tuple[int, str, float]] = []
    at = 0
    while at < len(rows):
        path, seconds = rows[at]
        end = at + 1
        if len(path) > depth + 1:
            while end < len(rows) and rows[end][0][: depth + 1] == path[: depth + 1]:
                end += 1
            inner = rows[at:end]
            out.append((depth, path[depth], sum(seconds for _, seconds in inner)))
            out += _with_nests(inner, depth + 1)
        else:
            out.append((depth, path[depth], seconds))
        at = end
    return out
