"""`thread-kv-cache`: gives attention its memory of earlier tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Annotated, ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, func, ml_program
from torch_mlir.extras import types as T

from llmc.dialects import AttentionOp, CacheAllocateOp, CacheAppendOp, CacheReadOp
from llmc.dialects.block_types import CellType, block_type, cell_format
from llmc.dialects.blocks import Q8_0
from llmc.dialects.cache_cells import COLUMNS, KEYS, VALUES, are_smaller, blocks_of
from llmc.dialects.index_notation import as_value, constant, index, loop_index, pointwise, size
from llmc.pipelines.errors import fail
from llmc.pipelines.option_text import OneOf
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import calls_of, globals_with, set_arguments, set_operands
from llmc.pipelines.rewriting.layers import layer_argument, layer_functions, trunks
from llmc.pipelines.rewriting.threaded import holds_ids
from llmc.pipelines.several_rows import open_dims
from llmc.pipelines.walks import find
from llmc.runtime.abi import RESET
from llmc.runtime.errors import UserError

CACHE = "llmc.kv_cache"
SHARERS = "llmc.sharers"
"""On a KV cache: among how many ranks its columns are dealt out."""
# Of a cache, but that of one as bytes is one more.
_RANK = 5
ELEMENTS = ("f32", "f16", Q8_0.name)


@dataclass(frozen=True)
class Cache:
    """The type of a global, and where the attention is that it is of."""

    type: ir.RankedTensorType
    location: ir.Location


@dataclass(frozen=True)
class ThreadKVCache(Pass):
    """Turns attention over a call's own tokens into attention over all tokens so far.

    Keys and values live in mutable globals `[layers, sequences, heads, capacity, channels]`, two
    for each kind of layer, shared by the variants and marked `llmc.kv_cache`. A trunk
    `V(tokens, positions)` becomes `V(tokens, start, sequence, past)`: it runs on sequences from
    number `sequence` on, whose token columns 0 to `past - 1` are held; of these, sequence b uses
    those from `start[b]` on (shorter sequences of a batch begin later, so that all end at one
    column). `reset(sequences, capacity)` allocates the cache. Keys and values are kept as
    `element`, f32, f16 or q8_0, which changes numerics; attention widens what it reads. Of q8_0 the
    globals hold cells, of 512 columns by 32 channels. Where heads are so much less than whole
    blocks that these would be no smaller, f16 takes the place of q8_0.
    """

    name: ClassVar[str] = "thread-kv-cache"
    idempotent: ClassVar[bool] = False
    element: Annotated[str, OneOf(ELEMENTS)] = "f32"

    def apply(self, module: ir.Module) -> None:
        """Rewrites layer functions, then trunks, and adds the globals and `reset`."""
        caches: dict[str, Cache] = {}
        for function in layer_functions(module):
            count = len(calls_of(module, function))
            layer = layer_argument(function)
            if not _is_tensor(function.arguments[0].type):
                fail(function, "layer function must take the hidden state first")
            batch = function.arguments[0].type.shape[0]
            start, sequence, past = set_arguments(
                function, list(range(len(function.arguments))), _state_types(batch)
            )
            state = _State(layer, start, sequence, past, *self._elements())
            _, _, kind = function.sym_name.value.partition(".")
            if not kind:
                fail(function, "layer function must be named VARIANT.KIND, as in prefill.layer0")
            for number, op in enumerate(find(function.operation, "llmc.attention")):
                caches |= _attend_to_cache(op.opview, state, f"{kind}.{number}", count)
        layers = [function.sym_name.value for function in layer_functions(module)]
        for trunk in trunks(module):
            _thread_trunk(trunk, layers)
        define_caches(module, caches)

    def _elements(self) -> tuple[ir.Type, ir.Type]:
        """Of keys and of values."""
        if self.element == Q8_0.name:
            return block_type(KEYS), block_type(VALUES)
        return (ir.Type.parse(self.element),) * 2


def define_caches(module: ir.Module, caches: Mapping[str, Cache]) -> None:
    """Globals for `caches`, by their names, and `reset`, which allocates them."""
    with ir.InsertionPoint.at_block_begin(module.body):
        for symbol, cache in caches.items():
            declared = ml_program.GlobalOp(
                symbol,
                cache.type,
                is_mutable=True,
                sym_visibility="private",
                loc=cache.location,
            )
            declared.attributes[CACHE] = ir.UnitAttr.get()
    with ir.InsertionPoint(module.body):
        _build_reset(caches)


def kv_bytes_per_token(module: ir.Module) -> int:
    """Bytes that one token of one sequence takes in the KV cache of `module`, whatever its stage.

    Rounded up, where ranks share the cache. UserError where what is marked as a cache is none, as
    in a file that someone changed.
    """
    total = 0
    for op in globals_with(module, CACHE):
        type_ = op.attributes["type"].value
        columns = COLUMNS if kept_as(type_) == Q8_0.name else 1
        format_ = cell_format(type_)
        bits = 8 * format_.bytes if format_ else type_.element_type.width
        layers, _, heads, _, *row = type_.shape
        total += -(-layers * heads * prod(row) * bits // (8 * columns * _sharers(op)))
    return total


def kv_columns(module: ir.Module) -> int:
    """A multiple of how many tokens the KV cache of `module` has room for, whatever its stage."""
    types = [op.attributes["type"].value for op in globals_with(module, CACHE)]
    return COLUMNS if any(map(holds_cells, types)) else 1


def _sharers(cache: ir.Operation) -> int:
    attribute = cache.attributes.get(SHARERS, None)
    sharers = attribute.value if isinstance(attribute, ir.IntegerAttr) else 1
    if sharers < 1:
        raise UserError(f"'{SHARERS}' of a KV cache must be at least 1, not {sharers}")
    return int(sharers)


def kept_as(type_: ir.Type) -> str:
    """The element of a cache of `type_`, as `ThreadKVCache` has it; UserError where it is none."""
    if not _is_cache(type_):
        raise UserError(f"{type_} is not the type of a KV cache")
    return Q8_0.name if holds_cells(type_) else str(type_.element_type)


def holds_cells(type_: ir.RankedTensorType) -> bool:
    """Whether a cache of `type_` holds cells, or the bytes of these."""
    return cell_format(type_) is not None or type_.rank > _RANK


def _is_cache(type_: ir.Type) -> bool:
    """Whether `type_` is as `_cache_type` makes it, or the bytes of such cells."""
    if not isinstance(type_, ir.RankedTensorType):
        return False
    are_kept = isinstance(type_.element_type, CellType | ir.FloatType)
    are_bytes = str(type_.element_type) == "i8"
    kinds = (_RANK, are_kept), (_RANK + 1, are_bytes)
    return open_dims(type_) == [1, 3] and (type_.rank, True) in kinds


@dataclass(frozen=True)
class _State:
    layer: ir.Value
    start: ir.Value
    sequence: ir.Value
    past: ir.Value
    keys: ir.Type
    values: ir.Type


def _state_types(batch: int) -> list[ir.Type]:
    i64 = T.i64()
    return [ir.RankedTensorType.get([batch], i64), T.index(), T.index()]


def _attend_to_cache(
    attention: AttentionOp, state: _State, name: str, layers: int
) -> dict[str, Cache]:
    """Appends keys and values to the cache, and attends to all of it. Returns the globals used."""
    caches = {}
    with ir.InsertionPoint(attention), attention.location:
        held, grown = [], {}
        for which, rows, wanted in (
            ("keys", attention.key, state.keys),
            ("values", attention.value, state.values),
        ):
            element = _kept_as(wanted, attention)
            symbol, type_ = f"{name}.{which}", _cache_type(rows.type, layers, element)
            caches[symbol] = Cache(type_, attention.location)
            cache = ml_program.global_load(type_, ir.FlatSymbolRefAttr.get(symbol))
            cache = CacheAppendOp(cache, rows, state.layer, state.sequence, state.past, type_).out
            grown[symbol] = cache
            held.append(_read(cache, rows, state))
        new = AttentionOp(
            attention.query,
            *held,
            attention.scale,
            attention.window,
            attention.softcap,
            attention.out.type,
            past=state.past,
            start=state.start,
        )
        # After attention, which may thus become one operation with what it attends to.
        for symbol, cache in grown.items():
            ml_program.global_store(ir.FlatSymbolRefAttr.get(symbol), cache)
        attention.out.replace_all_uses_with(new.out)
    attention.operation.erase()
    return caches


def _kept_as(element: ir.Type, attention: AttentionOp) -> ir.Type:
    """`element`, or f16 instead of cells that would be no smaller, or of other rows than f32."""
    if not isinstance(element, CellType):
        return element
    f32, types = T.f32(), [rows.type for rows in (attention.key, attention.value)]
    are_floats = all(type_.element_type == f32 for type_ in types)
    in_cells = are_floats and are_smaller(*(type_.shape[3] for type_ in types))
    return element if in_cells else T.f16()


def _read(cache: ir.Value, rows: ir.Value, state: _State) -> ir.Value:
    batch, heads, _, channels = rows.type.shape
    columns = arith.addi(state.past, as_value(size(rows, 2)))
    unknown = ir.ShapedType.get_dynamic_size()
    element = rows.type.element_type if cell_format(cache.type) else cache.type.element_type
    type_ = ir.RankedTensorType.get([batch, heads, unknown, channels], element)
    return CacheReadOp(
        cache, state.layer, state.sequence, as_value(size(rows, 0)), columns, type_
    ).out


def _cache_type(rows: ir.RankedTensorType, layers: int, element: ir.Type) -> ir.RankedTensorType:
    """The type of a cache of `rows`, which keeps those that are no wider than `element` as such."""
    _, heads, _, channels = rows.shape
    if isinstance(element, CellType):
        channels = blocks_of(channels)
    elif rows.element_type.width <= element.width:
        element = rows.element_type
    unknown = ir.ShapedType.get_dynamic_size()
    return ir.RankedTensorType.get([layers, unknown, heads, unknown, channels], element)


def _thread_trunk(trunk: func.FuncOp, layers: list[str]) -> None:
    types = set(trunk.type.inputs)
    if len(trunk.arguments) != 2 or len(types) != 1 or not holds_ids(*types):
        fail(trunk, "public function must take tokens and positions, both of one type ?x?xi64")
    for attention in find(trunk.operation, "llmc.attention"):
        fail(attention, "attention outside of a layer has no cache")
    tokens, positions = trunk.arguments
    i64 = T.i64()
    start_type, *_ = _state_types(tokens.type.shape[0])
    start, *scalars = set_arguments(trunk, [0, 1], [start_type, i64, i64])
    first = trunk.entry_block.operations[0]
    with ir.InsertionPoint(first), trunk.location:
        sequence, past = (arith.index_cast(T.index(), value) for value in scalars)
        positions.replace_all_uses_with(_positions(tokens, start, past))
    set_arguments(trunk, [0, 2, 3, 4], [])
    for op in find(trunk.operation, "func.call"):
        call = op.opview
        if call.callee.value in layers:
            set_operands(call, [*call.operands, start, sequence, past])


def _is_tensor(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType) and type_.rank > 0


def _positions(tokens: ir.Value, start: ir.Value, past: ir.Value) -> ir.Value:
    """`past + t - start[b]` for each token, 0 for the columns before a sequence's start."""
    i64 = tokens.type.element_type

    def position(_token: ir.Value, start: ir.Value, _: ir.Value) -> ir.Value:
        column = arith.index_cast(i64, arith.addi(past, loop_index(1)))
        return arith.maxsi(arith.subi(column, start), constant(0, i64))

    return pointwise("bt,b->bt", position, tokens, start)


def _build_reset(caches: Mapping[str, Cache]) -> None:
    i64 = T.i64()
    function = func.FuncOp(RESET, ([i64, i64], []))
    with ir.InsertionPoint(function.add_entry_block()):
        sequences, capacity = (
            arith.index_cast(T.index(), argument) for argument in function.arguments
        )
        for symbol, cache in caches.items():
            with cache.location:
                extent = capacity
                if holds_cells(cache.type):
                    extent = arith.ceildivui(capacity, index(COLUMNS))
                room = CacheAllocateOp(sequences, extent, cache.type).out
                ml_program.global_store(ir.FlatSymbolRefAttr.get(symbol), room)
        func.ReturnOp([])
