"""`attention`: that of many tokens to a cache of floats, by an online softmax."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from llmc.pipelines.kernels.attention_cuts import PROMPT_ATTENTION, AttentionCut
from llmc.pipelines.schedules.cut import cut
from llmc.pipelines.schedules.handles import Handle
from llmc.pipelines.schedules.schedule import Parameters


@dataclass(frozen=True)
class AttentionParameters(Parameters, AttentionCut):
    """`vectors` of query rows a workgroup, `groups` of 8 columns a block: as the stack bears."""

    worth_trying: ClassVar[Mapping[str, Sequence[int]]] = {
        "vectors": (1, 2, 4),
        "groups": (2, 4, 8),
    }


def attention(payload: Handle, parameters: AttentionParameters) -> None:
    """Query rows share what is read of a block. Changes numerics: sums are by blocks."""
    cut(payload, PROMPT_ATTENTION, "attention", parameters)
