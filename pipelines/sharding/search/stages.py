"""Cuts layers into the stages of a pipeline, by dynamic programming."""

from collections.abc import Sequence
from itertools import accumulate


def cut_layers(layers: Sequence[float], stages: int, first: float, last: float) -> list[int]:
    """The stage of each layer so that the largest stage is as small as can be.

    `layers` are the sizes of layers, `first` and `last` of what the first and the last stage have
    besides. ValueError where there are fewer layers than stages.
    """
    if stages > len(layers):
        raise ValueError(f"{len(layers)} layers make no {stages} stages")
    sums = [0.0, *accumulate(layers)]

    def size(begin: int, end: int, stage: int) -> float:
        more = first * (stage == 0) + last * (stage == stages - 1)
        return sums[end] - sums[begin] + more

    # best[end]: the largest of the stages so far, which have the layers before `end`.
    best = {end: size(0, end, 0) for end in range(1, len(layers) + 1)}
    cuts: list[dict[int, int]] = []
    for stage in range(1, stages):
        ways = {
            end: min(
                (max(best[begin], size(begin, end, stage)), begin) for begin in range(stage, end)
            )
            for end in range(stage + 1, len(layers) + 1)
        }
        best = {end: largest for end, (largest, _) in ways.items()}
        cuts.append({end: begin for end, (_, begin) in ways.items()})
    ends = [len(layers)]
    for cut in reversed(cuts):
        ends.insert(0, cut[ends[0]])
    return [
        stage
        for stage, (begin, end) in enumerate(zip([0, *ends], ends, strict=False))
        for _ in range(begin, end)
    ]
