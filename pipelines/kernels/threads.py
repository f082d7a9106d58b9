"""What the threads of a GPU's workgroup have: a number each, shared memory, and barriers."""

from collections.abc import Iterable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, gpu, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import index, widened
from llmc.pipelines.kernels.head_row import Loop

LANES = 4
"""Floats that a thread reads at once: the longest vector that Vulkan knows."""


def thread() -> ir.Value:
    """The number of this thread in its workgroup."""
    return gpu.thread_id(gpu.Dimension.x)


def wait() -> None:
    """Waits for all threads of the workgroup, what they wrote to shared memory being seen then."""
    gpu.barrier()


def shared(*shape: int) -> ir.Value:
    """A buffer of float32 that the threads of a workgroup share."""
    space = ir.Attribute.parse("#gpu.address_space<workgroup>")
    type_ = ir.MemRefType.get(shape, T.f32(), memory_space=space)
    return memref.alloc(type_, [], [])


def spread(threads: int) -> Loop:
    """Loops of which each of `threads` threads does steps of its own."""

    def loop(start: int, end: int, step: int) -> Iterable[ir.Value]:
        first = arith.addi(index(start), arith.muli(thread(), index(step)))
        steps: Iterable[ir.Value] = scf.for_(first, index(end), index(threads * step))
        return steps

    return loop


def row_of(buffer: ir.Value, where: Sequence[ir.Value]) -> tuple[ir.Value, ir.Value]:
    """All rows of a kernel's `buffer [..., N]` as `[rows, N]`, and which of them is at `where`.

    LLVM sees how a row so numbered is aligned, and reads many numbers at once.
    """
    type_ = buffer.type
    binding, start, *dynamic = buffer.owner.operands
    rest = iter(dynamic)
    number, rows = index(0), index(1)
    for dim, place in enumerate(where):
        known = not type_.is_dynamic_dim(dim)
        extent = index(type_.shape[dim]) if known else next(rest)
        number = arith.addi(arith.muli(number, extent), place)
        rows = arith.muli(rows, extent)
    width, unknown = type_.shape[-1], ir.ShapedType.get_dynamic_stride_or_offset()
    layout = ir.StridedLayoutAttr.get(unknown, [width, 1])
    shape = [ir.ShapedType.get_dynamic_size(), width]
    view = ir.Operation.create(
        "stream.binding.subspan",
        results=[ir.MemRefType.get(shape, type_.element_type, layout)],
        operands=[binding, start, rows],
    )
    return view.result, number


def load_one(buffer: ir.Value, *where: ir.Value) -> ir.Value:
    """A number of `buffer`, which may hold narrower ones."""
    return widened(memref.load(buffer, list(where)), T.f32())


def store_lanes(value: ir.Value, buffer: ir.Value, where: Sequence[ir.Value]) -> None:
    """Writes a vector to `buffer`, which may hold narrower numbers, from `where` on.

    Number by number: IREE 3.13 has no stores of vectors for Vulkan.
    """
    *row, first = where
    for lane in range(value.type.shape[0]):
        place = [*row, arith.addi(first, index(lane))]
        store_one(vector.extract(value, [], [lane]), buffer, place)


def store_one(value: ir.Value, buffer: ir.Value, where: Sequence[ir.Value]) -> None:
    """Writes a number to `buffer`, which may hold narrower ones."""
    element = buffer.type.element_type
    memref.store(value if value.type == element else arith.truncf(element, value), buffer, where)


def rounded(value: ir.Value, element: ir.Type) -> ir.Value:
    """A float32, or a vector of such, as it is when it was stored as `element`."""
    if isinstance(value.type, ir.VectorType):
        element = ir.VectorType.get(value.type.shape, element)
    if value.type == element:
        return value
    return arith.extf(value.type, arith.truncf(element, value))
