"""What attention to the tokens of a prompt computes, as the name of its kernel says."""

import re
from dataclasses import dataclass

# How it is cut up, scale, window and softcap; then what it is given and what it returns.
_PROMPT = re.compile(
    r"(?P<bytes>byte_)?attention_\d+_\d+_[^_]+_(?P<window>\d+)_[^_]+"
    r"_(?P<batch>\d+)x(?P<heads>\d+)xDx(?P<channels>\d+)xf32_.+xDx(?P=heads)x(?P<width>\d+)xf32"
)


@dataclass(frozen=True)
class AttentionWork:
    """Operations of one dispatch; `in_bytes` says that they are on bytes."""

    operations: float
    in_bytes: bool


def attention_work(kernel: str, tokens: int, past: int) -> AttentionWork | None:
    """That of a kernel for `tokens` after `past`; None where it is none of attention to a prompt.

    A multiplication and an addition count as two, of each channel of the keys and of the values
    that a token sees.
    """
    found = _PROMPT.fullmatch(kernel)
    if found is None:
        return None
    window = int(found["window"]) or past + tokens
    columns = sum(min(past + token + 1, window) for token in range(tokens))
    channels = int(found["channels"]) + int(found["width"])
    rows = int(found["batch"]) * int(found["heads"])
    return AttentionWork(2.0 * rows * channels * columns, bool(found["bytes"]))
