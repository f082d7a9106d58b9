"""`join-prompts`: runs the prompts of several sequences together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, func, tensor
from torch_mlir.extras import types as T

from llmc.dialects import CacheAppendOp, CachedAttentionOp
from llmc.dialects.index_notation import as_value, collapse, expand, index, size, slice_of
from llmc.pipelines.clones import clone_with
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import callee, set_type
from llmc.pipelines.rewriting.generics import maps, measured, reads_room
from llmc.pipelines.rewriting.joined_rows import Lengths, join_rows, split_rows
from llmc.pipelines.rewriting.layers import layer_functions, trunks
from llmc.pipelines.rewriting.operations import needed_for, read_from_outside
from llmc.pipelines.rewriting.threaded import is_threaded
from llmc.pipelines.walks import find, walk
from llmc.runtime.abi import DECODE_BATCH, PREFILL, PREFILL_BATCH

_NAMES = CacheAppendOp.OPERATION_NAME, CachedAttentionOp.OPERATION_NAME
"""What tells sequences apart."""

_GRID = "shard.grid"
"""What ranks there are, some of which may exchange nothing."""


@dataclass(frozen=True)
class JoinPrompts(Pass):
    """Adds `prefill_batch`: `prefill` of tokens `[B, T]`, of all sequences, `start` being `[B]`.

    The layers are those of `prefill`, to which B * T tokens are as good as those of one sequence:
    one product reads the weights for all of them. Attention and appends to the KV cache alone tell
    the sequences apart. What follows the layers is that of `decode_batch`, of the last token of
    each sequence. It runs late, so that both functions call the same kernels. Nothing is added
    where one of these two functions is missing, where ranks exchange something, or where something
    else than `llmc.cached_attention`, and the positions of tokens, depends on where a sequence
    starts.
    """

    name: ClassVar[str] = "join-prompts"

    def apply(self, module: ir.Module) -> None:
        """Builds the function of the trunks of both, and copies the layers."""
        named = {trunk.sym_name.value: trunk for trunk in trunks(module)}
        if not {PREFILL, DECODE_BATCH} <= named.keys() or PREFILL_BATCH in named:
            return
        if any(op.name.startswith("shard.") and op.name != _GRID for op in walk(module.operation)):
            return
        layers = {layer.sym_name.value: layer for layer in layer_functions(module)}
        prompt, step = (_Trunk.of(named[name], layers) for name in (PREFILL, DECODE_BATCH))
        if _are_alike(prompt, step):
            _join(prompt, step)


@dataclass(frozen=True)
class _Trunk:
    """A trunk, its calls of layers in their order, and what it computes beside these."""

    function: func.FuncOp
    layers: dict[str, func.FuncOp]
    calls: list[ir.Operation]
    rest: list[ir.Operation]

    @classmethod
    def of(cls, function: func.FuncOp, layers: dict[str, func.FuncOp]) -> "_Trunk":
        """`function`, that may call some of `layers`."""
        *ops, _ = (op.operation for op in function.entry_block)
        calls = [op for op in ops if op.name == "func.call" and callee(op) in layers]
        called = {callee(call): layers[callee(call)] for call in calls}
        return cls(function, called, calls, [op for op in ops if op not in calls])

    @property
    def tokens(self) -> ir.Value:
        """The argument that holds the tokens."""
        return self.function.arguments[0]

    @property
    def start(self) -> ir.Value:
        """The argument that says where sequences start."""
        return self.function.arguments[1]

    @property
    def returned(self) -> list[ir.Value]:
        """What it returns."""
        return list(self.function.entry_block.operations[-1].operation.operands)

    @property
    def kinds(self) -> list[str]:
        """Which layer each call is of, whatever the trunk is called."""
        return [callee(call).removeprefix(self.function.sym_name.value) for call in self.calls]

    @property
    def tail(self) -> list[ir.Operation]:
        """What computes the results out of what the layers return."""
        return needed_for(self.returned, self.rest)

    @property
    def crossing(self) -> list[tuple[int, int]]:
        """What the results need of the layers': the number of a call, and of its result."""
        needed = {value for op in self.tail for value in read_from_outside(op)} | {*self.returned}
        return [
            (number, result.result_number)
            for number, call in enumerate(self.calls)
            for result in call.results
            if result in needed
        ]

    @property
    def readers_of_start(self) -> list[ir.Operation]:
        """What reads where sequences start, beside layers."""
        readers = dict.fromkeys(use.owner.operation for use in self.start.uses)
        return [reader for reader in readers if reader not in self.calls]

    @property
    def past(self) -> ir.Value:
        """The argument that says how many columns are held."""
        return self.function.arguments[3]

    def starts(self, layer: str) -> list[tuple[int, ...]]:
        """In which arguments each call of `layer` passes where sequences start, in ascending order.

        Each way is there once.
        """
        calls = (call for call in self.calls if callee(call) == layer)
        ways = (
            tuple(number for number, value in enumerate(call.operands) if value == self.start)
            for call in calls
        )
        return list(dict.fromkeys(ways))


def _are_alike(prompt: _Trunk, step: _Trunk) -> bool:
    """Whether the layers of `prompt` can run joined, and be followed by the tail of `step`."""
    threaded = is_threaded(prompt.function) and is_threaded(step.function)
    return (
        threaded
        and prompt.kinds == step.kinds
        and [_is_of_positions(op, prompt) for op in prompt.readers_of_start] == [True]
        and all(_tells_apart(prompt, layer) for layer in prompt.layers)
        and all(_asks_only_how_many(op, step) for op in step.tail)
        and all(
            _are_rows(*(trunk.calls[call].results[result].type for trunk in (prompt, step)))
            for call, result in step.crossing
        )
    )


def _is_of_positions(op: ir.Operation, trunk: _Trunk) -> bool:
    """Whether `op` computes a number of each token from its column and where its sequence starts.

    As `thread-kv-cache` has it, so that it can be built for several sequences.
    """
    if op.name != "linalg.generic" or list(op.operands)[:-1] != [trunk.tokens, trunk.start]:
        return False
    row, column = (ir.AffineDimExpr.get(dim) for dim in range(2))
    of_token, of_sequence = (ir.AffineMap.get(2, 0, places) for places in ([row, column], [row]))
    return (
        [result.type for result in op.results] == [trunk.tokens.type]
        and maps(op) == [of_token, of_sequence, of_token]
        and not reads_room(op)
        and all(each.opview.dim.value == 1 for each in find(op, "linalg.index"))
    )


def _tells_apart(trunk: _Trunk, name: str) -> bool:
    """Whether a layer uses where its sequence starts for attention in place alone."""
    layer, (way, *others) = trunk.layers[name], trunk.starts(name)
    readers = [use.owner for number in way for use in layer.arguments[number].uses]
    heads = [op.opview.rows for op in find(layer.operation, CacheAppendOp.OPERATION_NAME)]
    if not way or others or not _is_hidden_state(layer.arguments[0].type):
        return False
    if not all(isinstance(reader, CachedAttentionOp) for reader in readers):
        return False
    return all(rows.type.shape[0] == 1 for rows in [*heads, *(each.query for each in readers)])


def _is_hidden_state(type_: ir.Type) -> bool:
    """Whether it is of rows `[1, T, ...]`, with T open."""
    if not isinstance(type_, ir.RankedTensorType) or type_.rank < 2:
        return False
    return type_.shape[0] == 1 and type_.is_dynamic_dim(1)


def _asks_only_how_many(op: ir.Operation, step: _Trunk) -> bool:
    """Whether `op` reads of the tokens of `step` no more than of how many sequences they are.

    Nor in which column they are.
    """
    reads = read_from_outside(op)
    asks_how_many = step.tokens not in reads or measured(op) == (step.tokens, 0)
    return asks_how_many and step.past not in reads


def _are_rows(of_one: ir.Type, of_several: ir.Type) -> bool:
    """Whether these are `[1, T, ...]` and, of as much, `[B, 1, ...]`."""
    unknown = ir.ShapedType.get_dynamic_size()
    one, several = list(of_one.shape), list(of_several.shape)
    return [*one[:2], *several[:2]] == [1, unknown, unknown, 1] and one[2:] == several[2:]


def _join(prompt: _Trunk, step: _Trunk) -> None:
    """Builds `prefill_batch` and its layers, before `prefill`."""
    i64, unknown = T.i64(), ir.ShapedType.get_dynamic_size()
    tokens_type, starts_type = (
        ir.RankedTensorType.get(shape, i64) for shape in ([unknown, unknown], [unknown])
    )
    with ir.InsertionPoint(prompt.function), prompt.function.location:
        for name, layer in prompt.layers.items():
            (starts,) = prompt.starts(name)
            _join_sequences(_copied(layer), starts, starts_type)
        arguments = [tokens_type, starts_type, i64, i64]
        function = func.FuncOp(PREFILL_BATCH, (arguments, step.function.type.results))
        with ir.InsertionPoint(function.add_entry_block()):
            results = _run_layers(prompt, *function.arguments)
            known = dict(zip(step.function.arguments, function.arguments, strict=True))
            for call, result in step.crossing:
                last = _last_rows(results[call][result], function.arguments[0])
                known[step.calls[call].results[result]] = last
            for op in step.tail:
                clone_with(op, known)
            func.ReturnOp([known[value] for value in step.returned])


def _joined_name(layer: str) -> str:
    return PREFILL_BATCH + layer.removeprefix(PREFILL)


def _copied(layer: func.FuncOp) -> func.FuncOp:
    copy = layer.operation.clone().opview
    copy.attributes["sym_name"] = ir.StringAttr.get(_joined_name(layer.sym_name.value))
    return copy


def _join_sequences(layer: func.FuncOp, starts: Sequence[int], type_: ir.Type) -> None:
    """Lets `layer` run rows of several sequences, which start where its arguments `starts` say.

    How many rows these are says the first argument, the hidden state.
    """
    for number in starts:
        layer.arguments[number].set_type(type_)
    set_type(layer, layer.type.results)
    with ir.InsertionPoint.at_block_begin(layer.entry_block), layer.location:
        rows, sequences = size(layer.arguments[0], 1), size(layer.arguments[starts[0]], 0)
        lengths = Lengths.of(rows, sequences)
    for op in find(layer.operation, *_NAMES):
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(_of_sequences(op, lengths))
        op.erase()


def _of_sequences(op: ir.Operation, lengths: Lengths) -> ir.Value:
    """What an append or an attention gives for rows of sequences that have these `lengths`."""
    is_append = op.name == CacheAppendOp.OPERATION_NAME
    heads = op.opview.rows if is_append else op.opview.query
    apart = split_rows(heads, lengths)
    copy = op.clone()
    copy.operands[list(op.operands).index(heads)] = apart
    (out,) = copy.results
    if is_append:
        return out
    unknown, (_, *extents) = ir.ShapedType.get_dynamic_size(), out.type.shape
    out.set_type(ir.RankedTensorType.get([unknown, *extents], out.type.element_type))
    return join_rows(out, lengths)


def _run_layers(
    prompt: _Trunk, tokens: ir.Value, start: ir.Value, sequence: ir.Value, past: ir.Value
) -> list[list[ir.Value]]:
    """What each call of a layer gives for `tokens [B, T]`, as rows of one sequence."""
    (of_positions,) = prompt.readers_of_start
    arguments = _as_one(tokens), start, sequence, past
    known = dict(zip(prompt.function.arguments, arguments, strict=True))
    given = [operand for call in prompt.calls for operand in call.operands]
    for op in needed_for(given, prompt.rest):
        if op == of_positions:
            known[op.results[0]] = _as_one(_positions(op, {**known, prompt.tokens: tokens}))
        else:
            clone_with(op, known)
    results = []
    for call in prompt.calls:
        types = [result.type for result in call.results]
        operands = [known[operand] for operand in call.operands]
        new = func.CallOp(types, _joined_name(callee(call)), operands)
        known.update(zip(call.results, new.results, strict=True))
        results.append(list(new.results))
    return results


def _positions(op: ir.Operation, known: dict[ir.Value, ir.Value]) -> ir.Value:
    """What `op` computes for the tokens, here `[B, T]`, that are `known`."""
    tokens, _, room = op.operands
    of_several = known[tokens]
    extents = [size(of_several, dim) for dim in range(2)]
    known[room] = tensor.empty(extents, of_several.type.element_type)
    clone_with(op, known)
    (positions,) = (known[result] for result in op.results)
    positions.set_type(of_several.type)
    return positions


def _as_one(of_tokens: ir.Value) -> ir.Value:
    """`[B, T]` as `[1, B * T]`."""
    joined = collapse(of_tokens, [2])
    return expand(joined, [[1, size(joined, 0)]])


def _last_rows(rows: ir.Value, tokens: ir.Value) -> ir.Value:
    """Of `rows [1, B * T, ...]` those of the last of `tokens [B, T]`: `[B, 1, ...]`."""
    sequences, count = size(tokens, 0), size(tokens, 1)
    rest = list(rows.type.shape[2:])
    apart = expand(
        collapse(rows, [2, *[1] * len(rest)]), [[sequences, count], *([n] for n in rest)]
    )
    last = arith.subi(as_value(count), index(1))
    extents = [sequences, 1, *rest]
    return slice_of(apart, [0, last, *[0] * len(rest)], extents, extents)
