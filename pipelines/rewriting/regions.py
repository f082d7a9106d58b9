"""What a function computes between its kernels, in regions that can be a kernel each.

A region is of small tensors whose extents are known; or of several rows, as many as sequences, of
which each is small and computed by itself. Weights that it looks something up in may be large.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg, tensor
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import collapse, expand, size
from llmc.pipelines.clones import clone_with
from llmc.pipelines.rewriting.dispatch_chain import is_view
from llmc.pipelines.rewriting.functions import LOAD, loads_constant
from llmc.pipelines.rewriting.kernel_kinds import SUMS_OF_PRODUCTS, kernel_kind
from llmc.pipelines.rewriting.operations import ancestor_in, made_by, read_from_outside
from llmc.pipelines.rewriting.purity import is_pure
from llmc.pipelines.rewriting.row_by_row import is_row_by_row, shows_rows
from llmc.pipelines.several_rows import has_rows
from llmc.pipelines.type_bytes import bytes_of

_LARGEST = 2**15
"""Elements of a tensor in a region, or of one row of it, at most."""

_MOST_BYTES = 2**19
"""What may lie on the stack: all that a region computes, of one row, but its results."""

_COMPUTING = ("tensor.concat", "tensor.extract_slice", "tensor.insert_slice")
_DIM = "tensor.dim"
# Each region has those that it reads to itself.
_REPEATED = ("arith.constant", "tensor.empty", "linalg.fill", _DIM)


@dataclass(frozen=True)
class Region:
    """Operations of a block, in their order, with no kernel between one and another."""

    ops: list[ir.Operation]

    @property
    def is_of_rows(self) -> bool:
        """Whether it computes several rows, each by itself."""
        return has_rows(self.ops[0].results[0].type)

    @property
    def leaves(self) -> list[ir.Value]:
        """The tensors, before they are reshaped, and the numbers that it reads, each once."""
        reads = (_under_views(value) for op in self.ops for value in read_from_outside(op))
        return [value for value in dict.fromkeys(reads) if not self._makes(value)]

    @cached_property
    def results(self) -> list[ir.Value]:
        """What it computes and others read."""
        return [value for op in self.ops for value in op.results if any(self._users(value))]

    @property
    def is_small(self) -> bool:
        """Whether the stack has room for what it computes beside the results."""
        made = (value for op in self.ops for value in op.results if value not in self.results)
        return sum(bytes_of(value.type) for value in made) <= _MOST_BYTES

    @property
    def is_measured(self) -> bool:
        """Whether what it reads says how many rows there are, if it computes any."""
        return not self.is_of_rows or any(has_rows(leaf.type) for leaf in self.leaves)

    @property
    def first_user(self) -> ir.Operation:
        """The first operation of the block that reads a result."""
        users = [user for value in self.results for user in self._users(value)]
        return next(op.operation for op in self.ops[0].block if op.operation in users)

    def build(self, known: dict[ir.Value, ir.Value]) -> list[ir.Value]:
        """The results, computed here; `known` has the leaves."""
        for op in self.ops:
            for value in read_from_outside(op):
                _repeat(value, known)
            clone_with(op, known)
        return [known[value] for value in self.results]

    def erase(self) -> None:
        """Erases its operations, whose results nobody else may read, and what reshapes them."""
        for op in reversed(self.ops):
            for value in op.results:
                _erase_views(value)
            op.erase()

    def _makes(self, value: ir.Value) -> bool:
        return _is_repeated(value) or value.owner in self.ops

    def _users(self, value: ir.Value) -> Iterator[ir.Operation]:
        """The operations outside that read `value`, be it reshaped."""
        block = self.ops[0].block
        for use in value.uses:
            reader = use.owner.operation
            if is_view(reader):
                yield from self._users(reader.results[0])
            elif (user := ancestor_in(block, reader)) and user not in self.ops:
                yield user


def regions(block: ir.Block) -> list[Region]:
    """The regions of `block`, in the order in which they run.

    What kernels wait for is computed as late as they allow: so that the fewest regions do it.
    """
    due = _when_needed(block)
    found = defaultdict(list)
    for op in (op.operation for op in block):
        if _is_computing(op) and (at := _first(op, due)) is not None:
            found[at].append(op)
    made = (Region(ops) for at in sorted(found) for ops in _apart(found[at]))
    return [region for region in made if region.is_small and region.is_measured]


def _apart(ops: list[ir.Operation]) -> Iterator[list[ir.Operation]]:
    """Those whose extents are known, and those of rows that are seen to be as many.

    That is so of what is computed of the same. There are other rows than sequences, of experts.
    """
    if known := [op for op in ops if not has_rows(op.results[0].type)]:
        yield known
    groups: list[tuple[list[ir.Operation], set[ir.Value]]] = []
    for op in ops:
        if op not in known:
            tensors = {_under_views(value) for value in (*read_from_outside(op), *op.results)}
            rows = {value for value in tensors if has_rows(value.type)}
            same = [group for group in groups if not rows.isdisjoint(group[1])]
            groups = [group for group in groups if group not in same]
            joined = [each for members, _ in same for each in members]
            groups.append(([*joined, op], rows.union(*(values for _, values in same))))
    for members, _ in groups:
        yield [op for op in ops if op in members]


def _when_needed(block: ir.Block) -> dict[ir.Value, int]:
    """After how many kernels, that wait for each other, the first that reads a value can run."""
    there = _when_there(block)
    due: dict[ir.Value, int] = {}
    for op in reversed([op.operation for op in block]):
        reads = _waits_for(op)
        at: int | None
        if _runs(op) or not op.results:
            at = max((there[value] for value in reads), default=0)
        else:
            at = _first(op, due)
        if at is not None:
            due.update({value: min(at, due.get(value, at)) for value in reads})
    return due


def _first(op: ir.Operation, due: dict[ir.Value, int]) -> int | None:
    """When the first result of `op` is needed; None where none is."""
    return min((due[value] for value in op.results if value in due), default=None)


def _when_there(block: ir.Block) -> dict[ir.Value, int]:
    """After how many kernels, that wait for each other, a value is there."""
    there = dict.fromkeys(block.arguments, 0)
    for op in (op.operation for op in block):
        begin = max((there[value] for value in _waits_for(op)), default=0)
        there.update(dict.fromkeys(op.results, begin + _runs(op)))
    return there


def _waits_for(op: ir.Operation) -> list[ir.Value]:
    """What must be there before `op` is. An extent is known before the tensor is."""
    return [] if op.name == _DIM else read_from_outside(op)


def _runs(op: ir.Operation) -> bool:
    """Whether `op` is a kernel, or may be one."""
    is_free = is_view(op) or _is_computing(op) or any(map(_is_repeated, op.results))
    return not is_free and op.name != LOAD and not _shows_weight(op)


def _is_repeated(value: ir.Value) -> bool:
    """Whether each region that reads `value` has it to itself: a constant, numbers of elements."""
    if made_by(value, *_REPEATED):
        return True
    loops = made_by(value, "linalg.generic")
    return loops is not None and all(
        made_by(read, "tensor.empty", "arith.constant") for read in read_from_outside(loops)
    )


def _shows_weight(op: ir.Operation | ir.OpView) -> bool:
    """Whether `op` loads a weight, or is the part of one that is a layer's."""
    op = op.operation
    if op.name in ("tensor.extract_slice", "llmc.bitcast"):
        source = op.operands[0].owner
        return not isinstance(source, ir.Block) and _shows_weight(source)
    return loads_constant(op)


def _are_weights(values: list[ir.Value]) -> bool:
    """Whether `values` are weights, but for what is not computed."""
    computed = [each for each in map(_under_views, values) if not _is_repeated(each)]
    are_made = not any(isinstance(each.owner, ir.Block) for each in computed)
    return bool(computed) and are_made and all(_shows_weight(each.owner) for each in computed)


def _is_looked_at(value: ir.Value, op: ir.Operation) -> bool:
    """Whether `op` looks at `value` element by element: a weight, or a number that is no tensor."""
    if op.name != "linalg.generic" or value in list(op.operands):
        return False
    if isinstance(value.type, ir.IndexType) or value.type == T.i64():
        return True
    return not isinstance(value.owner, ir.Block) and _shows_weight(value.owner)


def _is_computing(op: ir.Operation) -> bool:
    """Whether `op` is what regions consist of: it computes one small tensor from others.

    Or several small rows. What is computed of weights alone is left to whoever multiplies by it.
    """
    if is_view(op) or any(map(_is_repeated, op.results)):
        return False
    is_linalg = op.name.startswith("linalg.") and kernel_kind(op) not in SUMS_OF_PRODUCTS
    reads = [value for value in read_from_outside(op) if not _is_looked_at(value, op)]
    values = [*reads, *op.results]
    return (
        (is_linalg or op.name in _COMPUTING)
        and is_pure(op)
        and all(map(_is_small, values))
        and not _are_weights(reads)
        and (not any(has_rows(value.type) for value in values) or _computes_rows(op))
    )


def _computes_rows(op: ir.Operation) -> bool:
    """Whether `op` computes rows of which nobody asks here how many they are."""
    asked = any(use.owner.operation.name == _DIM for value in op.results for use in value.uses)
    return is_row_by_row(op) and not asked


def _is_small(value: ir.Value) -> bool:
    type_, constant = value.type, made_by(value, "arith.constant")
    if not isinstance(type_, ir.RankedTensorType):
        return made_by(value, "arith.constant", _DIM) is not None
    if constant is not None and not constant.attributes["value"].is_splat:
        return False
    of_one = type_.shape[has_rows(type_) :]
    return (type_.has_static_shape or has_rows(type_)) and prod(of_one) <= _LARGEST


def _under_views(value: ir.Value) -> ir.Value:
    while not isinstance(value.owner, ir.Block) and is_view(value.owner):
        source = value.owner.operands[0]
        are_known = value.type.has_static_shape and source.type.has_static_shape
        if not are_known and not shows_rows(value.owner):
            break
        value = source
    return value


def _erase_views(value: ir.Value) -> None:
    for user in [use.owner.operation for use in value.uses]:
        _erase_views(user.results[0])
        user.erase()


def _repeat(value: ir.Value, known: dict[ir.Value, ir.Value]) -> None:
    """Computes here what a region has to itself: a reshape, an empty tensor and so on."""
    if value in known:
        return
    op = value.owner.operation
    if isinstance(value.type, ir.IndexType) and op.name != "arith.constant":
        # However it is computed, an extent that is open is the number of the region's rows.
        rows = next(each for each in known.values() if has_rows(each.type))
        known[value] = size(rows, 0)
        return
    for each in read_from_outside(op):
        _repeat(each, known)
    if op.name == "arith.constant" and isinstance(value.type, ir.RankedTensorType):
        splat = arith.ConstantOp(value.type.element_type, op.attributes["value"].get_splat_value())
        room = tensor.empty(value.type.shape, value.type.element_type)
        known[value] = linalg.fill(splat.result, outs=[room])
    elif op.name == "linalg.transpose":
        known[value] = _as_shaped(known[op.operands[0]], value.type)
    else:
        clone_with(op, known)


def _as_shaped(value: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    """`value` in another shape: of several rows each, else the whole."""
    rows = [size(value, 0)] if has_rows(type_) else []
    extents = list(type_.shape[len(rows) :])
    flat = collapse(value, [*(1 for _ in rows), type_.rank - len(rows)])
    return expand(flat, [*([row] for row in rows), extents])
