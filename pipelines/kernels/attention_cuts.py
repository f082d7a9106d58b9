"""How kernels of attention cut up their work: what a schedule says, on the operation.

A schedule can write no more than that, for no transform operation builds what these kernels are
made of.

    %rows = "llmc.cached_attention"(...) {llmc.attention = {groups = 4, vectors = 2}, ...}
"""

from dataclasses import dataclass, fields, replace
from typing import Annotated, TypeAlias, TypeVar

from torch_mlir import ir

from llmc.dialects.block_types import cell_format
from llmc.pipelines.errors import fail
from llmc.pipelines.option_text import Range, check_options

LARGEST_COUNT = 256
"""The greatest number that the field of a cut may be."""

Count: TypeAlias = Annotated[int, Range(1, LARGEST_COUNT)]


@dataclass(frozen=True)
class _Cut:
    """Its fields are numbers of something."""

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class AttentionCut(_Cut):
    """A workgroup has `vectors` vectors of query rows, and a block of columns `groups` of 8.

    So at most: as many as the stack bears. An element of a key or value is read once for all
    vectors; the scores of a group stay in registers together.
    """

    vectors: Count = 2
    groups: Count = 4


@dataclass(frozen=True)
class ByteAttentionCut(_Cut):
    """A workgroup has `rows` query rows, of which `together` are multiplied at once.

    So at most: as many as the stack bears. With more, cores would be left without any.
    """

    rows: Count = 24
    together: Count = 3


@dataclass(frozen=True)
class DecodeAttentionCut(_Cut):
    """Up to `whole` blocks of 128 columns are one part; of more, a part has `part` at most.

    Parts are two by two, so that as many cores are done at once. There are none, whatever the
    length, where key heads share `cores` evenly, or nearly so, as many as there are: what a part
    finds out for itself, and what becomes of several, costs more than columns save. Of the heads
    that share a key head, `together` are multiplied at once, at most.
    """

    whole: Count = 4
    part: Count = 8
    together: Count = 3
    cores: Count = LARGEST_COUNT


Cut = TypeVar("Cut", AttentionCut, ByteAttentionCut, DecodeAttentionCut)

DECODE_ATTENTION = "llmc.decode_attention", "llmc.decode_attention_part"
PROMPT_ATTENTION = "llmc.cached_attention", "llmc.attention_part"


def kernel_of_attention(op: ir.Operation) -> str:
    """The name of the kernel that computes one of the operations above."""
    if op.name in DECODE_ATTENTION:
        return "decode_attention"
    caches = op.opview.keys.type, op.opview.values.type
    return "byte_attention" if any(map(cell_format, caches)) else "attention"


def attribute_of(kernel: str) -> str:
    """The name of the attribute that says how `kernel` is cut."""
    return f"llmc.{kernel}"


def cut_of(op: ir.Operation, usual: Cut) -> Cut:
    """What `op` says of its kernel, and for what it does not say `usual`.

    PassError where it says something else than numbers by the names of fields.
    """
    name = attribute_of(kernel_of_attention(op))
    said = op.attributes.get(name, ir.DictAttr.get({}))
    known = [field.name for field in fields(usual)]
    numbers = {each.name: each.attr for each in said} if isinstance(said, ir.DictAttr) else None
    if numbers is None or not all(
        key in known and isinstance(value, ir.IntegerAttr) for key, value in numbers.items()
    ):
        fail(op, f"'{name}' must be a dictionary of integers by the names {', '.join(known)}")
    try:
        return replace(usual, **{key: value.value for key, value in numbers.items()})
    except ValueError as error:
        fail(op, f"'{name}': {error}")
