"""Random operands for a kernel, as many sets of them as caches cannot hold."""

from math import ceil

import iree.runtime as rt
import numpy as np
from torch_mlir import ir

from llmc.pipelines.passes.kernel_functions import OVER_EXPERTS
from llmc.pipelines.tuning.subject import Subject
from llmc.runtime.engine import PREFILL_CHUNK

_WORKING_SET = 64 << 20
"""Bytes that are read before any is read again: a model's weights are no fewer."""

_MOST_SETS = 64

# By the type's text: numpy has no bfloat16.
_ELEMENTS = {
    "f32": (np.float32, rt.HalElementType.FLOAT_32),
    "f16": (np.float16, rt.HalElementType.FLOAT_16),
    "bf16": (np.uint16, rt.HalElementType.BFLOAT_16),
    "i8": (np.int8, rt.HalElementType.SINT_8),
    "i16": (np.int16, rt.HalElementType.SINT_16),
    "i32": (np.int32, rt.HalElementType.SINT_32),
}


def can_make(subject: Subject) -> bool:
    """Whether we have numbers of all the element types, and any will do: no names of experts."""
    if subject.kind in OVER_EXPERTS:
        return False
    return all(str(type_.element_type) in _ELEMENTS for _, type_ in subject.tensors())


def operand_sets(subject: Subject, device: rt.HalDevice) -> list[list[rt.HalBufferView]]:
    """Sets of the tensors of `subject`, on `device`; as many rows as a prompt's piece has."""
    rng = np.random.default_rng(0)
    arrays = [_random(type_, rng) for _, type_ in subject.tensors()]
    size = sum(array.nbytes for array, _ in arrays)
    count = min(ceil(_WORKING_SET / size), _MOST_SETS)
    return [[_upload(device, *each) for each in arrays] for _ in range(count)]


def _random(
    type_: ir.RankedTensorType, rng: np.random.Generator
) -> tuple[np.ndarray, rt.HalElementType]:
    shape = [
        PREFILL_CHUNK if type_.is_dynamic_dim(dim) else type_.get_dim_size(dim)
        for dim in range(type_.rank)
    ]
    dtype, element = _ELEMENTS[str(type_.element_type)]
    if np.issubdtype(dtype, np.floating):
        return rng.uniform(0.5, 1.0, shape).astype(dtype), element
    # Bytes that are also the halves of ordinary float16 and bfloat16 numbers, as scales in blocks.
    bytes_ = rng.integers(0x30, 0x3C, [*shape, np.dtype(dtype).itemsize], dtype=np.uint8)
    return bytes_.view(dtype).reshape(shape), element


def _upload(
    device: rt.HalDevice, array: np.ndarray, element: rt.HalElementType
) -> rt.HalBufferView:
    return device.allocator.allocate_buffer_copy(
        int(rt.MemoryType.DEVICE_LOCAL), int(rt.BufferUsage.DEFAULT), device, array, element
    )
