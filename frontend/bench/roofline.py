"""How near each kernel is to the bound that limits it.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for multicore
architectures", 2009. What a kernel must read is its weights; what it must compute, one
multiplication and one addition of each of them for every token.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from llmc.frontend.bench.kernels import KernelTime
from llmc.frontend.bench.machine import Bounds
from llmc.runtime import abi

# Bytes of one weight; of blocks, those of GGUF's 32 with their scales.
_WEIGHT_BYTES = {"f32": 4, "f16": 2, "bf16": 2, "q4_0": 18 / 32, "q4_1": 20 / 32, "q8_0": 34 / 32}
# Faster than so many times the bound means that the kernel reads some of the rows only.
_LOOKS_UP = 4


@dataclass(frozen=True)
class Point:
    """One kernel of one function, in one call of it.

    `bytes` and `operations` are what its weights ask for, 0 where it has none or looks up some
    rows. `share` is the time that the nearer bound asks for, `bound`, by the time taken; None
    without weights.
    """

    function: str
    kernel: str
    dispatches: int
    seconds: float
    bytes: int
    operations: float
    bound: str
    share: float | None

    def as_json(self) -> dict[str, Any]:
        """The fields."""
        return asdict(self)


def roofline(
    function: str, tokens: int, dtype: str, kernels: Iterable[KernelTime], bounds: Bounds
) -> Iterator[Point]:
    """The points of `kernels`, one call of `function` with `tokens` tokens.

    `dtype` is the manifest's: how most weights are stored. The head runs on the last token only.
    """
    compute = bounds.float_ops_per_s
    if dtype not in ("f32", "f16", "bf16"):
        compute = bounds.byte_ops_per_s or compute
    for kernel in kernels:
        size = sum(kernel.weights.values())
        if size > _LOOKS_UP * bounds.read_bytes_per_s * kernel.seconds:
            size = 0
        rows = 1 if kernel.dispatches == 1 or function == abi.DECODE else tokens
        operations = 2 * rows * size / _WEIGHT_BYTES.get(dtype, 4)
        reading, computing = size / bounds.read_bytes_per_s, operations / compute
        yield Point(
            function=function,
            kernel=kernel.name,
            dispatches=kernel.dispatches,
            seconds=kernel.seconds,
            bytes=size,
            operations=operations,
            bound="memory" if reading >= computing else "arithmetic",
            share=max(reading, computing) / kernel.seconds if size else None,
        )


def table(points: list[Point], shown: int) -> Table:
    """The slowest `shown` kernels of one function, for people, and the rest in one line."""
    total = sum(point.seconds for point in points)
    result = Table(
        "kernel", "dispatches", "µs", "of all", "MB", "bound by", "of bound",
        title=f"{points[0].function}: {sum(p.dispatches for p in points)} dispatches,"
        f" {total * 1e3:.2f} ms",
        title_justify="left",
        box=None,
    )  # fmt: skip
    result.columns[0].no_wrap = True
    for column in result.columns[1:]:
        column.justify = "right"
    for point in points[:shown]:
        result.add_row(
            point.kernel[:48],
            str(point.dispatches),
            f"{point.seconds * 1e6:.0f}",
            f"{point.seconds / total:.0%}",
            f"{point.bytes / 1e6:.2f}" if point.bytes else "",
            point.bound if point.bytes else "",
            f"{point.share:.0%}" if point.share is not None else "",
        )
    if rest := points[shown:]:
        seconds = sum(point.seconds for point in rest)
        dispatches = sum(point.dispatches for point in rest)
        result.add_row(
            f"{len(rest)} more", str(dispatches), f"{seconds * 1e6:.0f}", f"{seconds / total:.0%}"
        )
    return result
