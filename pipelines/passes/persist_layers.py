"""`persist-layers`: one dispatch for all layers of a kind."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import Size, index
from llmc.pipelines.clones import clone_with
from llmc.pipelines.kernels.counters import Counters
from llmc.pipelines.kernels.kernel import dispatch, module_around
from llmc.pipelines.kernels.persistent import COUNTERS
from llmc.pipelines.option_text import Range
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.dispatch_chain import dispatch_chain
from llmc.pipelines.rewriting.functions import functions, symbol_users
from llmc.pipelines.rewriting.generics import integer_constant
from llmc.pipelines.rewriting.layer_phases import LayerPhases
from llmc.pipelines.rewriting.layers import LAYER, layer_argument, trunks

# What may not be moved over: a run of calls is one dispatch.
_EFFECTS = ("func.call", "util.global.store")


@dataclass(frozen=True)
class PersistLayers(Pass):
    """Runs consecutive calls of a layer function as one dispatch of a persistent kernel.

    The layer must be nothing but dispatches, on globals and tensors of static shapes or of as many
    rows as sequences, and the last of them must make the new hidden state without a look at the
    old. IREE takes microseconds from one dispatch to the next, a persistent kernel a fraction of
    one from phase to phase. `workgroups` is how many share the work; threads beyond that have
    nothing to do.
    """

    name: ClassVar[str] = "persist-layers"
    workgroups: Annotated[int, Range(1, 2**20)] = 64

    def apply(self, module: ir.Module) -> None:
        """Replaces calls, and erases the functions and kernels that are no longer used."""
        module.context.allow_unregistered_dialects = True
        persistent = {
            function.sym_name.value: layer
            for function in functions(module)
            if LAYER in function.attributes and (layer := _PersistentLayer.of(function))
        }
        for trunk in trunks(module):
            for calls in list(_runs(trunk, persistent)):
                persistent[calls[0].callee.value].replace(calls, self.workgroups)
        if persistent:
            _erase_unused(module, persistent)


class _PersistentLayer:
    """A layer function that can persist, and its calls."""

    def __init__(self, function: func.FuncOp, phases: LayerPhases) -> None:
        self._function = function
        self._phases = phases
        self._layer = ir.BlockArgument(layer_argument(function)).arg_number
        self._hidden = ir.BlockArgument(phases.hidden).arg_number

    @classmethod
    def of(cls, function: func.FuncOp) -> "_PersistentLayer | None":
        chain = dispatch_chain(function)
        keeps_type = function.type.results[:1] and function.type.results[0] in function.type.inputs
        if chain is None or not keeps_type:
            return None
        phases = LayerPhases(function, chain)
        return cls(function, phases) if phases.can_persist() else None

    def number(self, call: func.CallOp) -> int | None:
        """The layer that `call` is for; None where that is not known."""
        return integer_constant(call.operands[self._layer])

    def follows(self, call: func.CallOp, before: func.CallOp) -> bool:
        """Whether `call` is for the layer after that of `before`, and goes on with its result."""
        expected = list(before.operands)
        expected[self._hidden] = before.results[0]
        expected[self._layer] = call.operands[self._layer]
        number = self.number(before)
        return (
            call.callee == before.callee
            and list(call.operands) == expected
            and len(list(before.results[0].uses)) == 1
            and number is not None
            and self.number(call) == number + 1
        )

    def replace(self, calls: list[func.CallOp], workgroups: int) -> None:
        """Puts one dispatch in the place of `calls`, which follow each other."""
        first, last = calls[0], calls[-1]
        phases = self._phases
        with ir.InsertionPoint(first), first.location:
            counters = Counters(module_around(first), "persistent.counters", COUNTERS, 64)
            known = dict(zip(self._function.arguments, first.operands, strict=True))
            scalars = [_brought(value, known) for value in phases.scalars]
            room = phases.room.length({v: _brought(v, known) for v in phases.room.extents})
            _, hidden, *states, counts = dispatch(
                phases.kernel(self._function.sym_name.value, workgroups),
                [_brought(value, known) for value in phases.read],
                [_bytes_of(room)],
                [] if isinstance(room, int) else [room],
                scalars=[*scalars, first.operands[self._layer], index(len(calls))],
                updated=[*(_brought(value, known) for value in phases.updated), counters.load()],
            )
            _hide_rows(hidden)
            for load, state in zip(phases.updated[1:], states, strict=True):
                _store(load.owner, state)
            counters.store(counts)
        last.results[0].replace_all_uses_with(hidden)
        for call in reversed(calls):
            call.operation.erase()


def _runs(
    trunk: func.FuncOp, persistent: dict[str, _PersistentLayer]
) -> Iterator[list[func.CallOp]]:
    """Calls of layers that can persist, those together that follow each other."""
    run: list[func.CallOp] = []
    for op in list(trunk.entry_block):
        layer = persistent.get(op.callee.value) if isinstance(op, func.CallOp) else None
        if layer is None or layer.number(op) is None:
            ends, joins = op.operation.name in _EFFECTS, False
        else:
            ends, joins = bool(run) and not layer.follows(op, run[-1]), True
        if run and ends:
            yield run
            run = []
        if joins:
            run.append(op)
    if run:
        yield run


def _brought(value: ir.Value, known: dict[ir.Value, ir.Value]) -> ir.Value:
    """A value of the layer function, computed here from what `known` has for its arguments."""
    if value not in known:
        op = value.owner
        for operand in op.operands:
            _brought(operand, known)
        clone_with(op, known)
    return known[value]


def _bytes_of(count: Size) -> ir.RankedTensorType:
    extent = count if isinstance(count, int) else ir.ShapedType.get_dynamic_size()
    return ir.RankedTensorType.get([extent], T.i8())


def _hide_rows(hidden: ir.Value) -> None:
    """Keeps IREE 3.13 from seeing that a dispatch gives as many rows of `hidden` as it takes.

    Its `iree-util-ipo` loses an extent that a function returns twice and was given itself.
    """
    op, number = hidden.owner, ir.OpResult(hidden).result_number
    # The last operands are the extents of results, in their order.
    own, *later = [
        sum(map(result.type.is_dynamic_dim, range(result.type.rank)))
        for result in list(op.results)[number:]
    ]
    first = len(op.operands) - sum(later) - own
    for place in range(first, first + own):
        with ir.InsertionPoint(op):
            barrier = ir.Operation.create(
                "util.optimization_barrier",
                results=[T.index()],
                operands=[op.operands[place]],
            )
        op.operands[place] = barrier.result


def _store(load: ir.Operation, state: ir.Value) -> None:
    ir.Operation.create(
        "util.global.store", operands=[state], attributes={"global": load.attributes["global"]}
    )


def _erase_unused(module: ir.Module, names: Iterable[str]) -> None:
    """Erases the functions `names` and the kernels that nothing calls."""
    users = symbol_users(module)
    for function in functions(module):
        if function.sym_name.value in names and not users[function.sym_name.value]:
            function.operation.erase()
    users = symbol_users(module)
    for op in [op.operation for op in module.body if op.operation.name == "stream.executable"]:
        name = ir.StringAttr(op.attributes["sym_name"]).value
        if all(user.name == "stream.executable.export" for user in users[name]):
            op.erase()
