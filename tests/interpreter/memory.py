"""Runs a module and counts the bytes of tensors that are alive, as `shapes.memory` says they do.

It knows the sizes of arrays, and frees a tensor when it has counted down its uses.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from torch_mlir import ir

from llmc.dialects.block_types import cell_format, storage_format
from llmc.pipelines.walks import walk
from tests.interpreter.machine import Frame, Machine, Values

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
_ALLOCATED_BY_THE_MODULE = {
    "bufferization.alloc_tensor",
    "llmc.cache_allocate",
    "ml_program.global_load",
}
_TAKES_NONE = {"arith.constant", "llmc.parameter", "tensor.empty"}
_WRITES_OVER = {"llmc.cache_append": 0, "tensor.insert": 1, "tensor.insert_slice": 1}


class MeteredMachine(Machine):
    """A machine that knows how many bytes are alive, and how many were at most."""

    def __init__(self, module: ir.Module, weights: Mapping[str, np.ndarray]) -> None:
        super().__init__(module, weights)
        self.alive = self.peak = 0

    def new_frame(self, layer: int) -> Frame:
        return MeteredFrame(self, layer)

    def take(self, bytes_: int) -> None:
        """Takes memory, or gives it back where `bytes_` is negative."""
        self.alive += bytes_
        self.peak = max(self.peak, self.alive)


@dataclass(eq=False)
class _Memory:
    """What values share that are views of each other, or written over each other.

    `bytes` is 0 for what somebody else holds. `uses` are those to come in the block.
    """

    bytes: int = 0
    is_writable: bool = False
    uses: int = 0


@dataclass
class MeteredFrame(Frame):
    """A run of a function; `memory` is that of the block it is in, others' are not written over."""

    memory: dict[ir.Value, _Memory] = field(default_factory=dict)
    is_in_element: bool = False

    def run(self, block: ir.Block, arguments: Values) -> Values:
        if self.is_in_element:
            return super().run(block, arguments)
        outer, self.memory = self.memory, defaultdict(_Memory)
        self.values |= zip(block.arguments, arguments, strict=True)
        *body, terminator = (op.operation for op in block)
        uses = Counter(value for op in (*body, terminator) for value in _read(op))
        for argument in block.arguments:
            is_carried = terminator.name == "scf.yield"
            self.memory[argument] = _Memory(is_writable=is_carried, uses=uses[argument])
        for op in body:
            self._step(op, uses)
        for memory in set(self.memory.values()):
            self.machine.take(-memory.bytes)
        self.memory = outer
        return self.operands(terminator)

    def _step(self, op: ir.Operation, uses: Counter[ir.Value]) -> None:
        """Runs one operation. What it reads is given back after what it makes is there."""
        read = [self.memory[value] for value in _read(op)]
        if op.name == "scf.for":  # which makes its results before it begins
            self.values |= zip(op.results, _initial(self, op), strict=True)
            made = self._place(op, read)
        self.is_in_element = op.name.startswith("linalg.")
        self.values |= zip(op.results, self._evaluate(op), strict=True)
        self.is_in_element = False
        if op.name != "scf.for":
            made = self._place(op, read)
        for result, memory in zip(op.results, made, strict=True):
            self.memory[result] = memory
            memory.uses += uses[result]
        for memory in read:
            memory.uses -= 1
        for memory in {*read, *made}:
            if memory.uses == 0:
                self.machine.take(-memory.bytes)
                memory.bytes = 0

    def _place(self, op: ir.Operation, read: Sequence[_Memory]) -> list[_Memory]:
        """The memory of each result, taken where it is new."""
        widens = op.name == "llmc.cache_read" and cell_format(op.operands[0].type)
        if op.name in _VIEWS and not widens:
            return [self.memory[op.operands[0]]]
        if op.name in _TAKES_NONE or op.name in _ALLOCATED_BY_THE_MODULE:
            return [_Memory(is_writable=op.name in _ALLOCATED_BY_THE_MODULE) for _ in op.results]
        places = []
        for result, destination in zip(op.results, _destinations(op), strict=True):
            over = None if destination is None else self.memory[destination]
            if over is None or not over.is_writable or over.uses > read.count(over):
                over = _Memory(_bytes(result, self.values[result]), is_writable=True)
                self.machine.take(over.bytes)
            places.append(over)
        return places


def _read(op: ir.Operation) -> set[ir.Value]:
    """What an operation, and those within it, read."""
    return {value for each in (op, *walk(op)) for value in each.operands}


def _initial(frame: Frame, loop: ir.Operation) -> Values:
    return frame.operands(loop)[3:]


def _destinations(op: ir.Operation) -> list[ir.Value | None]:
    """The operand that each result may be written over."""
    operands, count = list(op.operands), len(op.results)
    if op.name in _WRITES_OVER:
        return [operands[_WRITES_OVER[op.name]]]
    if op.name in ("llmc.decode_attention", "llmc.decode_attention_part"):
        return [None, op.opview.keys, op.opview.values]
    if op.name in ("linalg.pack", "linalg.unpack"):
        return [op.opview.dest]
    if op.name.startswith("linalg.") or op.name == "scf.for":
        return operands[len(operands) - count :]
    return [None] * count


def _bytes(value: ir.Value, array: np.ndarray) -> int:
    """The bytes of a tensor; 0 of a number."""
    if not isinstance(value.type, ir.RankedTensorType):
        return 0
    format_, element = storage_format(value.type), value.type.element_type
    if format_ is not None:
        return array.size * format_.bytes
    width = 64 if isinstance(element, ir.IndexType) else element.width
    return array.size * -(-width // 8)
