"""What kernels of ours compute, set aside while IREE works on the functions that dispatch them.

Many of IREE's passes go through all of a module, and some do so until nothing changes. Kernels are
most of it, and what these passes need to see there is what a kernel is given: extents and bindings.
"""

from typing import TypeAlias

from iree.compiler import ir
from iree.compiler.dialects import arith

from llmc.pipelines.walks import find

Bodies: TypeAlias = dict[str, ir.Operation]
"""Functions by the names of the kernels that they are."""

_VIEW = "stream.binding.subspan"
_BARRIER = "util.optimization_barrier"
# On a barrier before what a kernel is given: the kernel's name.
_BODY = "llmc.body"


def set_aside(module: ir.Module) -> Bodies:
    """Leaves to each kernel, a `stream.executable`, a barrier before what its body is given.

    Of a binding that is a view of its first byte.
    """
    bodies = {}
    with module.context:
        executables = [op for op in module.body if op.operation.name == "stream.executable"]
        for executable in executables:
            for function in find(executable.operation, "func.func"):
                name = ir.StringAttr(function.attributes["sym_name"]).value
                with function.location:
                    _leave_barrier(function, name)
                bodies[name] = function.detach_from_parent()
    return bodies


def put_back(module: ir.Module, bodies: Bodies) -> None:
    """Undoes `set_aside`, which `bodies` came of, with what the kernels are given now.

    IREE may have made one binding of several, of which each is a part, and one integer of two.
    """
    for barrier in find(module.operation, _BARRIER):
        if _BODY in barrier.attributes:
            body = bodies.pop(ir.StringAttr(barrier.attributes[_BODY]).value)
            with module.context:
                _move(body.regions[0].blocks[0], barrier)


def _leave_barrier(function: ir.Operation, name: str) -> None:
    """Puts a function that gives what `function` is given to a barrier, and no more, before it."""
    types = [argument.type for argument in function.regions[0].blocks[0].arguments]
    attributes = {each: function.attributes[each] for each in function.attributes}
    with ir.InsertionPoint(function):
        left = ir.Operation.create("func.func", attributes=attributes, regions=1)
    block = left.regions[0].blocks.append(*types, arg_locs=[function.location] * len(types))
    with ir.InsertionPoint(block):
        given = [each if _is_extent(each) else _first_byte(each) for each in block.arguments]
        named = {_BODY: ir.StringAttr.get(name)}
        ir.Operation.create(_BARRIER, [each.type for each in given], given, named)
        ir.Operation.create("func.return")


def _is_extent(argument: ir.Value) -> bool:
    return isinstance(argument.type, ir.IndexType)


def _first_byte(binding: ir.Value) -> ir.Value:
    byte = ir.MemRefType.get([1], ir.IntegerType.get_signless(8))
    start = arith.constant(ir.IndexType.get(), 0)
    return ir.Operation.create(_VIEW, [byte], [binding, start]).result


def _move(body: ir.Block, barrier: ir.Operation) -> None:
    """Moves what `body` does to before `barrier`, which goes, and so do the first bytes."""
    first_bytes = [op for op in barrier.block if op.operation.name == _VIEW]
    for argument, given in zip(body.arguments, barrier.operands, strict=True):
        if _is_extent(argument):
            argument.replace_all_uses_with(given)
        else:
            binding, start = given.owner.operands
            for view in [use.owner for use in argument.uses]:
                view.operands[0] = binding
                with ir.InsertionPoint(view), view.location:
                    view.operands[1] = arith.addi(start, view.operands[1])
    *ops, _ = list(body)
    for op in ops:
        op.operation.move_before(barrier)
    barrier.erase()
    for view in first_bytes:
        view.operation.erase()
