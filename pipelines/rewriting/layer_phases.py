"""The dispatches of a layer function as the phases of a persistent kernel."""

from functools import partial

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.dialects.index_notation import Size, as_value
from llmc.pipelines.clones import clone_with
from llmc.pipelines.kernels.kernel import ALLOCA, Kernel, binding_under, hoist_buffers
from llmc.pipelines.kernels.persistent import Phase, run_phases
from llmc.pipelines.rewriting.asked_first import asked_first
from llmc.pipelines.rewriting.dispatch_chain import Dispatch, DispatchChain
from llmc.pipelines.rewriting.layers import layer_argument
from llmc.pipelines.rewriting.phase_room import PhaseRoom
from llmc.pipelines.type_bytes import bytes_of
from llmc.pipelines.walks import find
from llmc.runtime.abi import MOST_STACK_BYTES

_MOST_BINDINGS = 32
"""How many tensors IREE 3.13 binds to a dispatch at most."""

_OWN_BINDINGS = 2  # the counters and the room


class _Code:
    """What a dispatch runs: the block that computes its grid, and its function."""

    def __init__(self, executable: ir.Operation) -> None:
        export, module, _ = executable.regions[0].blocks[0]
        self.grid = export.operation.regions[0].blocks[0]
        (function,) = module.operation.regions[0].blocks[0]
        self.function: func.FuncOp = function

    @property
    def stack(self) -> int:
        """Bytes of the buffers that the function has on the stack."""
        return sum(bytes_of(op.results[0].type) for op in find(self.function.operation, ALLOCA))


class LayerPhases:
    """A layer function that is a chain of dispatches, as phases of one kernel for many layers.

    The roots of its tensors are of three kinds: those that are `read`, those `updated`, the hidden
    state being the first of them, and those of use to the phases alone, which lie in one `room`,
    for IREE binds but so many tensors to a dispatch. `scalars` are the index values that it needs
    beside the layer's number.
    """

    def __init__(self, function: func.FuncOp, chain: DispatchChain) -> None:
        self._layer = layer_argument(function)
        self._chain = chain
        self._out = chain.root(list(function.entry_block)[-1].operands[0])
        symbols = ir.SymbolTable(function.operation.parent)
        self._code = [_Code(symbols[op.symbol].operation) for op in chain.dispatches]
        self.hidden = next(a for a in function.arguments if a.type == function.type.results[0])
        made = [value for op in chain.dispatches for value in op.results]
        self.updated = [self.hidden, *(chain.loads[name] for name in chain.updated)]
        extents = {value: op.extents[value] for op in chain.dispatches for value in op.results}
        extents.pop(self._out, None)
        self.room = PhaseRoom(extents)
        self._own = {self._layer, *self.updated, *made}
        used = (v for op in chain.dispatches for v in (*op.arguments, *op.grid))
        given = [v for v in dict.fromkeys((*used, *self.room.extents)) if v not in self._own]
        self.read = [value for value in given if isinstance(value.type, ir.RankedTensorType)]
        self.scalars = [value for value in given if isinstance(value.type, ir.IndexType)]

    def can_persist(self) -> bool:
        """Whether all layers have the same grids, and no phase overwrites what another reads.

        And whether the stack has room for them all, and IREE binds as much.
        """
        *before, last = self._chain.dispatches
        return (
            self._out in last.results
            and self.hidden not in last.arguments
            and all(self.hidden not in op.updated for op in before)
            and self._own.issuperset(root for op in self._chain.dispatches for root in op.updated)
            and (self._has_static_shapes() or self._is_of_rows())
            and not any(map(self._depends_on_layer, self._chain.dispatches, self._code))
            and sum(code.stack for code in self._code) <= MOST_STACK_BYTES
            and len(before) > 0
            and len(self.read) + len(self.updated) + _OWN_BINDINGS <= _MOST_BINDINGS
        )

    def _has_static_shapes(self) -> bool:
        return all(value.type.has_static_shape for value in (self.hidden, *self.room.tensors))

    def _is_of_rows(self) -> bool:
        """Whether its rows are as many as sequences.

        A prompt's are tokens: their tasks take longer than a workgroup waits for another.
        """
        of_rows, *others = map(self.hidden.type.is_dynamic_dim, range(self.hidden.type.rank))
        return bool(of_rows) and not any(others)

    def kernel(self, name: str, workgroups: int) -> Kernel:
        """The kernel of consecutive layers.

        Its operands are for `read`, what it updates for `updated` and then the counters of
        `run_phases`, its result is the room, its scalars are for `scalars` and then the first layer
        and how many they are.
        """

        def build(_x: ir.Value, _y: ir.Value, extents: list[ir.Value], *buffers: ir.Value) -> None:
            *given, counters, room = buffers
            bound = zip((*self.read, *self.updated), map(binding_under, given), strict=True)
            known = {**dict(bound), **dict.fromkeys(self.room.tensors, binding_under(room))}
            known[self._out] = known[self.hidden]
            *sizes, first, layers = extents
            known.update(zip(self.scalars, sizes[len(sizes) - len(self.scalars) :], strict=True))
            offsets = self.room.offsets(known)
            phases = [
                self._phase(op, code, known, offsets)
                for op, code in zip(self._chain.dispatches, self._code, strict=True)
            ]
            run_phases(phases, first, layers, workgroups, counters)
            hoist_buffers(ir.InsertionPoint.current.block)

        return Kernel(name, lambda _: (workgroups, 1), build)

    def _phase(
        self,
        op: Dispatch,
        code: _Code,
        known: dict[ir.Value, ir.Value],
        offsets: dict[ir.Value, Size],
    ) -> Phase:
        def grid() -> tuple[ir.Value, ir.Value]:
            values = [known.get(value, value) for value in op.grid]
            inner = dict(zip(code.grid.arguments, values, strict=True))
            *body, returned = list(code.grid)
            for each in body:
                clone_with(each.operation, inner)
            width, height, _ = (inner[extent] for extent in returned.operands)
            return width, height

        def build(body: list[ir.Operation], layer: ir.Value, x: ir.Value, y: ir.Value) -> None:
            values = [layer if value == self._layer else known[value] for value in op.arguments]
            inner = dict(zip(code.function.arguments, values, strict=True))
            bound = dict(zip(code.function.arguments, op.arguments, strict=True))
            for each in body:
                if each.name == "stream.dispatch.workgroup.id":
                    dimension = ir.IntegerAttr(each.attributes["dimension"]).value
                    inner[each.results[0]] = (x, y)[dimension]
                elif each.name == "stream.binding.subspan":
                    _clone_at(each, offsets.get(bound[each.operands[0]], 0), inner)
                else:
                    clone_with(each, inner)

        arguments = zip(code.function.arguments, op.arguments, strict=True)
        settled = [argument for argument, value in arguments if value in self.read]
        asks, rest = asked_first(code.function, settled)
        return Phase(grid, partial(build, asks), partial(build, rest))

    def _depends_on_layer(self, op: Dispatch, code: _Code) -> bool:
        arguments = zip(code.grid.arguments, op.grid, strict=True)
        return any(list(a.uses) for a, value in arguments if value == self._layer)


def _clone_at(view: ir.Operation, offset: Size, known: dict[ir.Value, ir.Value]) -> None:
    """As `clone_with`, of a view of a binding, which begins at a byte of its own."""
    _, start, *_ = view.operands
    within = {**known, start: as_value(offset)}
    clone_with(view, within)
    known[view.results[0]] = within[view.results[0]]
