"""Kernels that a schedule made: a function whose outermost loop is the grid of workgroups."""

from collections.abc import Iterator
from itertools import takewhile

from torch_mlir import ir
from torch_mlir.dialects import arith, func, scf
from torch_mlir.extras import types as T
from torch_mlir.passmanager import PassManager

from llmc.dialects.index_notation import Size, index
from llmc.pipelines.clones import clone_with
from llmc.pipelines.errors import fail
from llmc.pipelines.kernels.kernel import Kernel
from llmc.pipelines.rewriting.alone import copied_alone
from llmc.pipelines.rewriting.functions import functions, set_type
from llmc.pipelines.walks import find

# Bytes of a buffer that goes on a workgroup's stack, at most.
_STACK = 256 * 1024

# Computes a result where it belongs. Of several, MLIR may compute one where another belongs, and
# overwrite it: where both begin as one tensor, such as one that is filled.
_IN_PLACE = "eliminate-empty-tensors"
_INTO_BUFFERS = (
    "one-shot-bufferize{bufferize-function-boundaries"
    " function-boundary-type-conversion=identity-layout-map}",
    "drop-equivalent-buffer-results",
    "canonicalize",
    "cse",
    f"func.func(promote-buffers-to-stack{{max-alloc-size-in-bytes={_STACK}"
    " max-rank-of-allocated-memref=8})",
    "func.func(convert-linalg-to-loops)",
    "func.func(lower-vector-mask)",
    "fold-memref-alias-ops",
    "func.func(convert-vector-to-scf{full-unroll})",
    "fold-memref-alias-ops",
    "lower-affine",
    "canonicalize",
    "cse",
    "func.func(loop-invariant-code-motion)",
)


def scheduled_kernel(function: func.FuncOp) -> Kernel:
    """The kernel that a function on tensors is, once a schedule has distributed it.

    What it returns are results of its `scf.forall`, the grid of workgroups, into empty tensors,
    which become the buffers of the kernel's results. What it computes before, every workgroup
    computes; what is temporary lies on the stack. A grid in the grid is its width. Arguments are
    tensors and index values. The best of a row, after the grid, is left out. A diagnostic and
    PassError where the function is not of that form.
    """
    module = _in_buffers(function)

    def extents(given: list[ir.Value]) -> tuple[Size, Size]:
        width, height, *_ = *_bounds(_kernel_of(module), given), 1, 1
        return width, height

    def build(x: ir.Value, y: ir.Value, given: list[ir.Value], *buffers: ir.Value) -> None:
        kernel = _kernel_of(module)
        tensors, scalars = split_arguments(list(kernel.arguments))
        known = dict(zip(tensors, buffers, strict=True))
        known.update(zip(scalars, given[len(given) - len(scalars) :], strict=True))
        loops = [
            each
            for grid in _grids(kernel)
            for each in zip(grid.induction_variables, _steps(grid), strict=True)
        ]
        for (loop, step), number in zip(loops, (x, y), strict=False):
            known[loop] = arith.muli(number, index(step))
        for op in _of_workgroup(kernel.entry_block):
            clone_with(op, known)

    return Kernel(function.sym_name.value, extents, build)


def places_of_result_extents(function: func.FuncOp) -> list[tuple[int, int]]:
    """The dynamic extents of the function's results: number and dimension of an argument each."""
    grid, places = _grid(function), []
    for value in _returned(function):
        for extent in grid.outputs[ir.OpResult(value).result_number].owner.operands:
            dim = extent.owner
            if dim.name != "tensor.dim" or not isinstance(dim.operands[0].owner, ir.Block):
                fail(function, "a result of a kernel is as long as an argument, or static")
            argument = ir.BlockArgument(dim.operands[0])
            places.append((argument.arg_number, dim.operands[1].owner.opview.literal_value))
    return places


def workgroups_of_row(function: func.FuncOp) -> int | None:
    """How many workgroups cut what the grid computes, a row, into equal parts in their order.

    None where that is several rows or tensors, or is distributed otherwise.
    """
    if [value.type.has_static_shape for value in _returned(function)] != [True]:
        return None
    grid = _grid(function)
    (bound, *others), step = ir.DenseI64ArrayAttr(grid.staticUpperBound), _steps(grid)[0]
    inserted = list(grid.body.operations[-1].regions[0].blocks[0])
    if others or len(_grids(function)) > 1 or len(inserted) != 1 or bound % step:
        return None
    insertion = inserted[0]
    shape, part = insertion.dest.type.shape, list(insertion.static_sizes)
    whole = [number for number, extent in enumerate(shape) if extent == bound != part[number]]
    if [list(insertion.offsets), len(whole)] != [list(grid.induction_variables), 1]:
        return None
    (cut,) = whole
    is_row = all(extent == 1 for extent in shape[:cut])
    is_even = part == [*shape[:cut], step, *shape[cut + 1 :]]
    return bound // step if is_row and is_even else None


def cuts_rows(function: func.FuncOp) -> bool:
    """Whether workgroup (r, p) computes `[1, 1, J]` of the one result `[R, P, J]`, a panel."""
    grid = _grid(function)
    inserted = list(grid.body.operations[-1].regions[0].blocks[0])
    if len(_grids(function)) > 1 or len(inserted) != 1 or _steps(grid) != [1, 1]:
        return False
    (insertion,) = inserted
    is_panel = list(insertion.static_sizes) == [1, 1, insertion.dest.type.shape[-1]]
    return is_panel and list(insertion.offsets) == list(grid.induction_variables)


def has_best(function: func.FuncOp) -> bool:
    """Whether the last result is the best of the one before, which is a row."""
    return bool(_computed_after(function))


def split_arguments(values: list[ir.Value]) -> tuple[list[ir.Value], list[ir.Value]]:
    """The tensors or buffers among a kernel's arguments, and the index values."""
    index_type = T.index()
    scalars = [value for value in values if value.type == index_type]
    return [value for value in values if value.type != index_type], scalars


def _in_buffers(function: func.FuncOp) -> ir.Module:
    """A module of the function alone, on buffers, those of its results being arguments too."""
    module = copied_alone(function)
    _leave_out_best(_kernel_of(module))
    _take_destinations(_kernel_of(module))
    in_place = [_IN_PLACE] if len(function.type.results) == 1 else []
    steps = ",".join([*in_place, *_INTO_BUFFERS])
    PassManager.parse(f"builtin.module({steps})").run(module.operation)
    for op in find(module.operation, "memref.alloca"):
        # IREE 3.13 parses this attribute otherwise than this MLIR prints it.
        if "alignment" in op.attributes:
            del op.attributes["alignment"]
    return module


def _kernel_of(module: ir.Module) -> func.FuncOp:
    (kernel,) = functions(module)
    return kernel


def _leave_out_best(function: func.FuncOp) -> None:
    after = _computed_after(function)
    if after:
        return_ = function.entry_block.operations[-1]
        row, _ = return_.operands
        with ir.InsertionPoint(return_), return_.location:
            func.ReturnOp([row])
        for op in (return_, *reversed(after)):
            op.operation.erase()
        set_type(function, [row.type])


def _computed_after(function: func.FuncOp) -> list[ir.OpView]:
    """What finds the best of a row, after the grid."""
    *body, return_ = function.entry_block
    after = body[-2:]
    names = [op.operation.name for op in after]
    is_best = names == ["tensor.collapse_shape", "llmc.argmax"] and len(return_.operands) == 2
    return after if is_best and return_.operands[1].owner == after[1].operation else []


def _take_destinations(function: func.FuncOp) -> None:
    """Makes arguments of the empty tensors that the function's results begin as."""
    block = function.entry_block
    grid = _grid(function)
    first = len(grid.operation.operands) - len(grid.outputs)
    for value in _returned(function):
        # Empty tensors of one shape are one: each result takes an argument of its own.
        place = first + ir.OpResult(value).result_number
        grid.operation.operands[place] = block.add_argument(value.type, function.location)
    set_type(function, function.type.results)


def _grid(function: func.FuncOp) -> scf.ForallOp:
    loops = [op for op in function.entry_block if isinstance(op, scf.ForallOp)]
    if len(loops) != 1:
        fail(function, f"a scheduled kernel has one grid of workgroups, not {len(loops)}")
    return loops[0]


def _returned(function: func.FuncOp) -> list[ir.Value]:
    """What the function returns: results of its grid, which begin as empty tensors."""
    grid, values = _grid(function), list(list(function.entry_block)[-1].operands)
    if has_best(function):
        values.pop()
    for value in values:
        if value.owner != grid.operation:
            fail(function, "a scheduled kernel returns what its grid computes")
        room = grid.outputs[ir.OpResult(value).result_number].owner
        if isinstance(room, ir.Block) or room.name != "tensor.empty":
            fail(function, "what a kernel's grid computes begins as empty tensors")
    return values


def _grids(function: func.FuncOp) -> list[scf.ForallOp]:
    """The grid of workgroups, and before it the one that is in it; none of a single workgroup."""
    outer = [op for op in function.entry_block if isinstance(op, scf.ForallOp)]
    return [*(op for grid in outer for op in grid.body if isinstance(op, scf.ForallOp)), *outer]


def _of_workgroup(block: ir.Block) -> Iterator[ir.Operation]:
    """What a workgroup does of a block: what is in a grid once."""
    *body, _ = block
    for op in body:
        if isinstance(op, scf.ForallOp):
            yield from _of_workgroup(op.body)
        else:
            yield op.operation


def _before_grid(function: func.FuncOp) -> list[ir.OpView]:
    return list(takewhile(lambda op: not isinstance(op, scf.ForallOp), function.entry_block))


def _bounds(kernel: func.FuncOp, given: list[ir.Value]) -> list[Size]:
    """How many workgroups each loop of the grid is.

    `given` are the dynamic extents of the kernel's buffers, and then its index values.
    """
    dynamic_dims = [
        (argument.arg_number, dim)
        for argument in kernel.arguments
        if isinstance(argument.type, ir.MemRefType)
        for dim in range(argument.type.rank)
        if argument.type.is_dynamic_dim(dim)
    ]
    _, scalars = split_arguments(list(kernel.arguments))
    known = dict(zip(scalars, given[len(given) - len(scalars) :], strict=True))
    for op in _before_grid(kernel):
        if op.operation.name == "memref.dim" and isinstance(op.source.owner, ir.Block):
            place = ir.BlockArgument(op.source).arg_number, op.index.owner.literal_value
            if place in dynamic_dims:
                known[op.result] = given[dynamic_dims.index(place)]
        elif op.operation.name.startswith("arith.") and all(v in known for v in op.operands):
            clone_with(op.operation, known)
    return [count for grid in _grids(kernel) for count in _counts(grid, known)]


def _counts(grid: scf.ForallOp, known: dict[ir.Value, ir.Value]) -> Iterator[Size]:
    """How many workgroups each loop of a grid is; `known` has the values of dynamic bounds."""
    bounds = iter(grid.dynamicUpperBound)
    for bound, step in zip(ir.DenseI64ArrayAttr(grid.staticUpperBound), _steps(grid), strict=True):
        if bound == ir.ShapedType.get_dynamic_size():
            extent = known.get(next(bounds))
            if extent is None:
                fail(grid, "a grid is as wide as extents and index values of the kernel say")
            yield arith.ceildivui(extent, index(step))
        else:
            yield -(-bound // step)


def _steps(grid: scf.ForallOp) -> list[int]:
    return list(ir.DenseI64ArrayAttr(grid.staticStep))
