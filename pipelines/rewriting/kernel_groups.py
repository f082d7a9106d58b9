"""Finds the operations of a block that make one kernel together."""

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.extras import types as T

from llmc.pipelines.rewriting.kernel_kinds import (
    ELEMENTWISE,
    SUMS_OF_PRODUCTS,
    kernel_kind,
    reads_in_place,
)
from llmc.pipelines.rewriting.operations import read_from_outside
from llmc.pipelines.rewriting.purity import is_pure
from llmc.pipelines.walks import walk

_VIEWS = ("tensor.collapse_shape", "tensor.expand_shape", "tensor.extract_slice")
_REPEATABLE = ("arith.constant", "linalg.fill", "tensor.empty")
_FARTHEST = 4
"""How many steps may lie between a computation and where the strands of its epilogue meet."""


@dataclass(frozen=True)
class Group:
    """Operations of one block, in its order, the last of which yields what others read."""

    kind: str
    members: tuple[ir.Operation, ...]

    def results(self) -> list[ir.Value]:
        """What others read of it."""
        return _read_outside(set(self.members))

    def with_repeated(self) -> list[ir.Operation]:
        """The members, and before them what each kernel has of its own: constants and the like."""
        ordered: list[ir.Operation] = []

        def visit(op: ir.Operation) -> None:
            for value in read_from_outside(op):
                maker = _maker(value)
                if maker is not None and is_repeatable(maker) and maker not in ordered:
                    visit(maker)
            ordered.append(op)

        for member in self.members:
            visit(member)
        return ordered

    def operands(self) -> list[ir.Value]:
        """What it reads from without, each once, in the order of reading."""
        inside = self.with_repeated()
        made = {result for op in inside for result in op.results}
        reads = (value for op in inside for value in read_from_outside(op) if value not in made)
        return list(dict.fromkeys(reads))


def find_groups(block: ir.Block) -> list[Group]:
    """The kernels of a block, in its order. No operation is in two of them."""
    operations = [op.operation for op in block]
    search = _Search({op: kernel_kind(op) for op in operations if is_pure(op)})
    # What lies between two sums or reductions belongs to the first: it is computed once there.
    for op in operations:
        if search.kinds.get(op) not in (None, ELEMENTWISE):
            search.grow(search.with_epilogue(op), op)
    # What is left is elementwise; the last come first, to take what they read.
    for op in reversed(operations):
        if search.is_free(op) and not is_repeatable(op):
            search.grow({op}, op)
    number = {op: position for position, op in enumerate(operations)}
    groups = [
        Group(kind, tuple(sorted(members, key=number.__getitem__)))
        for kind, members in search.found
    ]
    return sorted(groups, key=lambda group: number[group.members[-1]])


def is_repeatable(op: ir.Operation) -> bool:
    """Whether every kernel may have its own `op`: it costs no memory, or next to no time."""
    if op.name == "arith.constant" and not isinstance(
        op.attributes["value"], ir.FloatAttr | ir.IntegerAttr | ir.BoolAttr
    ):
        return _is_splat(op.attributes["value"])
    return op.name in _REPEATABLE


class _Search:
    """The kinds of operations, and the kernels found so far."""

    def __init__(self, kinds: dict[ir.Operation, str | None]) -> None:
        self.kinds = kinds
        self.found: list[tuple[str, set[ir.Operation]]] = []
        self.taken: set[ir.Operation] = set()

    def is_free(self, op: ir.Operation) -> bool:
        """Whether `op` is elementwise and in no kernel yet."""
        return self.kinds.get(op) == ELEMENTWISE and op not in self.taken

    def grow(self, members: set[ir.Operation], root: ir.Operation) -> None:
        """Makes a kernel of `members` and of what they alone read."""
        pending = list(members)
        while pending:
            for value in read_from_outside(pending.pop()):
                maker = _maker(value)
                if maker is not None and maker not in members and self._feeds(maker, members):
                    members.add(maker)
                    pending.append(maker)
        self.taken |= members
        kind = self.kinds[root] or ELEMENTWISE
        self.found.append((f"{kind}_q4" if any(map(_unpacks, members)) else kind, members))

    def with_epilogue(self, root: ir.Operation) -> set[ir.Operation]:
        """`root` and what follows it, as long as one operation alone is read by others."""
        kept, tried = {root}, {root}
        for _ in range(_FARTHEST):
            following = {user for value in _read_outside(tried) for user in _users(value)}
            if not following or not all(self._follows(op, tried, root) for op in following):
                break
            tried = tried | following
            if len(_read_outside(tried)) == 1:
                kept = tried
        return kept

    def _follows(self, op: ir.Operation, members: set[ir.Operation], root: ir.Operation) -> bool:
        """Whether `op` may be computed in a tile of `root`."""
        if not self.is_free(op) or op.block != root.block:
            return False
        made = {result for member in members for result in member.results}
        if any(value in made for inner in walk(op) for value in inner.operands):
            return False  # which wants to see more of it than a tile
        if self.kinds[root] not in SUMS_OF_PRODUCTS:
            return True
        return all(reads_in_place(op, value) for value in op.operands if value in made)

    def _feeds(self, op: ir.Operation, members: set[ir.Operation]) -> bool:
        """Whether `op` is elementwise, or shows something elementwise, for `members` alone."""
        if op.block != next(iter(members)).block or op in self.taken or is_repeatable(op):
            return False
        if not all(user in members for result in op.results for user in _users(result)):
            return False
        if op.name in _VIEWS:
            source = _maker(op.operands[0])
            is_fixed = op.name == "tensor.extract_slice" and len(op.operands) == 1
            return is_fixed or (source is not None and self._feeds(source, {*members, op}))
        return self.is_free(op)


def _users(value: ir.Value) -> list[ir.Operation]:
    """The operations that read `value`, be they within others."""
    return [use.owner.operation for use in value.uses]


def _maker(value: ir.Value) -> ir.Operation | None:
    """The operation that `value` is a result of."""
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def _read_outside(members: set[ir.Operation]) -> list[ir.Value]:
    """The results that operations other than `members` read, or parts of other operations."""
    return [
        result
        for member in members
        for result in member.results
        if any(user not in members for user in _users(result))
    ]


def _unpacks(op: ir.Operation) -> bool:
    """Whether `op` takes bytes apart."""
    shifts = (inner for inner in walk(op) if inner.name == "arith.shrui")
    return any(inner.results[0].type == T.i8() for inner in shifts)


def _is_splat(attribute: ir.Attribute) -> bool:
    return isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat
