"""What schedules have hold of: operations of the payload, and the verbs that find them.

with each(kernels(payload, "matmul")) as kernel:
    product = match(kernel, "mnk", reduced="k")
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

from torch_mlir import ir
from torch_mlir.dialects import linalg, transform  # noqa: F401 (builds iterator types)
from torch_mlir.dialects.transform import structured

from llmc.pipelines.kernels.marks import KIND, RESULT, STAGE

P = ParamSpec("P")
R = TypeVar("R")

# Where verbs are, which call each other: their lines are not those of a schedule.
_FILES = set[str]()


@dataclass(frozen=True)
class Handle:
    """Operations of the payload that a script has hold of, and a letter for each of their loops."""

    value: ir.Value
    loops: str = ""


def verb(function: Callable[P, R]) -> Callable[P, R]:
    """Gives the operations that `function` emits the place from which a schedule calls it."""
    _FILES.add(function.__code__.co_filename)

    @wraps(function)
    def located(*args: P.args, **kwargs: P.kwargs) -> R:
        caller = sys._getframe(1)
        if caller.f_code.co_filename in _FILES:
            return function(*args, **kwargs)
        with ir.Location.file(caller.f_code.co_filename, caller.f_lineno, 0):
            return function(*args, **kwargs)

    return located


@contextmanager
def each(ops: Handle) -> Iterator[Handle]:
    """What stands below `with` is done to each operation of a handle, one by one."""
    loop_ = transform.ForeachOp([], [ops.value])
    with ir.InsertionPoint(loop_.body):
        yield Handle(loop_.bodyTargets[0], ops.loops)
        transform.YieldOp()


@verb
def kernels(payload: Handle, kind: str) -> Handle:
    """The functions marked `llmc.kernel = kind`."""
    marked = structured.MatchOp(
        any_op(),
        payload.value,
        ops=["func.func"],
        op_attrs=ir.DictAttr.get({KIND: ir.StringAttr.get(kind)}),
    )
    return Handle(marked.results_)


@verb
def match(scope: Handle, loops: str, reduced: str = "") -> Handle:
    """The linalg.generic operations in `scope` with these loops, those `reduced` being reductions.

    Each loop has a letter, from the outermost in. `generalize` makes generic operations of others.
    """
    if repeated := [letter for letter in loops if loops.count(letter) > 1]:
        raise ValueError(f"the loops '{loops}' have '{repeated[0]}' twice")
    if unknown := set(reduced) - set(loops):
        raise ValueError(f"'{min(unknown)}' is reduced, but is none of the loops '{loops}'")
    kinds = ["reduction" if letter in reduced else "parallel" for letter in loops]
    iterators = ir.AttrBuilder.get("IteratorTypeArrayAttr")(kinds, context=ir.Context.current)
    matched = structured.MatchOp(
        any_op(),
        scope.value,
        ops=["linalg.generic"],
        op_attrs=ir.DictAttr.get({"iterator_types": iterators}),
    )
    return Handle(matched.results_, loops)


@verb
def stage(scope: Handle, name: str, loops: str) -> Handle:
    """The operations in `scope` that the kernel names so, and a letter for each of their loops."""
    named = structured.MatchOp(
        any_op(),
        scope.value,
        op_attrs=ir.DictAttr.get({STAGE: ir.StringAttr.get(name)}),
    )
    return Handle(named.results_, loops)


@verb
def result(scope: Handle, loops: str) -> Handle:
    """What computes the kernel's result in `scope`, and a letter for each of its loops."""
    marked = structured.MatchOp(
        any_op(),
        scope.value,
        op_attrs=ir.DictAttr.get({RESULT: ir.UnitAttr.get()}),
    )
    return Handle(marked.results_, loops)


@verb
def around(op: Handle) -> Handle:
    """The operation that holds another, such as the loop around it."""
    return Handle(transform.GetParentOp(any_op(), op.value).parent)


@verb
def operations(scope: Handle, name: str, loops: str = "") -> Handle:
    """The operations in `scope` that bear `name`, and a letter for each of their loops."""
    type_ = transform.OperationType.get(name)
    return Handle(structured.MatchOp.match_op_names(type_, scope.value, name).results_, loops)


@verb
def returned(kernel: Handle, loops: str = "") -> Handle:
    """What computes the first result of a function, and a letter for each of its loops."""
    end = operations(kernel, "func.return")
    return Handle(transform.GetProducerOfOperand(any_op(), end.value, 0).producer, loops)


@verb
def either(*handles: Handle) -> Handle:
    """What any of several handles holds, with the loops of the one that has the fewest."""
    merged = transform.MergeHandlesOp([handle.value for handle in handles])
    return Handle(merged.result, min((handle.loops for handle in handles), key=len))


def any_op() -> ir.Type:
    """The type of a handle that may hold any operation."""
    return transform.AnyOpType.get()
