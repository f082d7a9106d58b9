"""`llmc_transform.widen_operand`: takes the widening of an input out of an operation."""

from dataclasses import dataclass
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext, linalg, tensor, transform

from llmc.dialects.index_notation import sizes
from llmc.pipelines.clones import clone_with
from llmc.pipelines.errors import fail
from llmc.pipelines.schedules.transform_ops.dialect import ModifiesPayload, Operation, Rewriting


class Interpretation(Rewriting):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def rewrite(
        op: Any, target: ir.Operation, rewriter: transform.TransformRewriter
    ) -> list[ir.Operation]:
        """Takes the widening out."""
        number = op.number.value
        if not 0 <= number < len(target.operands) - 1:
            fail(target, f"there is no input number {number} to be widened")
        widening = _widening(target, number)
        if widening is None:
            return []
        wide = widening.taken_out()
        rewriter.replace_op(target, widening.rest(wide))
        return [wide]


class WidenOperandOp(Operation, name="widen_operand", traits=[Interpretation, ModifiesPayload]):
    """Takes the widening of an input, as from f16 to f32, out of linalg.generic operations.

    That is what they make, element by element, of this input and those beside it that have the same
    loops, be it numbers of their bits. It becomes a linalg.generic of its own before them, whose
    loops are theirs that the input has, in their order; none where the input is not widened. MLIR
    makes contractions of operations whose operands are of one type.

        %wide = "llmc_transform.widen_operand"(%products) {number = 1 : i64}
              : (!transform.any_op) -> !transform.any_op
    """

    target: ext.Operand[Any]
    number: ir.IntegerAttr
    wide: ext.Result[Any]


@dataclass(frozen=True)
class _Widening:
    """What `members` of the body of a linalg.generic make of `inputs` alone: the value `made`."""

    generic: linalg.GenericOp
    inputs: list[int]
    members: list[ir.Operation]
    made: ir.Value

    @property
    def block(self) -> ir.Block:
        """The body."""
        return self.generic.operation.regions[0].blocks[0]

    @property
    def maps(self) -> list[ir.AffineMap]:
        """Where operands are read."""
        return _maps(self.generic.operation)

    def taken_out(self) -> ir.Operation:
        """The operation that makes it, here."""
        given = [self.generic.operands[at] for at in self.inputs]
        dims = [ir.AffineDimExpr(each).position for each in self.maps[self.inputs[0]].results]
        loops = sorted(dims)
        map_ = ir.AffineMap.get(
            len(loops), 0, [ir.AffineDimExpr.get(loops.index(each)) for each in dims]
        )
        room = tensor.empty(sizes(given[0]), self.made.type)
        op = linalg.GenericOp(
            [room.type], given, [room], [map_] * (len(given) + 1), ["parallel"] * len(loops)
        )
        arguments = [self.block.arguments[at] for at in self.inputs]
        known = _begin(op, [*(each.type for each in arguments), self.made.type], arguments)
        with ir.InsertionPoint(op.regions[0].blocks[0]):
            for member in self.members:
                clone_with(member, known)
            linalg.YieldOp([known[self.made]])
        return op.operation

    def rest(self, wide: ir.Operation) -> ir.Operation:
        """The operation that reads what `wide` makes, here."""
        first, *others = self.inputs
        kept = [at for at in range(len(self.maps)) if at not in others]
        *given, out = [wide.result if at == first else self.generic.operands[at] for at in kept]
        op = linalg.GenericOp(
            [out.type], given, [out], [self.maps[at] for at in kept], self.generic.iterator_types
        )
        arguments = [self.made if at == first else self.block.arguments[at] for at in kept]
        known = _begin(op, [each.type for each in arguments], arguments)
        with ir.InsertionPoint(op.regions[0].blocks[0]):
            for inner in self.block:
                if inner.operation not in self.members or _is_constant(inner.operation):
                    clone_with(inner.operation, known)
        return op.operation


def _widening(generic: ir.Operation, number: int) -> _Widening | None:
    """What is made of input `number` and of those that have its loops, if that is one value."""
    maps, block = _maps(generic), generic.regions[0].blocks[0]
    inputs = [at for at, map_ in enumerate(maps[:-1]) if map_ == maps[number]]
    arguments = [block.arguments[at] for at in inputs]
    members = _made_of(arguments, block)
    made = [op.results[0] for op in members if not _is_constant(op)]
    read = [
        value
        for value in (*arguments, *made)
        if any(use.owner.operation not in members for use in value.uses)
    ]
    is_plain = all(isinstance(each, ir.AffineDimExpr) for each in maps[number].results)
    if not is_plain or len(read) != 1 or read[0] in arguments:
        return None
    return _Widening(generic.opview, inputs, members, read[0])


def _made_of(arguments: list[ir.Value], block: ir.Block) -> list[ir.Operation]:
    """Constants, and the operations that read nothing of the block but `arguments` and these."""
    known, members = set(arguments), list[ir.Operation]()
    *body, _ = block
    for op in body:
        reads = [value for value in op.operands if _block_of(value) == block]
        if _is_constant(op.operation) or (reads and known.issuperset(reads)):
            known.update(op.results)
            members.append(op.operation)
    return members


def _maps(generic: ir.Operation) -> list[ir.AffineMap]:
    return [each.value for each in ir.ArrayAttr(generic.attributes["indexing_maps"])]


def _is_constant(op: ir.Operation) -> bool:
    return op.name == "arith.constant"


def _block_of(value: ir.Value) -> ir.Block:
    owner = value.owner
    return owner if isinstance(owner, ir.Block) else owner.operation.block


def _begin(
    op: linalg.GenericOp, types: list[ir.Type], arguments: list[ir.Value]
) -> dict[ir.Value, ir.Value]:
    """The body's block; its arguments of these `types`, by those that they stand for."""
    block = op.regions[0].blocks.append(*types, arg_locs=None)
    return dict(zip(arguments, block.arguments, strict=False))
