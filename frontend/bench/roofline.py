"""How near each kernel is to the bound that limits it.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for multicore
architectures", 2009. What a kernel must read is its weights, the KV cache and the rows it
multiplies; what it must compute, one multiplication and one addition of each weight for every row,
and for every column of the cache that a row of a prompt sees.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, Literal

from rich.table import Table

from llmc.frontend.bench.attention_work import attention_work
from llmc.frontend.bench.contender import is_of_experts
from llmc.frontend.bench.kernels import KernelTime
from llmc.frontend.bench.machine import Bounds
from llmc.runtime.manifest import ModelFacts

_FLOATS = {"f32": 4, "f16": 2, "bf16": 2}
# The name of a kernel on blocks has those of a row in it and the bytes of as many blocks as the
# target has columns, a power of two; the row's values too, each block's apart or all together.
_PANEL = re.compile(r"x(\d+)x(\d+)xi8")
# One on halves of floats has their integers and the length of a row in it.
_HALF = re.compile(r"x(\d+)x\d+xi(?:8|16)")
# One that multiplies bf16 in pairs reads rows of them.
_IN_PAIRS = re.compile(r"_matmul_\d+_Dx\d+xbf16_")
# A kernel of these names reads some rows of a weight: those of tokens, in the fused code that IREE
# makes or in a region, or those that screening leaves.
_LOOKS_UP = re.compile(r"_dispatch_\d+_\w*i64x|^regions?_\d+_\w*xi64_|^refined_")

_TENSOR = re.compile(r"(?:(?:\d+|D)x)+(?:i8|i16|i32|i64|f16|bf16|f32)(?=_|$)")
"""The type of a tensor in a kernel's name, whose dynamic dimensions are D."""

_OF_LAYER = re.compile(r"\.\d+\.")
"""What names of weights have in them that are a layer's."""

Bound = Literal["memory", "cache", "arithmetic"]


@dataclass(frozen=True)
class Point:
    """One kernel of one function, in one call of it for `tokens` of a sequence after `past` others.

    `bytes` are those of its weights, of the KV cache and of the rows that weights multiply; of what
    has neither, those of its rows; 0 where these are not known, or where it reads some rows or some
    experts alone; `operations` what its weights, of the type `weights`, ask for, or the cache where
    a prompt attends to it. `share` is the time that the nearer bound asks for, `bound`, by the time
    taken; None without bytes. It is above 1 only where `bound` is the cache: the bytes came faster
    than memory gives them.
    """

    function: str
    tokens: int
    past: int
    kernel: str
    dispatches: int
    seconds: float
    weights: str
    bytes: int
    operations: float
    bound: Bound | None
    share: float | None

    def as_json(self) -> dict[str, Any]:
        """The fields."""
        return asdict(self)


def roofline(
    function: str,
    tokens: int,
    past: int,
    model: ModelFacts,
    kernels: Iterable[KernelTime],
    bounds: Bounds,
) -> Iterator[Point]:
    """The points of `kernels`, one call of `function` with `tokens` of `model` after `past`.

    The head runs on the last token only.
    """
    for kernel in kernels:
        type_, each = _weights_of(kernel.name, model.dtype)
        size = sum(kernel.weights.values())
        if _LOOKS_UP.search(kernel.name) or any(map(is_of_experts, kernel.weights)):
            size = 0
        rows = tokens if any(map(_OF_LAYER.search, kernel.weights)) else 1
        weights = size / each
        moved, operations = size + kernel.cache_bytes, 2 * rows * weights
        attention = attention_work(kernel.name, tokens, past)
        if attention or (not moved and not kernel.weights):
            moved += kernel.dispatches * _tensor_bytes(kernel.name, tokens)
        if attention:
            operations = kernel.dispatches * attention.operations
        if size:
            moved += rows * _row_bytes(weights, kernel.dispatches, model.hidden_size)
        in_bytes = attention.in_bytes if attention else type_ not in _FLOATS
        peak = _peak(kernel.name, in_bytes, bounds)
        bound, share = _bound(moved, operations, kernel.seconds, bounds.read_bytes_per_s, peak)
        yield Point(
            function=function,
            tokens=tokens,
            past=past,
            kernel=kernel.name,
            dispatches=kernel.dispatches,
            seconds=kernel.seconds,
            weights=type_ if size else "",
            bytes=moved,
            operations=operations,
            bound=bound,
            share=share,
        )


def _call(point: Point) -> str:
    tokens = "1 token" if point.tokens == 1 else f"{point.tokens} tokens"
    after = f" after {point.past}" if point.past else ""
    return f"{point.function}, {tokens}{after}"


def _weights_of(kernel: str, dtype: str) -> tuple[str, float]:
    """The type of the matrix that `kernel` reads, in a model that is mostly stored as `dtype`.

    Also what it reads of each weight, in bytes, scales included: of some no more than the high
    bits.
    """
    for blocks, size in _PANEL.findall(kernel):
        for name, values, each in _blocks():
            columns, left = divmod(int(size), each)
            is_panel = left == 0 and columns & (columns - 1) == 0
            rows = f"x{blocks}x{values}x", f"x{int(blocks) * values}xf32"
            if is_panel and any(row in kernel for row in rows):
                return name, each / values
    floats = dtype if dtype in _FLOATS else "f32"
    halves = sum(f"x{inputs}xf32" in kernel for inputs in _HALF.findall(kernel))
    return floats, _FLOATS[floats] * (halves or 2) / 2


def _blocks() -> list[tuple[str, int, int]]:
    """Of each way to read blocks: the type, values in a block, bytes that are read of one."""
    # Here, for commands that need no compiler import this file too.
    from llmc.dialects.block_parts import HIGH
    from llmc.dialects.blocks import FORMATS, Q8_0

    whole = [(name, format_.values, format_.bytes) for name, format_ in FORMATS.items()]
    return [*whole, (Q8_0.name, Q8_0.values, HIGH.bytes)]


def _tensor_bytes(kernel: str, tokens: int) -> int:
    """The bytes of the tensors in a kernel's name, as far as their rows are those of the tokens."""
    types = (each for each in _TENSOR.findall(kernel) if each.count("D") <= 1)
    return sum(_bytes_of(each, tokens) for each in types)


def _bytes_of(type_: str, tokens: int) -> int:
    *extents, element = type_.split("x")
    shape = [tokens if extent == "D" else int(extent) for extent in extents]
    return prod(shape) * int(element.lstrip("bfi")) // 8


def _row_bytes(weights: float, matrices: int, width: int) -> int:
    """The float32 values that go into `matrices` for one token, and that come out of them.

    One side of each is as wide as the model, so that the other one's width follows.
    """
    return 4 * int(matrices * width + weights / width)


def _peak(kernel: str, in_bytes: bool, bounds: Bounds) -> float:
    """The operations a second that bound a kernel, which multiplies bytes, pairs or floats."""
    if in_bytes:
        return bounds.byte_ops_per_s or bounds.float_ops_per_s
    in_pairs = _IN_PAIRS.search(kernel) is not None
    return (bounds.pair_ops_per_s if in_pairs else None) or bounds.float_ops_per_s


def _bound(
    moved: int, operations: float, seconds: float, read_bytes_per_s: float, peak: float
) -> tuple[Bound | None, float | None]:
    if not moved:
        return None, None
    reading, computing = moved / read_bytes_per_s, operations / peak
    if computing > reading:
        # The peak was measured at a worse moment than the kernel where it seems surpassed.
        return "arithmetic", min(computing / seconds, 1.0)
    return ("memory" if reading <= seconds else "cache"), reading / seconds


def table(points: list[Point], shown: int) -> Table:
    """The slowest `shown` kernels of one function, for people, and the rest in one line."""
    total = sum(point.seconds for point in points)
    result = Table(
        "kernel", "calls", "µs", "of\nall", "weights", "MB", "bound by", "of\nbound",
        title=f"{_call(points[0])}: {sum(p.dispatches for p in points)} dispatches,"
        f" {total * 1e3:.2f} ms",
        title_justify="left",
        box=None,
    )  # fmt: skip
    result.columns[0].overflow = "ellipsis"
    for column in result.columns[1:]:
        column.justify, column.no_wrap = "right", True
    for point in points[:shown]:
        result.add_row(
            point.kernel[:40],
            str(point.dispatches),
            f"{point.seconds * 1e6:.0f}",
            f"{point.seconds / total:.0%}",
            point.weights,
            f"{point.bytes / 1e6:.2f}" if point.bytes else "",
            point.bound or "",
            f"{point.share:.0%}" if point.share is not None else "",
        )
    if rest := points[shown:]:
        seconds = sum(point.seconds for point in rest)
        dispatches = sum(point.dispatches for point in rest)
        result.add_row(
            f"{len(rest)} more", str(dispatches), f"{seconds * 1e6:.0f}", f"{seconds / total:.0%}"
        )
    return result
