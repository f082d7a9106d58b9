"""Times the passes of a pipeline, ours and MLIR's, and prints one table as MLIR does."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby

from torch_mlir import ir

from llmc.pipelines.driver.execution import Observer, SinglePass

_RULE = f"===-{'-' * 73}-==="
_TITLE = "... Execution time report ..."


@dataclass
class Row:
    """Wall time, in seconds, of what `path` names, anchors first: perhaps of the pass `of`."""

    path: tuple[str, ...]
    seconds: float
    of: SinglePass | None = None


@dataclass
class Timing(Observer):
    """Times each pass on all operations that it runs on, in the order in which they begin.

    In the table passes on one anchor that follow each other stand below one row; `as_list` merges
    rows of one name instead, and puts the longest first.
    """

    as_list: bool = False
    rows: list[Row] = field(default_factory=list)
    _begin: float = field(default_factory=time.perf_counter, init=False)
    _pass_began: float = field(default=0.0, init=False)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Times what is not a pass, such as reading the file."""
        begin = time.perf_counter()
        yield
        self.rows.append(Row((name,), time.perf_counter() - begin))

    def before(self, single: SinglePass, op: ir.Operation) -> None:
        """Starts the clock."""
        self._pass_began = time.perf_counter()

    def after(self, single: SinglePass, op: ir.Operation) -> None:
        """Adds the time of the pass, with that of the verifier after it, to its row."""
        seconds = time.perf_counter() - self._pass_began
        row = next((row for row in self.rows if row.of is single), None)
        if row is None:
            nests = tuple(f"'{anchor}' Pipeline" for anchor in single.anchors[1:])
            row = Row((*nests, single.name), 0.0, single)
            self.rows.append(row)
        row.seconds += seconds

    def failed(self, single: SinglePass, op: ir.Operation) -> None:
        """Notes the time that the pass took to fail."""
        self.after(single, op)

    def table(self) -> str:
        """The report: rows indented below the anchors that they run on, the rest, and the total."""
        total = time.perf_counter() - self._begin
        rest = total - sum(row.seconds for row in self.rows)
        shown = _by_name(self.rows) if self.as_list else _with_nests(self.rows)
        rows = [*shown, (0, "Rest", rest), (0, "Total", total)]
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


def _by_name(rows: list[Row]) -> list[tuple[int, str, float]]:
    """One line for each name, the longest time first."""
    times: dict[str, float] = {}
    for row in rows:
        times[row.path[-1]] = times.get(row.path[-1], 0.0) + row.seconds
    return sorted(((0, *line) for line in times.items()), key=lambda line: -line[2])


def _with_nests(rows: list[Row], depth: int = 0) -> list[tuple[int, str, float]]:
    """The rows as lines, with one above each run of rows that share their name at `depth`."""
    lines: list[tuple[int, str, float]] = []
    for (is_nest, name), group in groupby(
        rows, key=lambda row: (len(row.path) > depth + 1, row.path[depth])
    ):
        inner = list(group)
        if is_nest:
            lines.append((depth, name, sum(row.seconds for row in inner)))
            lines += _with_nests(inner, depth + 1)
        else:
            lines += [(depth, name, row.seconds) for row in inner]
    return lines
