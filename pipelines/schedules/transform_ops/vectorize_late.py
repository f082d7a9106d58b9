"""`llmc_transform.vectorize_late`: makes vectors of an operation, and broadcasts late."""

from dataclasses import dataclass
from itertools import product
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext, tensor, transform, vector

from llmc.dialects.index_notation import constant, index
from llmc.pipelines.errors import fail
from llmc.pipelines.schedules.transform_ops.dialect import ConsumesPayload, Operation, Rewriting
from llmc.pipelines.walks import find


class Interpretation(Rewriting):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def rewrite(_op: Any, target: ir.Operation, rewriter: transform.TransformRewriter) -> None:
        """Replaces the operation."""
        rewriter.replace_op(target, [_Tile(target).vectorized()])


class VectorizeLateOp(Operation, name="vectorize_late", traits=[Interpretation, ConsumesPayload]):
    """Makes vectors of a static linalg.generic whose reductions run once.

    Loops that run once are left out. Each operation of the body is computed on the loops that its
    operands have, as f16 become f32 once for all rows; MLIR's vectoriser broadcasts operands first,
    and takes no reduction of two terms.

        "llmc_transform.vectorize_late"(%sums) : (!transform.any_op) -> ()
    """

    target: ext.Operand[Any]


@dataclass(frozen=True)
class _Value:
    """A vector, or a scalar, and the loops that its dimensions are, in order."""

    value: ir.Value
    loops: tuple[int, ...]


class _Tile:
    """The operation, and how often its loops run. PassError where vectors cannot be made of it."""

    def __init__(self, op: ir.Operation) -> None:
        if not _reads_by_loops(op):
            fail(op, "only a linalg.generic that reads tensors by its loops becomes vectors late")
        self.op, self.body = op, op.regions[0].blocks[0]
        maps = [ir.AffineMapAttr(map_).value for map_ in op.attributes["indexing_maps"]]
        self.places = [[ir.AffineDimExpr(each).position for each in map_.results] for map_ in maps]
        self.extents = {
            loop: extent
            for operand, loops in zip(op.operands, self.places, strict=True)
            for loop, extent in zip(loops, operand.type.shape, strict=True)
        }
        if not all(operand.type.has_static_shape for operand in op.operands):
            fail(op, "an operation whose size varies cannot become vectors: tile it evenly")
        if any(extent > 1 for loop, extent in self.extents.items() if loop not in self.places[-1]):
            fail(op, "sums of several terms cannot become vectors late: tile them by 1")

    def vectorized(self) -> ir.Value:
        """The tensor that the operation computes."""
        known = {
            argument: self._read(operand, loops)
            for argument, operand, loops in zip(
                self.body.arguments, self.op.operands, self.places, strict=True
            )
        }
        *inner, end = [op.operation for op in self.body]
        for op in inner:
            known[op.results[0]] = self._compute(op, known)
        loops = self._kept(self.places[-1])
        value = self._spread(known[end.operands[0]], loops)
        into = self.op.operands[len(self.op.operands) - 1]
        where, map_ = self._where(self.places[-1], loops)
        return vector.transfer_write(into.type, value, into, where, map_, [True] * len(loops))

    def _kept(self, loops: list[int]) -> tuple[int, ...]:
        return tuple(sorted(loop for loop in loops if self.extents[loop] > 1))

    def _read(self, operand: ir.Value, place: list[int]) -> _Value:
        loops, element = self._kept(place), operand.type.element_type
        where, map_ = self._where(place, loops)
        if not loops:
            return _Value(tensor.extract(operand, where), ())
        if place[-1] not in loops:
            return _Value(self._gather(operand, place, loops), loops)
        padding = constant(0 if isinstance(element, ir.IntegerType) else 0.0, element)
        type_ = self._type(loops, element)
        read = vector.transfer_read(type_, operand, where, map_, padding, [True] * len(loops))
        return _Value(read, loops)

    def _gather(self, operand: ir.Value, place: list[int], loops: tuple[int, ...]) -> ir.Value:
        """What does not lie side by side, element by element: each is broadcast from memory."""
        rounds = [range(self.extents[loop]) for loop in loops]
        elements = []
        for at in product(*rounds):
            known = dict(zip(loops, at, strict=True))
            where = [index(known.get(loop, 0)) for loop in place]
            elements.append(tensor.extract(operand, where))
        return vector.from_elements(self._type(loops, operand.type.element_type), elements)

    def _where(
        self, place: list[int], loops: tuple[int, ...]
    ) -> tuple[list[ir.Value], ir.AffineMap]:
        dims = [ir.AffineDimExpr.get(place.index(loop)) for loop in loops]
        return [index(0)] * len(place), ir.AffineMap.get(len(place), 0, dims)

    def _compute(self, op: ir.Operation, known: dict[ir.Value, _Value]) -> _Value:
        operands = [known.get(operand, _Value(operand, ())) for operand in op.operands]
        loops = tuple(sorted({loop for operand in operands for loop in operand.loops}))
        result = self._type(loops, op.results[0].type) if loops else op.results[0].type
        attributes = {name: op.attributes[name] for name in op.attributes}
        spread = [self._spread(operand, loops) for operand in operands]
        return _Value(ir.Operation.create(op.name, [result], spread, attributes).result, loops)

    def _spread(self, value: _Value, loops: tuple[int, ...]) -> ir.Value:
        """The value for each round of `loops`, which are its own and others."""
        if value.loops == loops:
            return value.value
        if not value.loops:
            return vector.broadcast(self._type(loops, value.value.type), value.value)
        element = value.value.type.element_type
        ones = [self.extents[loop] if loop in value.loops else 1 for loop in loops]
        shaped = vector.shape_cast(ir.VectorType.get(ones, element), value.value)
        return vector.broadcast(self._type(loops, element), shaped)

    def _type(self, loops: tuple[int, ...], element: ir.Type) -> ir.VectorType:
        return ir.VectorType.get([self.extents[loop] for loop in loops], element)


def _reads_by_loops(op: ir.Operation) -> bool:
    """Whether `op` is a linalg.generic of one result that reads elements of tensors alone.

    Each of their places is a loop, and the body knows no other way of these.
    """
    if op.name != "linalg.generic" or len(op.results) != 1:
        return False
    are_tensors = all(isinstance(operand.type, ir.RankedTensorType) for operand in op.operands)
    maps = [ir.AffineMapAttr(map_).value for map_ in op.attributes["indexing_maps"]]
    are_loops = all(isinstance(each, ir.AffineDimExpr) for map_ in maps for each in map_.results)
    return are_tensors and are_loops and not find(op, "linalg.index")
