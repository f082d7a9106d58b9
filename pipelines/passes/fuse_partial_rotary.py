"""`fuse-partial-rotary`: rotates the first channels of heads where they lie."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import tensor

from llmc.dialects import RotaryOp
from llmc.dialects.index_notation import mixed_numbers
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.extents import is_extent
from llmc.pipelines.rewriting.operations import made_by
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class FusePartialRotary(Pass):
    """Makes one `llmc.rotary` of one of the first channels, with the others put behind them.

    Models that rotate a part of the channels cut heads in two and concatenate them again;
    `llmc.rotary` leaves the channels behind those of its tables as they are.
    """

    name: ClassVar[str] = "fuse-partial-rotary"

    def apply(self, module: ir.Module) -> None:
        """Rewrites every concatenation of both parts of heads."""
        for op in find(module.operation, "tensor.concat"):
            concat = op.opview
            rotary = made_by(concat.inputs[0], "llmc.rotary")
            heads = rotary and _heads_cut_for(rotary.opview, concat)
            if rotary and heads:
                cos, sin, interleaved = (
                    getattr(rotary.opview, name) for name in ("cos", "sin", "interleaved")
                )
                with ir.InsertionPoint(concat), concat.location:
                    whole = RotaryOp(heads, cos, sin, interleaved, heads.type)
                concat.result.replace_all_uses_with(whole.out)
                concat.operation.erase()


def _heads_cut_for(rotary: RotaryOp, concat: tensor.ConcatOp) -> ir.Value | None:
    """The heads `[B, H, T, D]` that `concat` would give but for `rotary`, where it would."""
    first, *others = (made_by(x, "tensor.extract_slice") for x in (rotary.x, *concat.inputs[1:]))
    if first is None or len(others) != 1 or others[0] is None:
        return None
    heads, turned = first.opview.source, rotary.cos.type.shape[2]
    is_cut = (
        heads.type == concat.result.type
        and _cuts(first.opview, heads, 0, turned)
        and _cuts(others[0].opview, heads, turned, heads.type.shape[3] - turned)
    )
    return heads if is_cut else None


def _cuts(cut: tensor.ExtractSliceOp, heads: ir.Value, start: int, width: int) -> bool:
    """Whether `cut` is the channels of `heads` from `start` on, `width` of them."""
    *extents, channels = mixed_numbers(cut.static_sizes, cut.sizes)
    return (
        cut.source == heads
        and list(cut.static_offsets) == [0, 0, 0, start]
        and set(cut.static_strides) == {1}
        and channels == width
        and all(is_extent(extent, heads, dim) for dim, extent in enumerate(extents))
    )
