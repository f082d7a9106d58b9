"""The roofline as a picture: operations per second by operations per byte, both logarithmic."""

from collections.abc import Sequence
from pathlib import Path

from llmc.frontend.bench.machine import Bounds
from llmc.frontend.bench.roofline import Point
from llmc.frontend.output_folder import writing
from llmc.runtime.errors import UserError


def plot(points: Sequence[Point], bounds: Bounds, path: Path) -> None:
    """Writes a PNG of the kernels that have weights, under the machine's bounds.

    UserError if matplotlib is not installed or the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise UserError("--plot needs matplotlib: pip install 'llmc-compiler[bench]'") from error
    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.add_subplot(
        xscale="log",
        yscale="log",
        xlabel="operations per byte of weights",
        ylabel="operations per second",
    )
    peaks = {"float32": bounds.float_ops_per_s, "bytes": bounds.byte_ops_per_s}
    for name, peak in peaks.items():
        if peak is not None:
            ridge = peak / bounds.read_bytes_per_s
            axes.plot([0.25, ridge, 1000], [0.25 * bounds.read_bytes_per_s, peak, peak], label=name)
    for function in dict.fromkeys(point.function for point in points):
        some = [point for point in points if point.function == function and point.bytes]
        axes.scatter(
            [point.operations / point.bytes for point in some],
            [point.operations / point.seconds for point in some],
            s=[2000 * point.seconds / sum(p.seconds for p in some) for point in some],
            alpha=0.5,
            label=f"kernels of {function}, by their time",
        )
    axes.legend()
    with writing(path):
        figure.savefig(path, format="png", dpi=120)
