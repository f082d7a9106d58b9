"""Kernels of our own: finished code that IREE compiles as it is and dispatches like its own.

Linalg says what to compute and leaves to IREE how. A kernel says how, in scf, vector, memref and
arith operations on buffers, where that is needed for speed. It stands in a `stream.executable`
beside the functions. IREE's dialects are unknown to this MLIR: their operations are built
unregistered and print in the generic form, which IREE reads.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from torch_mlir import ir
from torch_mlir.dialects import arith, builtin, func, memref
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import Size, as_value, index, size
from llmc.pipelines.kernels.launch import Launch
from llmc.pipelines.walks import find

ALLOCA = "memref.alloca"
"""The operation that makes a buffer on the stack."""

STACK_BYTES = 30_000
"""What the buffers of a kernel may take of the stack: what a core's nearest cache holds."""

# How long a kernel's symbol may be: a name of a file may have 255 letters, and IREE adds some. Of a
# longer one the end is a digest of so many.
_LONGEST_SYMBOL, _DIGEST = 225, 16

# What IREE has for a result that is written over no operand.
_UNTIED = -1


@dataclass(frozen=True)
class Kernel:
    """A function that runs once for every workgroup of a grid.

    `grid(extents)` is the width and height of the grid, `extents` being the dynamic extents of the
    operands, then of the results, in their order, then the scalars given to `dispatch`.
    `build(x, y, extents, *buffers)` writes what workgroup (x, y) does to the memrefs of operands,
    of those that are updated after the others, and of results. On a GPU, whose threads all do it,
    `launch` says how many these are. Kernels of one name, for operands and results of the same
    types, are the same where the same operands are one tensor.
    """

    name: str
    grid: Callable[[list[ir.Value]], tuple[Size, Size]]
    build: Callable[..., None]
    launch: Launch | None = None


@dataclass(frozen=True)
class _View:
    """How a kernel sees one of the tensors that are bound to it."""

    binding: int
    type: ir.RankedTensorType

    def __str__(self) -> str:
        dims = [
            "D" if self.type.is_dynamic_dim(dim) else str(self.type.shape[dim])
            for dim in range(self.type.rank)
        ]
        return "x".join([*dims, str(self.type.element_type)])


def dispatch(
    kernel: Kernel,
    operands: Sequence[ir.Value],
    results: Sequence[ir.RankedTensorType],
    result_extents: Sequence[ir.Value] = (),
    scalars: Sequence[ir.Value] = (),
    updated: Sequence[ir.Value] = (),
) -> list[ir.Value]:
    """Runs `kernel` on tensors, here; returns tensors of the types `results`.

    `result_extents` are the dynamic extents of the results, in their order. `scalars` are index
    values that follow the extents where the kernel is told them. An `llmc.bitcast` is no operand
    of its own: the kernel reads the tensor under it as another type. `updated` are more
    operands, whose new contents follow the results: written in place where nobody needs the old.
    """
    function = _around(ir.InsertionPoint.current.block.owner, "func.func")
    updated_extents = _dynamic_extents(updated)
    extents = [*_dynamic_extents(operands), *updated_extents, *result_extents, *scalars]
    bound = list(dict.fromkeys(map(under_view, operands)))
    bindings = [bound.index(under_view(operand)) for operand in operands]
    views = [_View(at, operand.type) for at, operand in zip(bindings, operands, strict=True)]
    written = [*(value.type for value in updated), *results]
    views += [_View(len(bound) + number, type_) for number, type_ in enumerate(written)]
    bound += updated
    # Where operands are one tensor, which they are tells the code from that for others.
    shared = map(str, bindings) if len(set(bindings)) < len(bindings) else ()
    symbol = _shortened("_".join([kernel.name, *map(str, views), *shared]))
    if symbol not in ir.SymbolTable(function.parent):
        with ir.InsertionPoint(function):
            _define(symbol, kernel, len(extents), views)
    # What the grid depends on, the function's arguments, the extents of the tensors among these.
    arguments, new_extents = [*extents, *bound], [*result_extents, *updated_extents]
    segments = [extents, arguments, _dynamic_extents(bound), new_extents]
    tied = range(len(arguments) - len(updated), len(arguments))
    op = ir.Operation.create(
        "flow.dispatch",
        results=[*results, *(value.type for value in updated)],
        operands=[value for segment in segments for value in segment],
        attributes={
            "entry_points": ir.ArrayAttr.get([ir.SymbolRefAttr.get([symbol, symbol])]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(part) for part in segments]),
            "tied_operands": ir.ArrayAttr.get(
                [_index(number) for number in (*[_UNTIED] * len(results), *tied)]
            ),
        },
    )
    return list(op.results)


def _shortened(symbol: str) -> str:
    """`symbol`, or what it begins with and a digest: IREE's linker names a file after it."""
    if len(symbol) <= _LONGEST_SYMBOL:
        return symbol
    digest = sha256(symbol.encode()).hexdigest()[:_DIGEST]
    return f"{symbol[: _LONGEST_SYMBOL - _DIGEST - 1]}_{digest}"


def in_symbol(*constants: float | str | None) -> str:
    """Constants as part of a kernel's name."""
    return re.sub(r"[^0-9a-z_]", "p", "_".join(map(str, constants)).replace("+", ""))


def div_rem(number: ir.Value, by: Size) -> tuple[ir.Value, ir.Value]:
    """The quotient of numbers that are not negative, and the remainder."""
    divisor = as_value(by)
    return arith.divui(number, divisor), arith.remui(number, divisor)


def module_around(op: ir.Operation) -> ir.Operation:
    """The module that `op` is in."""
    return _around(op, "builtin.module")


def workgroup_a_row(out: ir.RankedTensorType) -> Callable[[list[ir.Value]], tuple[Size, Size]]:
    """The grid of a kernel of one result `out [R, ...]` and no scalars: a workgroup a row."""

    def grid(extents: list[ir.Value]) -> tuple[Size, Size]:
        return (extents[-1] if out.is_dynamic_dim(0) else out.shape[0]), 1

    return grid


def load_index(buffer: ir.Value, *where: ir.Value) -> ir.Value:
    """An integer of `buffer`, as an index."""
    return arith.index_cast(T.index(), memref.load(buffer, list(where)))


def multiply_add(x: ir.Value, y: ir.Value, sum_: ir.Value) -> ir.Value:
    """`sum_ + x * y`, one instruction where the CPU has it."""
    fuse = arith.FastMathFlags.contract
    return arith.addf(sum_, arith.mulf(x, y, fastmath=fuse), fastmath=fuse)


def hoist_buffers(block: ir.Block) -> None:
    """Moves the buffers on the stack to the start of `block`, a function's, out of its loops."""
    for op in find(block.owner.operation, ALLOCA):
        op.move_before(block.operations[0])


def _dynamic_extents(tensors: Sequence[ir.Value]) -> list[ir.Value]:
    return [
        size(tensor, dim)
        for tensor in tensors
        for dim in range(tensor.type.rank)
        if tensor.type.is_dynamic_dim(dim)
    ]


def under_view(value: ir.Value) -> ir.Value:
    """The tensor of which `value` is an `llmc.bitcast`; else `value`."""
    owner = value.owner
    is_view = not isinstance(owner, ir.Block) and owner.name == "llmc.bitcast"
    return owner.operands[0] if is_view else value


def binding_under(buffer: ir.Value) -> ir.Value:
    """The binding that a buffer given to a kernel is a view of."""
    return buffer.owner.operands[0]


def _around(op: ir.Operation | ir.OpView, name: str) -> ir.Operation:
    while op.operation.name != name:
        op = op.operation.parent
    return op.operation


def _index(number: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(T.index(), number)


def _define(symbol: str, kernel: Kernel, extents: int, views: list[_View]) -> None:
    name = ir.StringAttr.get(symbol)
    executable = _region_op(
        "stream.executable", {"sym_name": name, "sym_visibility": ir.StringAttr.get("private")}
    )
    with ir.InsertionPoint(executable):
        export = _region_op(
            "stream.executable.export",
            {"sym_name": name, "function_ref": ir.FlatSymbolRefAttr.get(symbol)},
            [T.index()] * extents,
        )
        code = builtin.ModuleOp()
        ir.Operation.create("stream.executable.end")
    with ir.InsertionPoint(export):
        grid = [as_value(extent) for extent in kernel.grid(list(export.arguments))]
        ir.Operation.create("stream.return", operands=[*grid, index(1)])
    with ir.InsertionPoint(code.body):
        _define_function(symbol, kernel, extents, views)


def _region_op(
    name: str, attributes: dict[str, ir.Attribute], arguments: Sequence[ir.Type] = ()
) -> ir.Block:
    """Creates an operation with one region of one block, and returns the block."""
    op = ir.Operation.create(name, attributes=attributes, regions=1)
    return op.regions[0].blocks.append(
        *arguments, arg_locs=[ir.Location.unknown()] * len(arguments)
    )


def _define_function(symbol: str, kernel: Kernel, extents: int, views: list[_View]) -> None:
    binding = ir.Type.parse("!stream.binding")
    bindings = len({view.binding for view in views})
    inputs = [T.index()] * extents + [binding] * bindings
    function = func.FuncOp(symbol, (inputs, []))
    if kernel.launch:
        function.attributes["translation_info"] = kernel.launch.translation_info
    block = function.add_entry_block()
    with ir.InsertionPoint(block):
        sizes, bound = list(block.arguments)[:extents], list(block.arguments)[extents:]
        rest = iter(sizes)
        # What a GPU's buffers are seen from is no constant to IREE, and so always an offset.
        start = arith.muli(_workgroup_id(2), index(64)) if kernel.launch else index(0)
        buffers = []
        for binding, type_ in ((view.binding, view.type) for view in views):
            dims = [next(rest) for dim in range(type_.rank) if type_.is_dynamic_dim(dim)]
            held = kernel.launch.buffer_type(type_) if kernel.launch else _buffer_type(type_)
            view = ir.Operation.create(
                "stream.binding.subspan",
                results=[held],
                operands=[bound[binding], start, *dims],
            )
            buffers.append(view.result)
        x, y = (_workgroup_id(dimension) for dimension in range(2))
        kernel.build(x, y, sizes, *buffers)
        func.ReturnOp([])


def _buffer_type(type_: ir.RankedTensorType) -> ir.MemRefType:
    return ir.MemRefType.get(type_.shape, type_.element_type)


def _workgroup_id(dimension: int) -> ir.Value:
    return ir.Operation.create(
        "stream.dispatch.workgroup.id",
        results=[T.index()],
        attributes={"dimension": _index(dimension)},
    ).result
