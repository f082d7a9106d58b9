"""Which dimensions of an operation's tensors are of one size: those with the same letter.

`*` stands for any number of dimensions, the same ones wherever it stands in an operation, which is
applied to each of their rows on its own; they get capital letters. `.` is a dimension of a size of
its own, as the last one of cells is: they are fewer than channels.
"""

from string import ascii_uppercase
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext, shard, tensor

from llmc.dialects.block_types import cell_format
from llmc.dialects.index_notation import letters

ROWS = ascii_uppercase  # what `*` is spelled with

_COLLECTIVES = ("shard.all_gather", "shard.all_reduce", "shard.broadcast", "shard.recv")

_CACHE = "lqgcd"
_DECODE_ATTENTION = {
    "query": "b.",
    "key": "b.",
    "value": "b.",
    "keys": _CACHE,
    "values": "lqgce",
    "start": "b",
    "cos": "p.r",
    "sin": "p.r",
    "out": "b.",
    "new_keys": _CACHE,
    "new_values": "lqgce",
}
_DRAW = {
    "logits": "r.",
    "values": "rc",
    "tokens": "rc",
    "random": "r",
    "options": ".",
    "out": "r",
}
_DIMENSIONS = {
    "llmc.add_rms_norm": {
        "x": "*n",
        "residual": "*n",
        "weight": "n",
        "sum": "*n",
        "normed": "*n",
    },
    "llmc.argmax": {"x": "r.", "out": "r"},
    "llmc.attention": {
        "query": "bhtd",
        "key": "bgsd",
        "value": "bgse",
        "start": "b",
        "out": "bhte",
    },
    "llmc.attention_part": {
        "query": "bhtd",
        "keys": _CACHE,
        "values": "lqgc.",
        "start": "b",
        "out": "bht.",
    },
    "llmc.cache_append": {"cache": _CACHE, "rows": "bgtd", "out": _CACHE},
    "llmc.cache_read": {"cache": _CACHE, "out": ".g.d"},
    "llmc.cached_attention": {
        "query": "bhtd",
        "keys": _CACHE,
        "values": "lqgce",
        "start": "b",
        "out": "bhte",
    },
    "llmc.combine_experts": {"y": ".n", "weights": "r.", "out": "rn"},
    "llmc.combine_grouped_experts": {
        "y": ".n",
        "place": ".",
        "weights": "r.",
        "residual": "rn",
        "out": "rn",
    },
    "llmc.decode_attention": _DECODE_ATTENTION,
    "llmc.decode_attention_part": _DECODE_ATTENTION,
    "llmc.draw": _DRAW | {"best": "r"},
    "llmc.draw_of_all": _DRAW | {"found": "r"},
    "llmc.embedding": {"ids": "*", "table": "..", "out": "*."},
    "llmc.expert_linear": {"x": "r.", "expert": "c", "weight": "...", "out": "c."},
    "llmc.group_rows": {"expert": "c", "order": "c", "first": ".", "place": "c"},
    "llmc.grouped_expert_linear": {"x": "r.", "first": ".", "weight": "....", "out": "r."},
    "llmc.grouped_quantized_expert_linear": {
        "x": "r.",
        "first": ".",
        "weight": "....",
        "out": "r.",
    },
    "llmc.join_float": {"high": "*", "low": "*", "out": "*"},
    "llmc.layer_norm": {"x": "*n", "weight": "n", "bias": "n", "out": "*n"},
    "llmc.linear": {"x": "*k", "weight": "..", "bias": "n", "out": "*n"},
    "llmc.packed_embedding": {"ids": "*", "table": "...", "out": "*."},
    "llmc.packed_expert_linear": {"x": "r.", "expert": "c", "weight": "....", "out": "c."},
    "llmc.packed_linear": {"x": "*k", "weight": ".k.", "bias": "n", "out": "*n"},
    "llmc.packed_quantized_expert_linear": {
        "x": "r.",
        "expert": "c",
        "weight": "....",
        "out": "c.",
    },
    "llmc.packed_quantized_linear": {"x": "*k", "weight": "...", "bias": "n", "out": "*n"},
    "llmc.plane_embedding": {"ids": "*", "high": "...", "low": "...", "out": "*."},
    "llmc.plane_linear": {"x": "*k", "high": "...", "low": "...", "out": "*n"},
    "llmc.quantize_rows": {"x": "*k", "values": "*k", "scales": "*."},
    "llmc.quantized_linear": {
        "x": "*k",
        "weight": "n.",
        "scales": "*.",
        "bias": "n",
        "out": "*n",
    },
    "llmc.rms_norm": {"x": "*n", "weight": "n", "out": "*n"},
    "llmc.rotary": {"x": "bhtd", "cos": "ptr", "sin": "ptr", "out": "bhtd"},
    "llmc.route": {"logits": "r.", "weights": "rc", "experts": "rc"},
    "llmc.scored_route": {"logits": "re", "bias": "e", "weights": "rc", "experts": "rc"},
    "llmc.screened_argmax": {
        "exact": "rn",
        "rough": "rn",
        "values": "r.",
        "metric": ".",
        "spread": "n",
        "out": "r",
        "scales": "r.",
    },
    "llmc.split_float": {"x": "*", "out": "*"},
    "llmc.take_rows": {"ids": "r", "x": ".*", "out": "r*"},
    "llmc.top_k": {"x": "r.", "values": "r.", "places": "r."},
}


def dimensions(op: Any) -> tuple[list[str], list[str]]:
    """For each operand and for each result of `op`, a letter for each of its dimensions.

    Empty lists for an operation of which nothing is known. Of MLIR's own that is all but
    `tensor.concat` and collectives: canonicalisation knows the others.
    """
    if op.operation.name in _COLLECTIVES:
        moved = letters(op.result.type.rank)
        if isinstance(op, shard.AllGatherOp):
            moved = moved.replace(moved[op.gather_axis.value], ".")
        return [moved], [moved]
    if isinstance(op, tensor.ConcatOp):
        joined = letters(op.result.type.rank)
        joined = joined.replace(joined[op.dim.value], ".")
        return [joined] * len(op.inputs), [joined]
    known = _DIMENSIONS.get(op.operation.name)
    if known is None:
        return [], []
    operands, results = (
        [
            spelled(known.get(field.name, ""), value)
            for field in op._fields
            if isinstance(field, kind) and (value := getattr(op, field.name)) is not None
        ]
        for kind in (ext.OperandDef, ext.ResultDef)
    )
    return operands, results


def spelled(notation: str, value: ir.Value) -> str:
    """`notation` with as many letters for its `*` as the tensor `value` has dimensions left.

    A cache that holds cells has no letter for channels.
    """
    if cell_format(value.type):
        return f"{notation[:-1]}."
    if "*" not in notation:
        return notation
    return notation.replace("*", letters(value.type.rank - len(notation) + 1))
