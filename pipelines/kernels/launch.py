"""How a GPU runs a kernel of ours: finished code, which IREE lowers without tiling it."""

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.extras import types as T

from llmc.runtime.vm_function import Integers

MARKER = "llmc.schedule"
"""Names in IREE's translation info the schedule that chose it."""


@dataclass(frozen=True)
class Launch:
    """Workgroups of `threads` threads, under the name `schedule` in the final code.

    `integers` is what those of 64 bits become on the target: IREE narrows them everywhere but in
    the buffers of finished code.
    """

    schedule: str
    threads: int
    integers: Integers

    @property
    def translation_info(self) -> ir.Attribute:
        """The attribute by which IREE knows it."""
        return ir.Attribute.parse(
            "#iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline "
            f'workgroup_size = [{self.threads}, 1, 1], {{{MARKER} = "{self.schedule}"}}>'
        )

    def buffer_type(self, type_: ir.RankedTensorType) -> ir.MemRefType:
        """How a tensor's buffer is seen: from an offset on, for IREE puts several into one."""
        unknown = ir.ShapedType.get_dynamic_stride_or_offset()
        strides: list[int] = [1]
        for dim in reversed(range(1, type_.rank)):
            known = strides[0] != unknown and not type_.is_dynamic_dim(dim)
            strides.insert(0, strides[0] * type_.get_dim_size(dim) if known else unknown)
        layout = ir.StridedLayoutAttr.get(unknown, strides)
        element = type_.element_type
        if element == T.i64():
            element = ir.Type.parse(self.integers)
        return ir.MemRefType.get(type_.shape, element, layout)
