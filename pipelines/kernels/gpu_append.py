"""The kernel that appends keys and values of many tokens to a KV cache on a GPU."""

from functools import partial

from torch_mlir import ir
from torch_mlir.dialects import arith

from llmc.dialects.index_notation import Size
from llmc.pipelines.kernels.kernel import Kernel, div_rem
from llmc.pipelines.kernels.launch import Launch
from llmc.pipelines.kernels.raw_heads import RawHeads
from llmc.pipelines.kernels.threads import spread, store_lanes
from llmc.pipelines.kernels.token_heads import TokenHeads
from llmc.runtime.vm_function import Integers

_THREADS = 32
"""Of a head of a token."""


def append_tokens(keys: RawHeads, values: TokenHeads, tokens: int, integers: Integers) -> Kernel:
    """Operands `key`, with `keys`, `value`, with `values`, and the factors of the keys, all of
    float32; updated are `keys [L, S, G, C, D]` and `values [L, S, G, C, E]`, of that or narrower.

    The scalars are the layer, the first sequence and the column of the first of `tokens` tokens.
    """
    heads = keys.places.heads

    def grid(_extents: list[ir.Value]) -> tuple[Size, Size]:
        return tokens, keys.places.batch * heads

    def build(
        token: ir.Value,
        group: ir.Value,
        extents: list[ir.Value],
        key: ir.Value,
        value: ir.Value,
        *rest: ir.Value,
    ) -> None:
        *factors, keys_cache, values_cache = rest
        layer, first, column = extents[-3:]
        row, head = div_rem(group, heads)
        place = [layer, arith.addi(first, row), head, arith.addi(column, token)]
        where = row, head, token
        new_key = partial(keys.make, key, factors, layer, where, _THREADS)
        new_value = values.row(value, *where, spread(_THREADS)).copy
        for make, cache in ((new_key, keys_cache), (new_value, values_cache)):
            make(partial(_write, cache, place))

    launch = Launch("gpu_append", _THREADS, integers)
    return Kernel(f"gpu_append_{keys.text}_{values.offset}", grid, build, launch)


def _write(cache: ir.Value, place: list[ir.Value], channels: ir.Value, at: ir.Value) -> None:
    store_lanes(channels, cache, [*place, at])
