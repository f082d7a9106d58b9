"""The trial of attention: layer after layer, over few columns that are held and over many."""

from functools import partial
from itertools import product
from math import ceil, prod

import iree.runtime as rt
import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, func, ml_program
from torch_mlir.extras import types as T

from llmc.dialects import CacheAppendOp
from llmc.dialects.block_types import cell_format
from llmc.dialects.index_notation import index
from llmc.dialects.kv_cache import channels
from llmc.pipelines.kernels.attention_cuts import DECODE_ATTENTION
from llmc.pipelines.passes.call_kernels import CallKernels
from llmc.pipelines.passes.lower_llmc import LowerLlmc
from llmc.pipelines.passes.store_blocks_as_bytes import StoreBlocksAsBytes
from llmc.pipelines.passes.thread_kv_cache import Cache, define_caches
from llmc.pipelines.passes.to_iree import ToIREE
from llmc.pipelines.rewriting.alone import copied
from llmc.pipelines.schedules.interpreter import apply_script
from llmc.pipelines.schedules.schedule import PythonSchedule
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.pipelines.tuning.operands import upload
from llmc.pipelines.tuning.trial import RUN, Arguments, Trial, depend
from llmc.runtime.abi import RESET
from llmc.runtime.engine import PREFILL_CHUNK

_PASTS = (127, 511, 1023, 2047)
"""Columns that are held, after all of which a schedule is to be good."""

_COLUMNS_FILLED = _PASTS[-1] + PREFILL_CHUNK

_LAYERS_AT_ONCE = 8
_HELD = 32 << 20
"""How many layers are filled, and how many bytes of them: every candidate has caches of its own."""

_SEQUENCES = 4
"""Those of a batch of any number."""

_FILL, _CACHES = "fill", ("keys", "values")


def attention_trial(op: ir.OpView, target: CPUTarget, device: rt.HalDevice) -> Trial:
    """Of `run(tensors..., sequence: i64)`, which does `op` in a few layers after all of `_PASTS`.

    The tensors are the operation's, the caches left out; their first sequence is `sequence`. There
    are as many of these as the CPU's own caches do not hold.
    """
    rng = np.random.default_rng(0)

    def normal(shape: list[int]) -> rt.HalBufferView:
        numbers = rng.standard_normal(shape, np.float32)
        return upload(device, numbers, rt.HalElementType.FLOAT_32)

    batch = _batch(op)
    starts = upload(device, np.zeros(batch, np.int64), rt.HalElementType.SINT_64)
    tensors = [
        starts if value == op.start else normal(_shape(op, value.type))
        for value in _tensors_beside_caches(op)
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
        before=[(RESET, (sequences, _COLUMNS_FILLED)), *filled],
        held=batches * layers * of_layer,
    )


def _batch(op: ir.OpView) -> int:
    """How many sequences attend at once."""
    type_ = op.query.type
    return _SEQUENCES if type_.is_dynamic_dim(0) else int(type_.shape[0])


def _shape(op: ir.OpView, type_: ir.RankedTensorType) -> list[int]:
    """That of an operand which has open extents: a batch's, or a prompt's tokens."""
    open_ = _batch(op) if op.operation.name in DECODE_ATTENTION else PREFILL_CHUNK
    dims = range(type_.rank)
    return [open_ if type_.is_dynamic_dim(dim) else type_.shape[dim] for dim in dims]


def _tensors_beside_caches(op: ir.OpView) -> list[ir.Value]:
    """The operands that are tensors, in their order, but for the caches."""
    return [
        value
        for value in op.operation.operands
        if isinstance(value.type, ir.RankedTensorType) and value not in (op.keys, op.values)
    ]


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
    caches = {
        name: Cache(cache.type, op.location)
        for name, cache in zip(_CACHES, (op.keys, op.values), strict=True)
    }
    with ir.InsertionPoint(module.body), ir.Location.unknown():
        define_caches(module, caches)
        _define_fill(caches, shapes)
        _define_run(op, caches, layers)
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


def _define_fill(caches: dict[str, Cache], shapes: list[list[int]]) -> None:
    """`fill(keys, values, layer, sequence)`: appends rows of `shapes` to empty caches."""
    f32, unknown = T.f32(), ir.ShapedType.get_dynamic_size()
    rows = [
        ir.RankedTensorType.get([batch, heads, unknown, width], f32)
        for batch, heads, _, width in shapes
    ]
    function = func.FuncOp(_FILL, ([*rows, T.i64(), T.i64()], []))
    with ir.InsertionPoint(function.add_entry_block()):
        *given, layer, sequence = function.arguments
        place = [_as_index(layer), _as_index(sequence), index(0)]
        for (name, cache), new in zip(caches.items(), given, strict=True):
            filled = CacheAppendOp(_load(name, cache), new, *place, cache.type).out
            _store(name, filled)
        func.ReturnOp([])


def _define_run(op: ir.OpView, caches: dict[str, Cache], layers: int) -> None:
    """`run(tensors..., sequence)`: the result in the last of `layers`, after the last past."""
    operands = _tensors_beside_caches(op)
    types = [value.type for value in operands]
    function = func.FuncOp(RUN, ([*types, T.i64()], [op.out.type]))
    with ir.InsertionPoint(function.add_entry_block()):
        *tensors, sequence = function.arguments
        known = dict(zip(operands, tensors, strict=True))
        held = [_load(name, cache) for name, cache in caches.items()]
        first = _as_index(sequence)
        for past, layer in product(_PASTS, range(layers)):
            state = dict(zip((op.keys, op.values), held, strict=True))
            place = {op.layer: index(layer), op.sequence: first, op.past: index(past)}
            result, *new = copied(op.operation, {**known, **state, **place}).results
            depend(known, result)
            held = new or held
        for name, cache in zip(caches, held, strict=True):
            _store(name, cache)
        func.ReturnOp([result])


def _load(name: str, cache: Cache) -> ir.Value:
    return ml_program.global_load(cache.type, ir.FlatSymbolRefAttr.get(name))


def _store(name: str, value: ir.Value) -> None:
    ml_program.global_store(ir.FlatSymbolRefAttr.get(name), value)


def _as_index(number: ir.Value) -> ir.Value:
    return arith.index_cast(T.index(), number)
