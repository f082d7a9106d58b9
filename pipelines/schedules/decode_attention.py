"""`decode_attention`: that of one token of each sequence, split over the cached columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from llmc.pipelines.kernels.attention_cuts import (
    DECODE_ATTENTION,
    LARGEST_COUNT,
    DecodeAttentionCut,
)
from llmc.pipelines.schedules.cut import cut
from llmc.pipelines.schedules.handles import Handle
from llmc.pipelines.schedules.schedule import Parameters


@dataclass(frozen=True)
class DecodeAttentionParameters(Parameters, DecodeAttentionCut):
    """Up to `whole` blocks of 128 columns are one part; of more, a part has `part`.

    All are one where `cores` have as many key heads each. Of the heads that share a key head
    `together` are multiplied at once.
    """

    worth_trying: ClassVar[Mapping[str, Sequence[int]]] = {
        "whole": (4, 8, 16),
        "part": (4, 8),
        "together": (2, 3, 8),
        "cores": (1, LARGEST_COUNT),
    }


def decode_attention(payload: Handle, parameters: DecodeAttentionParameters) -> None:
    """A workgroup has a key head and a part of its columns. Changes numerics: sums are by parts."""
    cut(payload, DECODE_ATTENTION, "decode_attention", parameters)
