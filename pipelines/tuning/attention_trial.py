"""The trial of attention: layer after layer, over few columns that are held and over many."""

from collections.abc import Iterator
from functools import partial
from itertools import product
from math import ceil, prod

import iree.runtime as rt
import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, func, ml_program

from llmc.dialects import CacheAllocateOp, CacheAppendOp
from llmc.dialects.block_types import cell_format
from llmc.dialects.cache_cells import COLUMNS
from llmc.dialects.index_notation import index
from llmc.dialects.kv_cache import channels
from llmc.pipelines.kernels.attention_cuts import DECODE_ATTENTION
from llmc.pipelines.passes.call_kernels import CallKernels
from llmc.pipelines.passes.lower_llmc import LowerLlmc
from llmc.pipelines.passes.store_blocks_as_bytes import StoreBlocksAsBytes
from llmc.pipelines.passes.to_iree import ToIREE
from llmc.pipelines.schedules.interpreter import apply_script
from llmc.pipelines.schedules.schedule import PythonSchedule
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.pipelines.tuning.layer_trial import depend
from llmc.pipelines.tuning.operands import upload
from llmc.pipelines.tuning.subject import Subject
from llmc.pipelines.tuning.trial import RUN, Arguments, Trial
from llmc.runtime.engine import PREFILL_CHUNK

_PASTS = (127, 511, 1023, 2047)
"""Columns that are held, after all of which a schedule is to be good."""

_COLUMNS_FILLED = _PASTS[-1] + PREFILL_CHUNK

_LAYERS_AT_ONCE = 8
_HELD = 32 << 20
"""How many layers are filled, and how many bytes of them: every candidate has caches of its own."""

_SEQUENCES = 4
"""Those of a batch of any number."""

_ALLOCATE, _FILL, _CACHES = "allocate", "fill", ("keys", "values")


def attention_trial(subject: Subject, target: CPUTarget, device: rt.HalDevice) -> Trial:
    """Of `run(tensors..., sequence: i64)`, which attends in a few layers after all of `_PASTS`.

    The tensors are the operation's, the caches left out; their first sequence is `sequence`. There
    are as many of these as the CPU's own caches do not hold.
    """
    op, rng = _attention(subject), np.random.default_rng(0)

    def normal(shape: list[int]) -> rt.HalBufferView:
        numbers = rng.standard_normal(shape, np.float32)
        return upload(device, numbers, rt.HalElementType.FLOAT_32)

    batch = _batch(op)
    starts = upload(device, np.zeros(batch, np.int64), rt.HalElementType.SINT_64)
    tensors = [
        starts if type_ == op.start.type else normal(_shape(op, type_))
        for type_ in _types_beside_caches(op)
    ]
    shapes = [
        [1, cache.type.shape[2], _COLUMNS_FILLED, channels(cache)] for cache in (op.keys, op.values)
    ]
    rows = [normal(shape) for shape in shapes]
    element = op.keys.type.element_type
    bytes_ = 1 if cell_format(op.keys.type) else element.width // 8
    of_layer = batch * sum(map(prod, shapes)) * bytes_
    layers = max(1, min(op.keys.type.shape[0], _LAYERS_AT_ONCE, _HELD // of_layer))
    batches = ceil(_HELD / (layers * of_layer))
    sequences = batch * batches
    filled: list[tuple[str, Arguments]] = [
        (_FILL, (*rows, layer, sequence))
        for layer in range(layers)
        for sequence in range(sequences)
    ]
    return Trial(
        partial(_module, op, layers, shapes, target),
        dispatches=len(_PASTS) * layers,
        runs=[(*tensors, sequence) for sequence in range(0, sequences, batch)],
        before=[(_ALLOCATE, (sequences,)), *filled],
        held=batches * layers * of_layer,
    )


def _attention(subject: Subject) -> ir.OpView:
    """The operation that the kernel is."""
    attention, *_ = subject.kernel.entry_block
    return attention


def _batch(op: ir.OpView) -> int:
    """How many sequences attend at once."""
    type_ = op.query.type
    return _SEQUENCES if type_.is_dynamic_dim(0) else int(type_.shape[0])


def _shape(op: ir.OpView, type_: ir.RankedTensorType) -> list[int]:
    """That of an operand which has open extents: a batch's, or a prompt's tokens."""
    open_ = _batch(op) if op.operation.name in DECODE_ATTENTION else PREFILL_CHUNK
    dims = range(type_.rank)
    return [open_ if type_.is_dynamic_dim(dim) else type_.shape[dim] for dim in dims]


def _types_beside_caches(op: ir.OpView) -> Iterator[ir.RankedTensorType]:
    """Of the operands that are tensors, in their order, but for the caches."""
    for value in op.operation.operands:
        if isinstance(value.type, ir.RankedTensorType) and value not in (op.keys, op.values):
            yield value.type


def _module(
    op: ir.OpView,
    layers: int,
    shapes: list[list[int]],
    target: CPUTarget,
    schedule: PythonSchedule,
) -> ir.Module:
    """As IREE compiles it."""
    module = ir.Module.create()
    module.context.allow_unregistered_dialects = True
    types = [cache.type for cache in (op.keys, op.values)]
    with ir.InsertionPoint(module.body), ir.Location.unknown():
        for name, type_ in zip(_CACHES, types, strict=True):
            ml_program.GlobalOp(name, type_, is_mutable=True, sym_visibility="private")
        _define_allocate(types)
        _define_fill(types, shapes)
        _define_run(op, layers)
    apply_script(schedule.script(), module)
    for pass_ in (
        LowerLlmc(keep_kernels=True),
        CallKernels(lanes=target.columns, instruction=target.byte_instruction.name),
        StoreBlocksAsBytes(),
        ToIREE(),
    ):
        pass_.apply(module)
    module.operation.verify()
    return module


def _define_allocate(types: list[ir.RankedTensorType]) -> None:
    """`allocate(sequences)`: room for the caches."""
    function = func.FuncOp(_ALLOCATE, ([_i64()], []))
    with ir.InsertionPoint(function.add_entry_block()):
        sequences = _as_index(function.arguments[0])
        for name, type_ in zip(_CACHES, types, strict=True):
            cells = ceil(_COLUMNS_FILLED / COLUMNS)
            capacity = index(cells if cell_format(type_) else _COLUMNS_FILLED)
            _store(name, CacheAllocateOp(sequences, capacity, type_).out)
        func.ReturnOp([])


def _define_fill(types: list[ir.RankedTensorType], shapes: list[list[int]]) -> None:
    """`fill(keys, values, layer, sequence)`: appends rows of `shapes` to empty caches."""
    f32, unknown = ir.F32Type.get(), ir.ShapedType.get_dynamic_size()
    rows = [
        ir.RankedTensorType.get([batch, heads, unknown, width], f32)
        for batch, heads, _, width in shapes
    ]
    function = func.FuncOp(_FILL, ([*rows, _i64(), _i64()], []))
    with ir.InsertionPoint(function.add_entry_block()):
        *given, layer, sequence = function.arguments
        place = [_as_index(layer), _as_index(sequence), index(0)]
        for name, type_, new in zip(_CACHES, types, given, strict=True):
            _store(name, CacheAppendOp(_load(name, type_), new, *place, type_).out)
        func.ReturnOp([])


def _define_run(op: ir.OpView, layers: int) -> None:
    """`run(tensors..., sequence)`: the result in the last of `layers`, after the last past."""
    held = zip(_CACHES, (op.keys.type, op.values.type), strict=True)
    function = func.FuncOp(RUN, ([*_types_beside_caches(op), _i64()], [op.out.type]))
    with ir.InsertionPoint(function.add_entry_block()):
        *tensors, first = function.arguments
        known, sequence = dict(enumerate(tensors)), _as_index(first)
        caches = [_load(name, type_) for name, type_ in held]
        for past, layer in product(_PASTS, range(layers)):
            result, *new = _copy(op, known, caches, [index(layer), sequence, index(past)])
            depend(known, result)
            caches = new or caches
        for name, cache in zip(_CACHES, caches, strict=True):
            _store(name, cache)
        func.ReturnOp([result])


def _copy(
    op: ir.OpView, tensors: dict[int, ir.Value], caches: list[ir.Value], numbers: list[ir.Value]
) -> list[ir.Value]:
    """The results of `op` for operands of each kind, in the operation's order."""
    copy, given, held, places = (
        op.operation.clone(),
        iter(tensors.values()),
        iter(caches),
        iter(numbers),
    )
    for number, value in enumerate(op.operation.operands):
        if value in (op.keys, op.values):
            copy.operands[number] = next(held)
        else:
            of_kind = places if value.type == ir.IndexType.get() else given
            copy.operands[number] = next(of_kind)
    return list(copy.results)


def _load(name: str, type_: ir.Type) -> ir.Value:
    return ml_program.global_load(type_, ir.FlatSymbolRefAttr.get(name))


def _store(name: str, value: ir.Value) -> None:
    ml_program.global_store(ir.FlatSymbolRefAttr.get(name), value)


def _i64() -> ir.Type:
    return ir.IntegerType.get_signless(64)


def _as_index(number: ir.Value) -> ir.Value:
    return arith.index_cast(ir.IndexType.get(), number)
