"""`llmc_transform.widen_operand`: a transform operation of our own, which MLIR lacks."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, ext, linalg, tensor, transform

from llmc.dialects.index_notation import sizes
from llmc.pipelines.schedules.transform_dialect import ModifiesPayload, Operation, Rewriting


class Interpretation(Rewriting):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def rewrite(
        op: Any, target: ir.Operation, rewriter: transform.TransformRewriter
    ) -> list[ir.Operation]:
        """Takes the widening out."""
        return _widen(target, op.number.value, rewriter)


class WidenOperandOp(Operation, name="widen_operand", traits=[Interpretation, ModifiesPayload]):
    """Takes the widening of an input, as from f16 to f32, out of linalg.generic operations.

    It becomes a linalg.generic of its own before them, whose loops are theirs that the input has,
    in their order; none where the input is not widened. MLIR makes contractions of operations whose
    operands are of one type.

        %wide = "llmc_transform.widen_operand"(%products) {number = 1 : i64}
              : (!transform.any_op) -> !transform.any_op
    """

    target: ext.Operand[Any]
    number: ir.IntegerAttr
    wide: ext.Result[Any]


def _widen(
    generic: ir.Operation, number: int, rewriter: transform.TransformRewriter
) -> list[ir.Operation]:
    narrow = generic.operands[number]
    argument = generic.regions[0].blocks[0].arguments[number]
    users = [use.owner.operation for use in argument.uses]
    dims = _dims(ir.ArrayAttr(generic.attributes["indexing_maps"])[number].value)
    if [user.name for user in users] != ["arith.extf"] or dims is None:
        return []
    (extension,) = users
    element = extension.results[0].type
    wide = _elementwise_extension(narrow, element, dims)
    argument.set_type(element)
    extension.results[0].replace_all_uses_with(argument)
    rewriter.erase_op(extension)
    generic.operands[number] = wide.results[0]
    return [wide]


def _dims(map_: ir.AffineMap) -> list[int] | None:
    """The loops that an operand's dimensions are; None where one is not a loop alone."""
    if not all(isinstance(each, ir.AffineDimExpr) for each in map_.results):
        return None
    return [ir.AffineDimExpr(each).position for each in map_.results]


def _elementwise_extension(narrow: ir.Value, element: ir.Type, dims: list[int]) -> ir.Operation:
    loops = sorted(dims)
    map_ = ir.AffineMap.get(
        len(loops), 0, [ir.AffineDimExpr.get(loops.index(each)) for each in dims]
    )
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    room = tensor.empty(sizes(narrow), element)
    op = linalg.GenericOp(
        [room.type], [narrow], [room], [map_, map_], ir.ArrayAttr.get([parallel] * len(loops))
    )
    block = op.regions[0].blocks.append(narrow.type.element_type, element, arg_locs=None)
    with ir.InsertionPoint(block):
        linalg.YieldOp([arith.extf(element, block.arguments[0])])
    return op.operation
