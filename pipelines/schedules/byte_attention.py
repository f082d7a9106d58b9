"""`byte_attention`: that of many tokens to a cache of cells, by products of bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from llmc.pipelines.kernels.attention_cuts import PROMPT_ATTENTION, ByteAttentionCut
from llmc.pipelines.schedules.cut import cut
from llmc.pipelines.schedules.handles import Handle
from llmc.pipelines.schedules.schedule import Parameters


@dataclass(frozen=True)
class ByteAttentionParameters(Parameters, ByteAttentionCut):
    """`rows` of queries a workgroup, as the stack bears; `together` are multiplied at once."""

    worth_trying: ClassVar[Mapping[str, Sequence[int]]] = {
        "rows": (12, 24, 48),
        "together": (3, 4, 6, 8),
    }


def byte_attention(payload: Handle, parameters: ByteAttentionParameters) -> None:
    """Query rows share what is unpacked of a panel of keys or values."""
    cut(payload, PROMPT_ATTENTION, "byte_attention", parameters)
