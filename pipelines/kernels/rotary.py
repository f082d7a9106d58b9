"""The kernel of rotary position embedding for many tokens.

It norms, turns and scales a head's row while that is in registers, and writes it where attention
reads it: of the slices, sums and transposes that linalg says it by, IREE makes several dispatches.
"""

from torch_mlir import ir

from llmc.dialects.index_notation import Size
from llmc.pipelines.kernels.head_row import NormConstants, Preparation, Rotation
from llmc.pipelines.kernels.kernel import Kernel
from llmc.pipelines.kernels.token_heads import TokenHeads
from llmc.pipelines.kernels.vectors import store


def rotary(heads: TokenHeads, interleaved: bool, norm: NormConstants | None) -> Kernel:
    """Operands `x`, with `heads`, `cos` and `sin [B or 1, T, R]` and, with a `norm`, its `weight
    [layers, D]`; result `[B, H, T, D]`, all f32.

    The scalars, after all extents, are the weight's layer, with a norm, and T. Linalg has no name
    for a channel's partner but as a reduction over pairs, which IREE 3.13 does number by number.
    """

    def grid(extents: list[ir.Value]) -> tuple[Size, Size]:
        return heads.grid(extents[-1])

    def build(
        tile: ir.Value,
        number: ir.Value,
        extents: list[ir.Value],
        x: ir.Value,
        cos: ir.Value,
        sin: ir.Value,
        *rest: ir.Value,
    ) -> None:
        *_, out = rest
        own_norm = norm.of(rest[0], extents[-2]) if norm else None
        for row, sequence, head, token in heads.each(x, tile, number, extents[-1]):
            place = [sequence, head, token]
            rotation = Rotation([cos, sin], sequence, token, interleaved)
            preparation = Preparation(rotation, own_norm, None)
            preparation.query(row, lambda y, at: store(y, out, [*place, at]))  # noqa: B023

    parts = ["rotary", *([] if heads.offset is None else [str(heads.offset)])]
    parts += ["interleaved"] if interleaved else []
    parts += [norm.text] if norm else []
    return Kernel("_".join(parts), grid, build)
