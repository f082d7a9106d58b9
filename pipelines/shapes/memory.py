"""The bytes of tensors that are alive at once, from the shapes in a function.

Memory is as a compiler that never copies without need would use it, in the order of the program: a
view shares its source's memory; an operation writes over its destination if nothing reads that
afterwards, and else takes new memory; memory is given back after its last use. Not counted are
constants, weights, the KV cache, and a function's arguments, which its caller holds.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import sympy
from sympy import Expr
from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.dialects.block_types import cell_format, storage_format
from llmc.pipelines.shapes.expressions import largest, unknown
from llmc.pipelines.shapes.facts import Facts, is_tensor
from llmc.pipelines.type_bytes import bytes_of_element
from llmc.pipelines.walks import walk

_VIEWS = {
    "llmc.bitcast",
    "llmc.blocks_to_bytes",
    "llmc.bytes_to_blocks",
    "llmc.cache_read",
    "tensor.cast",
    "tensor.collapse_shape",
    "tensor.expand_shape",
    "tensor.extract_slice",
    "tensor.reshape",
}
"""Operations that show their first operand's memory in another way."""

_STATE = {
    "bufferization.alloc_tensor",
    "flow.tensor.alloca",
    "llmc.cache_allocate",
    "ml_program.global_load",
    "util.global.load",
}
"""Operations that yield the module's own memory, which may be written over."""

_READ_ONLY = {"arith.constant", "llmc.parameter"}

_DESTINATIONS = {
    "linalg.pack": 1,
    "linalg.unpack": 1,
    "llmc.cache_append": 0,
    "tensor.insert": 1,
    "tensor.insert_slice": 1,
}
"""Which operand an operation writes over; those of linalg do over their last ones."""


@dataclass(eq=False)
class _Memory:
    """A piece of memory, alive from the operation numbered `first` to the one numbered `last`.

    What a block does not own is not counted in it.
    """

    bytes: Expr = sympy.S.Zero
    first: int = 0
    last: int = 0
    owned: bool = False
    is_writable: bool = False


def peak_bytes(
    function: func.FuncOp, facts: Facts, of_call: Callable[[ir.Operation], list[Expr]]
) -> list[Expr]:
    """Polynomials, the largest of which is the number of bytes at the fullest moment.

    `of_call` gives those of what a `func.call` calls.
    """
    blocks = function.regions[0].blocks
    return _Block([op.operation for block in blocks for op in block], facts, of_call).peak()


class _Block:
    """Operations that run one after the other, by number, and in which memory values are."""

    def __init__(
        self,
        operations: Sequence[ir.Operation],
        facts: Facts,
        of_call: Callable[[ir.Operation], list[Expr]],
    ) -> None:
        self.operations = operations
        self.facts = facts
        self.of_call = of_call
        # Of values from without it is not known who else reads them.
        self.memory: dict[ir.Value, _Memory] = defaultdict(_Memory)
        self.last_use: dict[ir.Value, int] = {}
        for number, op in enumerate(self.operations):
            for value in _used(op):
                self.last_use[value] = number

    def peak(self) -> list[Expr]:
        """The sums of what is alive at one time, without those that are never the largest."""
        inner = [self._place(number, op) for number, op in enumerate(self.operations)]
        for value, memory in self.memory.items():
            memory.last = max(memory.last, self.last_use.get(value, 0))
        owned = {memory for memory in self.memory.values() if memory.owned}
        sums = {sympy.S.Zero}
        for number, peaks in enumerate(inner):
            alive = [each for each in owned if each.first <= number <= each.last]
            sums.add(sympy.Add(*(each.bytes for each in alive)))
            # A loop's results are what it carries; a call makes its results itself.
            carries = self.operations[number].name == "scf.for"
            around = [each for each in alive if each.first < number or carries]
            sums |= {sympy.Add(peak, *(each.bytes for each in around)) for peak in peaks}
        return largest(sums)

    def _place(self, number: int, op: ir.Operation) -> list[Expr]:
        """Finds memory for the results; the peak within the operation, as of a call or a loop."""
        tensors = [result for result in op.results if is_tensor(result)]
        if _is_view(op):
            self.memory[op.results[0]] = self.memory[op.operands[0]]
        elif op.name == "tensor.empty":
            self.memory[op.results[0]] = _Memory()  # takes none before something is written to it
        elif op.name in _STATE or op.name in _READ_ONLY:
            for result in tensors:
                self.memory[result] = _Memory(is_writable=op.name in _STATE)
        else:
            for result, destination in zip(tensors, self._destinations(op), strict=True):
                self.memory[result] = self._over(destination, number) or _Memory(
                    self._bytes(result), number, number, owned=True, is_writable=True
                )
        if op.name == "func.call":
            return self.of_call(op)
        return [] if op.name.startswith("linalg.") else self._within(op)

    def _within(self, op: ir.Operation) -> list[Expr]:
        peaks = []
        for region in op.regions:
            for block in region:
                inner = _Block([op.operation for op in block], self.facts, self.of_call)
                if op.name == "scf.for":
                    for carried in list(block.arguments)[1:]:
                        inner.memory[carried] = _Memory(is_writable=True)
                peaks += inner.peak()
        return peaks

    def _destinations(self, op: ir.Operation) -> list[ir.Value | None]:
        """The operand that each tensor among the results may be written over."""
        tensors = [result for result in op.results if is_tensor(result)]
        if op.name in _DESTINATIONS:
            return [op.operands[_DESTINATIONS[op.name]]]
        if op.name in ("llmc.decode_attention", "llmc.decode_attention_part"):
            return [None, op.opview.keys, op.opview.values]
        if op.name == "scf.for":
            initial = list(op.operands)[-len(op.results) :] if op.results else []
            return [value for value in initial if is_tensor(value)]
        if op.name.startswith("linalg.") and len(op.operands) >= len(tensors):
            return list(op.operands)[len(op.operands) - len(tensors) :]
        return [None] * len(tensors)

    def _over(self, destination: ir.Value | None, number: int) -> _Memory | None:
        """The memory of `destination`, if the operation may write over it."""
        if destination is None or not self.memory[destination].is_writable:
            return None
        memory = self.memory[destination]
        sharing = [value for value, each in self.memory.items() if each is memory]
        is_read_later = any(self.last_use.get(value, 0) > number for value in sharing)
        return None if is_read_later else memory

    def _bytes(self, tensor: ir.Value) -> Expr:
        type_ = tensor.type
        return sympy.Mul(*self.facts.shape(tensor), _element_bytes(type_))


def _is_view(op: ir.Operation) -> bool:
    """Whether it shows its first operand's memory; a cache of cells is read into floats."""
    if op.name not in _VIEWS or not is_tensor(op.operands[0]):
        return False
    return op.name != "llmc.cache_read" or cell_format(op.operands[0].type) is None


def _used(op: ir.Operation) -> Iterator[ir.Value]:
    """The operands of an operation and of those within it."""
    yield from op.operands
    for inner in walk(op):
        yield from inner.operands


def _element_bytes(type_: ir.RankedTensorType) -> Expr:
    format_, element = storage_format(type_), type_.element_type
    if format_ is not None:
        return sympy.Integer(format_.bytes)
    is_number = isinstance(element, ir.IndexType | ir.IntegerType | ir.FloatType | ir.ComplexType)
    return sympy.Integer(bytes_of_element(element)) if is_number else unknown()
