"""Layers that are nothing but dispatches of our kernels, one after the other."""

from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.pipelines.rewriting.operations import keeps_order, made_by

# What gives the bytes of its first operand, or the first of them, another type.
_VIEWS = (
    "tensor.collapse_shape",
    "tensor.expand_shape",
    "tensor.cast",
    "flow.tensor.bitcast",
    "linalg.transpose",
    "tensor.extract_slice",
)
_LOAD, _STORE = "util.global.load", "util.global.store"
DISPATCH = "flow.dispatch"
# Beside them, what extents are computed by.
_OTHERS = (
    "arith.constant",
    "arith.addi",
    "arith.muli",
    "tensor.dim",
    "tensor.empty",
    "func.return",
)
# This MLIR does not know IREE's operations, and so does not hold them to having these.
_ATTRIBUTES = {
    _LOAD: ("global",),
    _STORE: ("global",),
    DISPATCH: ("entry_points", "operandSegmentSizes", "tied_operands"),
}
_EXECUTABLE = ["stream.executable.export", "builtin.module", "stream.executable.end"]


@dataclass(frozen=True)
class Dispatch:
    """A dispatch of the executable `symbol`.

    `arguments` are what the arguments of the kernel's function stand for: index values and roots
    of tensors, those of `results` at the end, whose dynamic `extents` are listed by result.
    `updated` are those of them that it writes over. `grid` are the values that the extents of the
    grid are computed from.
    """

    symbol: str
    grid: list[ir.Value]
    arguments: list[ir.Value]
    results: list[ir.Value]
    extents: dict[ir.Value, list[ir.Value]]
    updated: list[ir.Value]


@dataclass(frozen=True)
class DispatchChain:
    """What a layer function dispatches. Tensors that share memory have one value as their root.

    `loads` are the globals that it loads, by name, `updated` the names of those that it stores.
    """

    dispatches: list[Dispatch] = field(default_factory=list)
    loads: dict[str, ir.Value] = field(default_factory=dict)
    updated: list[str] = field(default_factory=list)

    def root(self, value: ir.Value) -> ir.Value:
        """The value whose memory `value` is in."""
        value = _under_views(value)
        owner = value.owner
        if isinstance(owner, ir.Block):
            return value
        if owner.name == _LOAD:
            return self.loads[_global(owner)]
        if owner.name == DISPATCH:
            tie = owner.attributes["tied_operands"][ir.OpResult(value).result_number].value
            return value if tie < 0 else self.root(_segments(owner)[1][tie])
        return value


def dispatch_chain(function: func.FuncOp) -> DispatchChain | None:
    """The chain that `function` is; None where it does anything else, or returns several values."""
    if len(function.type.results) != 1 or len(function.body.blocks) != 1:
        return None
    symbols = ir.SymbolTable(function.operation.parent)
    chain, overwritten = DispatchChain(), set[ir.Value]()
    for op in (op.operation for op in function.entry_block):
        if any(name not in op.attributes for name in _ATTRIBUTES.get(op.name, ())):
            return None
        if op.name == _LOAD:
            chain.loads.setdefault(_global(op), op.results[0])
        elif op.name == _STORE:
            name = _global(op)
            if chain.root(op.operands[0]) != chain.loads.get(name):
                return None
            chain.updated.append(name)
        elif op.name == DISPATCH:
            dispatch = _dispatch(chain, op)
            read = [_under_views(value) for value in _segments(op)[1]]
            if not _is_executable(symbols, dispatch.symbol) or overwritten.intersection(read):
                return None
            ties = [tie.value for tie in op.attributes["tied_operands"]]
            overwritten.update(read[tie] for tie in ties if tie >= 0)
            chain.dispatches.append(dispatch)
        elif not _is_unread(op) and not _shows_or_measures(op):
            return None
    return chain if chain.dispatches else None


def is_view(op: ir.Operation | ir.OpView) -> bool:
    """Whether `op` shows the bytes of its first operand, all or the first of them, as they lie."""
    return op.operation.name in _VIEWS and _starts_alike(op.operation)


def _under_views(value: ir.Value) -> ir.Value:
    view = made_by(value, *_VIEWS)
    return _under_views(view.operands[0]) if view else value


def _dispatch(chain: DispatchChain, op: ir.Operation) -> Dispatch:
    grid, arguments, _, _ = _segments(op)
    bound = [
        chain.root(value) if isinstance(value.type, ir.RankedTensorType) else value
        for value in arguments
    ]
    results = [value for value in op.results if chain.root(value) == value]
    updated = [chain.root(value) for value in op.results if value not in results]
    symbol = op.attributes["entry_points"][0].value[0]
    return Dispatch(symbol, grid, [*bound, *results], results, result_extents(op), updated)


def result_extents(op: ir.Operation) -> dict[ir.Value, list[ir.Value]]:
    """The dynamic extents of each of a dispatch's results."""
    *_, extents = _segments(op)
    rest = iter(extents)
    return {
        value: [next(rest) for dim in range(value.type.rank) if value.type.is_dynamic_dim(dim)]
        for value in op.results
    }


def _segments(op: ir.Operation) -> list[list[ir.Value]]:
    """What a dispatch is given: for its grid, as arguments, their extents, and the results'."""
    operands = iter(op.operands)
    return [
        [next(operands) for _ in range(count)]
        for count in ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])
    ]


def _global(op: ir.Operation) -> str:
    return ir.FlatSymbolRefAttr(op.attributes["global"]).value


def _is_executable(symbols: ir.SymbolTable, name: str) -> bool:
    """Whether `name` is an executable with one entry point, which is code of ours."""
    if name not in symbols or symbols[name].operation.name != "stream.executable":
        return False
    blocks = [block for region in symbols[name].operation.regions for block in region]
    return [[op.operation.name for op in block] for block in blocks] == [_EXECUTABLE]


def _is_unread(op: ir.Operation | ir.OpView) -> bool:
    """Whether `op` is a view of which nothing but such views is made."""
    uses = [use.owner for result in op.operation.results for use in result.uses]
    return op.operation.name in _VIEWS and all(map(_is_unread, uses))


def _shows_or_measures(op: ir.Operation) -> bool:
    """Whether `op` is a view, or helps to compute an extent."""
    return is_view(op) or (op.name in _OTHERS and not _measures(op))


def _measures(op: ir.Operation) -> bool:
    """Whether `op` is an extent of what a dispatch gives, which is not known before."""
    return op.name == "tensor.dim" and bool(made_by(_under_views(op.operands[0]), DISPATCH))


def _starts_alike(op: ir.Operation) -> bool:
    """Whether a transposition moves but dimensions of extent 1, and a slice is the begin of a row.

    True of all other operations.
    """
    if op.name == "tensor.extract_slice":
        cut = op.opview
        long = [extent for extent in cut.source.type.shape if extent != 1]
        return len(long) <= 1 and not any(cut.static_offsets) and set(cut.static_strides) == {1}
    return op.name != "linalg.transpose" or keeps_order(op.opview)
