"""Finds the two halves that what a linear layer computes is read in."""

from torch_mlir import ir
from torch_mlir.dialects import tensor

from llmc.pipelines.rewriting.extents import takes_whole


def halves_of(row: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    """The two halves of `row [..., N]`, each `[..., N/2]`, where nothing else of it is read."""
    cuts = [use.owner for use in row.uses]
    if len(cuts) != 2 or not all(isinstance(cut, tensor.ExtractSliceOp) for cut in cuts):
        return None
    *leading, width = row.type.shape
    are_halves = all(
        list(cut.result.type.shape) == [*leading, width / 2]
        and set(cut.static_strides) == {1}
        and takes_whole(cut, range(len(leading)))
        for cut in cuts
    )
    by_start = {tuple(cut.static_offsets): cut.result for cut in cuts}
    starts = [(*[0] * len(leading), start) for start in (0, width // 2)]
    first, second = map(by_start.get, starts)
    return (first, second) if are_halves and first and second else None
