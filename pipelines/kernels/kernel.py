"""Kernels of our own: finished code that IREE compiles as it is and dispatches like its own.

Linalg says what to compute and leaves to IREE how. A kernel says how, in scf, vector, memref and
arith operations on buffers, where that is needed for speed. It stands in a `stream.executable`
beside the functions. IREE's dialects are unknown to this MLIR: their operations are built
unregistered and print in the generic form, which IREE reads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, func, memref

from llmc.dialects.index_notation import Size, as_value, index, size


@dataclass(frozen=True)
class Kernel:
    """A function that runs once for every workgroup of a grid.

    `extents` are the dynamic extents of its operands, then of its results, in their order.
    `grid(extents)` is the width and height of the grid. `build(x, y, extents, *buffers)` writes what
    workgroup (x, y) does to the memrefs of operands and results. `name` tells it from all others.
    """

    name: str
    grid: Callable[[list[ir.Value]], tuple[Size, Size]]
    build: Callable[..., None]


def dispatch(
    kernel: Kernel,
    operands: Sequence[ir.Value],
    results: Sequence[ir.RankedTensorType],
    result_extents: Sequence[ir.Value] = (),
) -> list[ir.Value]:
    """Runs `kernel` on tensors, here; returns tensors of the types `results`.

    `result_extents` are the dynamic extents of the results, in their order.
    """
    module = _module_around(ir.InsertionPoint.current.block.owner)
    operand_extents = [
        size(operand, dim)
        for operand in operands
        for dim in range(operand.type.rank)
        if operand.type.is_dynamic_dim(dim)
    ]
    extents = [*operand_extents, *result_extents]
    if kernel.name not in ir.SymbolTable(module):
        types = [*(operand.type for operand in operands), *results]
        with ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]):
            _define(kernel, len(extents), types)
    # What the grid depends on, the function's arguments, the extents of the tensors among these.
    segments = [extents, [*extents, *operands], operand_extents, list(result_extents)]
    op = ir.Operation.create(
        "flow.dispatch",
        results=list(results),
        operands=[value for segment in segments for value in segment],
        attributes={
            "entry_points": ir.ArrayAttr.get([ir.SymbolRefAttr.get([kernel.name, kernel.name])]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(part) for part in segments]),
        },
    )
    return list(op.results)


def _module_around(op: ir.Operation | ir.OpView) -> ir.Operation:
    while op.operation.name != "builtin.module":
        op = op.operation.parent
    return op.operation


def _define(kernel: Kernel, extents: int, types: list[ir.RankedTensorType]) -> None:
    name = ir.StringAttr.get(kernel.name)
    executable = _region_op(
        "stream.executable", {"sym_name": name, "sym_visibility": ir.StringAttr.get("private")}
    )
    with ir.InsertionPoint(executable):
        export = _region_op(
            "stream.executable.export",
            {"sym_name": name, "function_ref": ir.FlatSymbolRefAttr.get(kernel.name)},
            [ir.IndexType.get()] * extents,
        )
        code = ir.Module.create()
        ir.InsertionPoint.current.insert(code.operation)
        ir.Operation.create("stream.executable.end")
    with ir.InsertionPoint(export):
        grid = [as_value(extent) for extent in kernel.grid(list(export.arguments))]
        ir.Operation.create("stream.return", operands=[*grid, index(1)])
    with ir.InsertionPoint(code.body):
        _define_function(kernel, extents, types)


def _region_op(
    name: str, attributes: dict[str, ir.Attribute], arguments: Sequence[ir.Type] = ()
) -> ir.Block:
    """Creates an operation with one region of one block, and returns the block."""
    op = ir.Operation.create(name, attributes=attributes, regions=1)
    return op.regions[0].blocks.append(
        *arguments, arg_locs=[ir.Location.unknown()] * len(arguments)
    )


def _define_function(kernel: Kernel, extents: int, types: list[ir.RankedTensorType]) -> None:
    binding = ir.Type.parse("!stream.binding")
    inputs = [ir.IndexType.get()] * extents + [binding] * len(types)
    function = func.FuncOp(kernel.name, (inputs, []))
    block = function.add_entry_block()
    with ir.InsertionPoint(block):
        sizes, bindings = list(block.arguments)[:extents], list(block.arguments)[extents:]
        start, rest = index(0), iter(sizes)
        buffers = []
        for type_, value in zip(types, bindings, strict=True):
            dims = [next(rest) for dim in range(type_.rank) if type_.is_dynamic_dim(dim)]
            memref = ir.MemRefType.get(type_.shape, type_.element_type)
            view = ir.Operation.create(
                "stream.binding.subspan", results=[memref], operands=[value, start, *dims]
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


def load_index(buffer: ir.Value, *where: ir.Value) -> ir.Value:
    """An integer of `buffer`, as an index."""
    return arith.index_cast(ir.IndexType.get(), memref.load(buffer, list(where)))
