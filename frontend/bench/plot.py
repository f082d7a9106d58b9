"""The roofline as a picture: operations per second by operations per byte, both logarithmic."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from llmc.frontend.bench.machine import Bounds
from llmc.frontend.bench.roofline import Point
from llmc.frontend.output_folder import writing
from llmc.runtime.errors import UserError

# How much of its name the slowest kernel of a function bears; those of the others would overlap.
_NAME_LENGTH = 20


def require_matplotlib() -> None:
    """UserError if it is not installed."""
    if find_spec("matplotlib") is None:
        raise UserError("--plot needs matplotlib: pip install 'llmc-compiler[bench]'")


def plot(points: Sequence[Point], bounds: Bounds, path: Path) -> None:
    """Writes a PNG of the kernels that multiply weights or attend, under the machine's bounds.

    UserError if the file cannot be written.
    """
    from matplotlib.figure import Figure  # here, for who draws nothing may not have it

    read = bounds.read_bytes_per_s
    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.add_subplot(
        xscale="log",
        yscale="log",
        xlabel="operations per byte read (operations/B)",
        ylabel="operations per second (Gop/s)",
        title=f"Kernels under memory ({read / 1e9:.1f} GB/s read) and arithmetic",
    )
    axes.grid(alpha=0.3)
    peaks = {
        "float32": bounds.float_ops_per_s,
        "pairs of bfloat16": bounds.pair_ops_per_s,
        "bytes": bounds.byte_ops_per_s,
    }
    for name, peak in peaks.items():
        if peak is not None:
            x = [0.25, peak / read, 1000]
            roof = f"roof of {name}, {peak / 1e9:.0f} Gop/s"
            axes.plot(x, [min(at * read, peak) / 1e9 for at in x], label=roof)
    for function in dict.fromkeys(point.function for point in points):
        some = [point for point in points if point.function == function and point.operations]
        axes.scatter(
            [point.operations / point.bytes for point in some],
            [point.operations / point.seconds / 1e9 for point in some],
            s=[2000 * point.seconds / sum(p.seconds for p in some) for point in some],
            alpha=0.5,
            label=f"{function}: a kernel, as large as its time",
        )
        if some:
            slowest = max(some, key=lambda point: point.seconds)
            at = slowest.operations / slowest.bytes, slowest.operations / slowest.seconds / 1e9
            name = " ".join(filter(None, [slowest.kernel[:_NAME_LENGTH], slowest.weights]))
            axes.annotate(name, at, (20, -14), textcoords="offset points", fontsize=8)
    axes.legend(loc="lower right", markerscale=0.4)
    with writing(path):
        figure.savefig(path, format="png", dpi=120)
