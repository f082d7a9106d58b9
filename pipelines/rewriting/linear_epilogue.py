"""Finds what is done, element by element, to what a linear layer computes."""

from dataclasses import dataclass

from torch_mlir import ir

from llmc.dialects.index_notation import letters, pointwise
from llmc.pipelines.rewriting.generics import (
    apply_body,
    captures_constants,
    inputs,
    is_elementwise,
    reads_room,
)
from llmc.pipelines.rewriting.reshapes import RESHAPES
from llmc.pipelines.rewriting.row_halves import halves_of

_MOST = 12
"""How many operations may follow a layer in its kernel; a gated GELU by tanh is ten."""


_LAYERS = ("llmc.packed_linear", "llmc.packed_quantized_linear")


@dataclass(frozen=True)
class Epilogue:
    """Elementwise linalg operations that follow a linear layer, the last yielding what others read.

    `strands` are what they read of the layer: its result, or the two halves of it.
    """

    layer: ir.Value
    strands: tuple[ir.Value, ...]
    members: tuple[ir.Operation, ...]

    @property
    def result(self) -> ir.Value:
        """What others read."""
        return (self.members[-1].results if self.members else self.strands)[0]

    @property
    def end(self) -> ir.Operation:
        """The last operation of layer and epilogue."""
        return self.result.owner.operation

    def erase(self) -> None:
        """Erases layer and epilogue, of which nothing is read any more."""
        for op in reversed(self.members):
            op.erase()
        for strand in self.strands:
            if strand != self.layer:
                strand.owner.erase()
        self.layer.owner.erase()

    def others(self) -> list[ir.Value]:
        """What the operations read beside the layer and each other, each once, in order."""
        made = {*self.strands, *(member.results[0] for member in self.members)}
        reads = (value for member in self.members for value in inputs(member))
        return list(dict.fromkeys(value for value in reads if value not in made))


def is_screened(row: ir.Value) -> bool:
    """Whether only `llmc.screened_argmax` reads `row`, perhaps reshaped, as its exact numbers."""
    readers = [(use.owner, use.operand_number) for use in row.uses]
    if len(readers) != 1:
        return False
    ((reader, operand),) = readers
    if reader.name in RESHAPES:
        return is_screened(reader.results[0])
    return reader.name == "llmc.screened_argmax" and operand == 0


def find_epilogue(layer: ir.Value) -> Epilogue:
    """The longest epilogue of `layer`, which is empty where nothing can follow it in one kernel.

    The operations stand in the layer's block, and read nothing but values of one type. What another
    layer computes later is not waited for: that layer can have the operation follow it.
    """
    halves = halves_of(layer)
    best = no_epilogue(layer)
    strands, members = halves or (layer,), list[ir.Operation]()
    while len(members) < _MOST:
        following = _next(strands, members)
        if following is None:
            break
        members.append(following)
        grown = Epilogue(layer, strands, tuple(members))
        if _read_outside(grown) == [grown.result]:
            best = grown
    return best


def no_epilogue(layer: ir.Value) -> Epilogue:
    """The epilogue of a layer that nothing follows in its kernel."""
    return Epilogue(layer, (layer,), ())


def find_epilogue_of_panels(
    layer: ir.Value, panels: int, columns: int, fewest: int = 2
) -> Epilogue:
    """The epilogue of a layer with so many panels of so many columns.

    It is empty where these have more than the layer gives, or are not for each strand as many, and
    the `fewest` at least: a strand of a single panel would make no grid of workgroups.
    """
    found = find_epilogue(layer)
    strand, left = divmod(panels, len(found.strands))
    is_whole = panels * columns == layer.type.shape[-1]
    return found if is_whole and not left and strand >= fewest else no_epilogue(layer)


def follow(epilogue: Epilogue, strands: list[ir.Value], others: list[ir.Value]) -> ir.Value:
    """What the epilogue makes of tensors in the place of its strands and of what else it reads.

    All have one shape, be it another than the epilogue's own.
    """
    known = dict(zip(epilogue.strands, strands, strict=True))
    known.update(zip(epilogue.others(), others, strict=True))
    for member in epilogue.members:
        known[member.results[0]] = _same_of(member, [known[value] for value in inputs(member)])
    return known[epilogue.result]


def _same_of(member: ir.Operation, operands: list[ir.Value]) -> ir.Value:
    def body(*elements: ir.Value) -> ir.Value:
        return apply_body(member, elements)

    loops = letters(operands[0].type.rank)
    element = member.results[0].type.element_type
    notation = f"{','.join([loops] * len(operands))}->{loops}"
    return pointwise(notation, body, *operands, element=element)


def _next(strands: tuple[ir.Value, ...], members: list[ir.Operation]) -> ir.Operation | None:
    """The first operation that reads what is computed so far, if it can follow that."""
    made = [*strands, *(member.results[0] for member in members)]
    users = {use.owner.operation for value in made for use in value.uses}
    block = made[0].owner.operation.block
    for op in block:
        if op.operation in users and op.operation not in members:
            others = [value for value in inputs(op.operation) if value not in made]
            waits = any(_is_of_later_layer(value, made[0].owner.operation) for value in others)
            return op.operation if _can_follow(op.operation, made[0].type) and not waits else None
    return None


def _is_of_later_layer(value: ir.Value, op: ir.Operation) -> bool:
    """Whether a linear layer behind `op` computes `value`, perhaps with what follows it."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.block != op.block:
        return False
    if not op.is_before_in_block(owner.operation):
        return False
    is_layer = owner.name in _LAYERS
    return is_layer or any(_is_of_later_layer(operand, op) for operand in owner.operands)


def _can_follow(op: ir.Operation, type_: ir.Type) -> bool:
    return (
        op.name == "linalg.generic"
        and len(op.results) == 1
        and op.results[0].type.shape == type_.shape
        and is_elementwise(op)
        and all(value.type == type_ for value in inputs(op))
        and not reads_room(op)
        and captures_constants(op)
    )


def _read_outside(epilogue: Epilogue) -> list[ir.Value]:
    made = [*epilogue.strands, *(member.results[0] for member in epilogue.members)]
    return [
        value
        for value in made
        if any(use.owner.operation not in epilogue.members for use in value.uses)
    ]
