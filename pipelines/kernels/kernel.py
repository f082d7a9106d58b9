"""Kernels of our own: finished code that IREE compiles as it is and dispatches like its own.

Linalg says what to compute and leaves to IREE how. A kernel says how, in scf, vector, memref and
arith operations on buffers, where that is needed for speed. It stands in a `stream.executable`
beside the functions. IREE's dialects are unknown to this MLIR: their operations are built
unregistered and print in the generic form, which IREE reads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, builtin, func, memref

from llmc.dialects.index_notation import Size, as_value, index, size


@dataclass(frozen=True)
class Kernel:
    """A function that runs once for every workgroup of a grid.

    `grid(extents)` is the width and height of the grid, `extents` being the dynamic extents of the
    operands, then of the results, in their order, then the scalars given to `dispatch`.
    `build(x, y, extents, *buffers)` writes what workgroup (x, y) does to the memrefs of operands
    and results. Kernels of one name, for operands and results of the same types, are the same.
    """

    name: str
    grid: Callable[[list[ir.Value]], tuple[Size, Size]]
    build: Callable[..., None]


def dispatch(
    kernel: Kernel,
    operands: Sequence[ir.Value],
    results: Sequence[ir.RankedTensorType],
    result_extents: Sequence[ir.Value] = (),
    scalars: Sequence[ir.Value] = (),
) -> list[ir.Value]:
    """Runs `kernel` on tensors, here; returns tensors of the types `results`.

    `result_extents` are the dynamic extents of the results, in their order. `scalars` are index
    values that follow the extents where the kernel is told them.
    """
    function = _function_around(ir.InsertionPoint.current.block.owner)
    operand_extents = [
        size(operand, dim)
        for operand in operands
        for dim in range(operand.type.rank)
        if operand.type.is_dynamic_dim(dim)
    ]
    extents = [*operand_extents, *result_extents, *scalars]
    types = [*(operand.type for operand in operands), *results]
    symbol = "_".join([kernel.name, *map(_text, types)])
    if symbol not in ir.SymbolTable(function.parent):
        with ir.InsertionPoint(function):
            _define(symbol, kernel, len(extents), types)
    # What the grid depends on, the function's arguments, the extents of the tensors among these.
    segments = [extents, [*extents, *operands], operand_extents, list(result_extents)]
    op = ir.Operation.create(
        "flow.dispatch",
        results=list(results),
        operands=[value for segment in segments for value in segment],
        attributes={
            "entry_points": ir.ArrayAttr.get([ir.SymbolRefAttr.get([symbol, symbol])]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(part) for part in segments]),
        },
    )
    return list(op.results)


def load_index(buffer: ir.Value, *where: ir.Value) -> ir.Value:
    """An integer of `buffer`, as an index."""
    return arith.index_cast(ir.IndexType.get(), memref.load(buffer, list(where)))


def multiply_add(x: ir.Value, y: ir.Value, sum_: ir.Value) -> ir.Value:
    """`sum_ + x * y`, one instruction where the CPU has it."""
    fuse = arith.FastMathFlags.contract
    return arith.addf(sum_, arith.mulf(x, y, fastmath=fuse), fastmath=fuse)


def _function_around(op: ir.Operation | ir.OpView) -> ir.Operation:
    while op.operation.name != "func.func":
        op = op.operation.parent
    return op.operation


def _text(type_: ir.RankedTensorType) -> str:
    dims = ["D" if type_.is_dynamic_dim(d) else str(type_.shape[d]) for d in range(type_.rank)]
    return "x".join([*dims, str(type_.element_type)])


def _define(symbol: str, kernel: Kernel, extents: int, types: list[ir.RankedTensorType]) -> None:
    name = ir.StringAttr.get(symbol)
    executable = _region_op(
        "stream.executable", {"sym_name": name, "sym_visibility": ir.StringAttr.get("private")}
    )
    with ir.InsertionPoint(executable):
        export = _region_op(
            "stream.executable.export",
            {"sym_name": name, "function_ref": ir.FlatSymbolRefAttr.get(symbol)},
            [ir.IndexType.get()] * extents,
        )
        code = builtin.ModuleOp()
        ir.Operation.create("stream.executable.end")
    with ir.InsertionPoint(export):
        grid = [as_value(extent) for extent in kernel.grid(list(export.arguments))]
        ir.Operation.create("stream.return", operands=[*grid, index(1)])
    with ir.InsertionPoint(code.body):
        _define_function(symbol, kernel, extents, types)


def _region_op(
    name: str, attributes: dict[str, ir.Attribute], arguments: Sequence[ir.Type] = ()
) -> ir.Block:
    """Creates an operation with one region of one block, and returns the block."""
    op = ir.Operation.create(name, attributes=attributes, regions=1)
    return op.regions[0].blocks.append(
        *arguments, arg_locs=[ir.Location.unknown()] * len(arguments)
    )


def _define_function(
    symbol: str, kernel: Kernel, extents: int, types: list[ir.RankedTensorType]
) -> None:
    binding = ir.Type.parse("!stream.binding")
    inputs = [ir.IndexType.get()] * extents + [binding] * len(types)
    function = func.FuncOp(symbol, (inputs, []))
    block = function.add_entry_block()
    with ir.InsertionPoint(block):
        sizes, bindings = list(block.arguments)[:extents], list(block.arguments)[extents:]
        start, rest = index(0), iter(sizes)
        buffers = []
        for type_, value in zip(types, bindings, strict=True):
            dims = [next(rest) for dim in range(type_.rank) if type_.is_dynamic_dim(dim)]
            view = ir.Operation.create(
                "stream.binding.subspan",
                results=[ir.MemRefType.get(type_.shape, type_.element_type)],
                operands=[value, start, *dims],
            )
            buffers.append(view.result)
        x, y = (_workgroup_id(dimension) for dimension in range(2))
        kernel.build(x, y, sizes, *buffers)
        func.ReturnOp([])


def _workgroup_id(dimension: int) -> ir.Value:
    return ir.Operation.create(
        "stream.dispatch.workgroup.id",
        results=[ir.IndexType.get()],
        attributes={"dimension": ir.IntegerAttr.get(ir.IndexType.get(), dimension)},
    ).result
