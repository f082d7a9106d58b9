"""Random operands for a kernel, as many sets of them as caches cannot hold."""

from collections.abc import Iterator
from math import ceil

import iree.runtime as rt
import numpy as np
from torch_mlir import ir

from llmc.pipelines.rewriting.kernel_functions import (
    EXPERT_MATVEC,
    OVER_EXPERTS,
    PANEL_EXPERT_MATVEC,
)
from llmc.pipelines.tuning.subject import Subject
from llmc.runtime.engine import PREFILL_CHUNK

_WORKING_SET = 64 << 20
"""Bytes that are read before any is read again: a model's weights are no fewer."""

_MOST_SETS = 64

_CHOICES = 8
"""How often other experts are chosen of the same matrices."""

# By the type's text: numpy has no bfloat16.
_ELEMENTS = {
    "f32": (np.float32, rt.HalElementType.FLOAT_32),
    "f16": (np.float16, rt.HalElementType.FLOAT_16),
    "bf16": (np.uint16, rt.HalElementType.BFLOAT_16),
    "i8": (np.int8, rt.HalElementType.SINT_8),
    "i16": (np.int16, rt.HalElementType.SINT_16),
    "i32": (np.int32, rt.HalElementType.SINT_32),
    "i64": (np.int64, rt.HalElementType.SINT_64),
}


def can_make(subject: Subject) -> bool:
    """Whether we have numbers of all the element types; a cache is filled by kernels of ours."""
    return subject.attention is not None or all(
        str(type_.element_type) in _ELEMENTS for _, type_ in subject.tensors()
    )


def operand_sets(subject: Subject, device: rt.HalDevice) -> list[list[rt.HalBufferView]]:
    """Sets of the tensors of `subject`, on `device`; as many rows as a prompt's piece has.

    Sets may share matrices of experts, where each chooses others of them.
    """
    rng = np.random.default_rng(0)
    arrays = [_random(type_, rng) for _, type_ in subject.tensors()]
    size = sum(array.nbytes for array, _ in arrays)
    count = min(ceil(_WORKING_SET / size), _MOST_SETS)
    sets = [[upload(device, *each) for each in arrays] for _ in range(count)]
    if subject.kind not in OVER_EXPERTS:
        return sets
    types = [type_ for _, type_ in subject.tensors()]
    place = next(place for place, type_ in enumerate(types) if _chooses(type_))
    _, element = arrays[place]
    chosen = [upload(device, each, element) for each in _choices(subject, types[place], rng)]
    return [[*each[:place], one, *each[place + 1 :]] for each in sets for one in chosen]


def _chooses(type_: ir.RankedTensorType) -> bool:
    """Whether a tensor says which experts rows are for: `[R]`, or `[E + 1]` where each begins."""
    return type_.rank == 1 and isinstance(type_.element_type, ir.IntegerType)


def _choices(
    subject: Subject, type_: ir.RankedTensorType, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """What may be in that tensor: different experts, or groups of any number of rows."""
    (count,) = type_.shape
    dtype, _ = _ELEMENTS[str(type_.element_type)]
    for _ in range(_CHOICES):
        if subject.kind in (EXPERT_MATVEC, PANEL_EXPERT_MATVEC):
            order = [rng.permutation(subject.experts) for _ in range(ceil(count / subject.experts))]
            yield np.concatenate(order)[:count].astype(dtype)
        else:
            inner = np.sort(rng.integers(0, PREFILL_CHUNK + 1, count - 2))
            yield np.array([0, *inner, PREFILL_CHUNK], dtype)


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


def upload(device: rt.HalDevice, array: np.ndarray, element: rt.HalElementType) -> rt.HalBufferView:
    """`array` on `device`."""
    return device.allocator.allocate_buffer_copy(
        int(rt.MemoryType.DEVICE_LOCAL), int(rt.BufferUsage.DEFAULT), device, array, element
    )
