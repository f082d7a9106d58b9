"""What a layer computes between its kernels, in regions that can be a kernel each."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg, tensor

from llmc.dialects.index_notation import collapse, expand
from llmc.pipelines.clones import clone_with
from llmc.pipelines.rewriting.dispatch_chain import is_view
from llmc.pipelines.rewriting.kernel_kinds import SUMS_OF_PRODUCTS, kernel_kind
from llmc.pipelines.rewriting.operations import ancestor_in, made_by, read_from_outside
from llmc.pipelines.rewriting.purity import is_pure
from llmc.pipelines.type_bytes import bytes_of

_LARGEST = 2**15
"""Elements of a tensor in a region, at most."""

_MOST_BYTES = 2**19
"""What may lie on the stack: all that a region computes but its results."""

_COMPUTING = ("tensor.concat", "tensor.extract_slice", "tensor.insert_slice")
_LOAD = "ml_program.global_load"
# Each region has those that it reads to itself.
_REPEATED = ("arith.constant", "tensor.empty", "linalg.fill")


@dataclass(frozen=True)
class Region:
    """Operations of a block, in their order, with no kernel between one and another."""

    ops: list[ir.Operation]

    @property
    def leaves(self) -> list[ir.Value]:
        """The tensors that it reads, each once. Those that it reads reshaped are not so."""
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
        return made_by(value, *_REPEATED) is not None or value.owner in self.ops

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
    return [region for at in sorted(found) if (region := Region(found[at])).is_small]


def _when_needed(block: ir.Block) -> dict[ir.Value, int]:
    """After how many kernels, that wait for each other, the first that reads a value can run."""
    there = _when_there(block)
    due: dict[ir.Value, int] = {}
    for op in reversed([op.operation for op in block]):
        reads = read_from_outside(op)
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
        begin = max((there[value] for value in read_from_outside(op)), default=0)
        there.update(dict.fromkeys(op.results, begin + _runs(op)))
    return there


def _runs(op: ir.Operation) -> bool:
    """Whether `op` is a kernel, or may be one."""
    is_free = is_view(op) or _is_computing(op) or op.name in _REPEATED
    return not is_free and not _shows_weight(op)


def _shows_weight(op: ir.Operation) -> bool:
    """Whether `op` loads a weight, or is the part of one that is a layer's."""
    if op.name in ("tensor.extract_slice", "llmc.bitcast"):
        return made_by(op.operands[0], _LOAD) is not None
    return op.name == _LOAD


def _is_of_weight(value: ir.Value) -> bool:
    """Whether `value` is a weight, or neither that nor computed."""
    owner = _under_views(value).owner
    if isinstance(owner, ir.Block):
        return False
    return owner.name in _REPEATED or _shows_weight(owner.operation)


def _is_computing(op: ir.Operation) -> bool:
    """Whether `op` is what regions consist of: it computes one small tensor from others.

    What is computed of weights alone is left to whoever multiplies by it.
    """
    if is_view(op) or op.name in _REPEATED:
        return False
    is_linalg = op.name.startswith("linalg.") and kernel_kind(op) not in SUMS_OF_PRODUCTS
    reads = read_from_outside(op)
    return (
        (is_linalg or op.name in _COMPUTING)
        and is_pure(op)
        and all(map(_is_small, (*reads, *op.results)))
        and not all(map(_is_of_weight, reads))
    )


def _is_small(value: ir.Value) -> bool:
    type_, constant = value.type, made_by(value, "arith.constant")
    if not isinstance(type_, ir.RankedTensorType):
        return constant is not None
    if constant is not None and not constant.attributes["value"].is_splat:
        return False
    return type_.has_static_shape and prod(type_.shape) <= _LARGEST


def _under_views(value: ir.Value) -> ir.Value:
    while not isinstance(value.owner, ir.Block) and is_view(value.owner):
        if not value.owner.operands[0].type.has_static_shape:
            break
        value = value.owner.operands[0]
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
    for operand in op.operands:
        _repeat(operand, known)
    if op.name == "arith.constant" and isinstance(value.type, ir.RankedTensorType):
        splat = arith.ConstantOp(value.type.element_type, op.attributes["value"].get_splat_value())
        room = tensor.empty(value.type.shape, value.type.element_type)
        known[value] = linalg.fill(splat.result, outs=[room])
    elif op.name == "linalg.transpose":
        row = collapse(known[op.operands[0]], [len(value.type.shape)])
        known[value] = expand(row, [list(value.type.shape)])
    else:
        clone_with(op, known)
