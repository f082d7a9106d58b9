"""What was measured, as data and as tables."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from llmc.frontend.bench.contender import Case
from llmc.frontend.bench.measure import Result
from llmc.frontend.bench.remote import Facts


@dataclass(frozen=True)
class Row:
    """One contender in one case, summed up.

    Speeds are medians over the rounds; `*_ratio` the median of ours by theirs, round by round.
    `bandwidth_share` is the part of the machine's read bandwidth that decoding uses to read the
    weights. `tokens_alike` counts the generated tokens that are ours before one differs.
    `resident_bytes` is the most memory that the contender's process held after a round; `*_runs`
    are the rounds' own values, the last of them what the machine could read at the time.
    """

    contender: str
    case: Case
    prefill_tokens_per_s: float
    decode_tokens_per_s: float
    prefill_ratio: float
    decode_ratio: float
    bandwidth_share: float | None
    tokens_alike: int
    resident_bytes: int
    prefill_runs: Sequence[float]
    decode_runs: Sequence[float]
    read_bytes_per_s_runs: Sequence[float]

    def as_json(self) -> dict[str, Any]:
        """A flat object."""
        values = asdict(self)
        return {"contender": values.pop("contender"), **values.pop("case"), **values}


def sum_up(results: Sequence[Result], facts: Mapping[str, Facts]) -> Iterator[Row]:
    """A row for each contender of one case; ours are the first of `results`."""
    ours = results[0]
    for result in results:
        yield Row(
            contender=result.contender,
            case=result.case,
            prefill_tokens_per_s=statistics.median(result.prefill_tokens_per_s),
            decode_tokens_per_s=statistics.median(result.decode_tokens_per_s),
            prefill_ratio=_median_ratio(ours.prefill_tokens_per_s, result.prefill_tokens_per_s),
            decode_ratio=_median_ratio(ours.decode_tokens_per_s, result.decode_tokens_per_s),
            bandwidth_share=_bandwidth_share(result, facts[result.contender].weight_bytes),
            tokens_alike=_tokens_alike(ours.samples[0].tokens, result.samples[0].tokens),
            resident_bytes=max(sample.resident_bytes or 0 for sample in result.samples),
            prefill_runs=result.prefill_tokens_per_s,
            decode_runs=result.decode_tokens_per_s,
            read_bytes_per_s_runs=result.bandwidth,
        )


def _bandwidth_share(result: Result, weight_bytes: int | None) -> float | None:
    """How much of what memory gives a decode step's weights are; None if these are not known."""
    if weight_bytes is None:
        return None
    reading = [speed / result.case.batch * weight_bytes for speed in result.decode_tokens_per_s]
    return _median_ratio(reading, result.bandwidth)


def _median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios round by round, which neighbours on the machine move least."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def _tokens_alike(ours: Sequence[int], theirs: Sequence[int]) -> int:
    """How many tokens from the first on are the same."""
    pairs = enumerate(zip(ours, theirs, strict=True))
    return next((at for at, (one, other) in pairs if one != other), len(ours))


def table(rows: Sequence[Row]) -> Table:
    """The rows of one case, for people."""
    case = rows[0].case
    cached = f", {case.cached} cached" if case.held else ""
    shown = Table(
        "",
        "prefill\ntokens/s",
        "llmc\nis",
        "decode\ntokens/s",
        "llmc\nis",
        "of\nbandwidth",
        "memory",
        title=f"prompt {case.prompt}, batch {case.batch}{cached}, {case.generated} generated",
        title_justify="left",
        box=None,
    )
    shown.columns[0].no_wrap = True
    for column in shown.columns[1:]:
        column.justify, column.no_wrap = "right", True
    for row in rows:
        shown.add_row(
            row.contender,
            f"{row.prefill_tokens_per_s:.1f}",
            f"{row.prefill_ratio:.2f}x",
            f"{row.decode_tokens_per_s:.1f}",
            f"{row.decode_ratio:.2f}x",
            "" if row.bandwidth_share is None else f"{row.bandwidth_share:.0%}",
            f"{row.resident_bytes / 1e6:.0f} MB",
        )
    return shown
