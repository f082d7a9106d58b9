"""Sums of products of bytes, as the linalg.generic `dots` of a quantised linear layer has them."""

from collections.abc import Iterator

from torch_mlir import ir
from torch_mlir.dialects import affine, arith

from llmc.dialects.block_panels import WORD
from llmc.dialects.index_notation import index
from llmc.pipelines.errors import fail
from llmc.pipelines.schedules.transform_ops.tile_vectors import read_vector

_SUMS_RANK = 4  # of rows, panels, blocks and rows of a panel
_WIDENING = ("arith.extsi", "arith.extui")


class ByteDots:
    """The operation, and the operands of its products. PassError where it is none of these.

    Its `loops` are rows `t`, panels `p`, blocks `b`, rows `j` of a panel, words `g` and bytes `i`;
    its body adds up, from 0 on, products of an integer of the weight, which it makes of a byte, of
    a part of one or of parts of several, and a byte of activations.
    """

    def __init__(self, op: ir.Operation, loops: str = "tpbjgi") -> None:
        if not _are_dots(op, len(loops)):
            fail(op, f"only sums of products of bytes over loops '{loops}' can be multiplied so")
        self._maps = [ir.AffineMapAttr(map_).value for map_ in op.attributes["indexing_maps"]]
        self._body = op.regions[0].blocks[0]
        self._block = op.operation.block
        self._indices: dict[int, ir.Value] = {}
        self._products = [_product(term) for term in _terms(_total(op))]
        *given, self.start = op.operands
        count = len(given) - len(self._products)
        self._weights, self.values = given[:count], given[count:]
        if not self.start.type.has_static_shape:
            fail(op, "tiles differ in size: `panels` must divide the weight's, `together` them")
        self.rows, self.panels, self.blocks, self.columns = self.start.type.shape
        *_, self.words, _ = self.values[0].type.shape

    @property
    def weight(self) -> ir.Value:
        """The weight, where it lies in one place."""
        (weight,) = self._weights
        return weight

    @property
    def parts(self) -> int:
        """How many products the body adds up, of an integer each."""
        return len(self._products)

    @property
    def is_signed(self) -> bool:
        """Whether weights are signed."""
        return self._widening.name == "arith.extsi"

    @property
    def most(self) -> int:
        """The greatest magnitude that a weight can have."""
        if self.is_signed:
            return 128
        return max(_most(widening.operands[0]) for widening, _ in self._products)

    def weights(
        self, *, panel: int, block: int | ir.Value, column: int, lanes: int
    ) -> list[list[ir.Value]]:
        """For each part, each word of the weights of `lanes` columns, as vectors of bytes."""
        type_ = ir.VectorType.get([lanes * WORD], self.values[0].type.element_type)
        parts: list[list[ir.Value]] = [[] for _ in self._products]
        for word in range(self.words):
            stored: dict[ir.Value, ir.Value] = {}
            for number, weight in enumerate(self._weights):
                where = self._place(
                    number, row=0, panel=panel, block=block, column=column, word=word
                )
                stored[self._body.arguments[number]] = read_vector(weight, type_, where)
            for part, (widening, _) in zip(parts, self._products, strict=True):
                part.append(_on_vectors(widening.operands[0], stored, type_))
        return parts

    def activations(self, row: int) -> list[list[ir.Value]]:
        """For each part of a block, each word of the activations of a row, of four bytes."""
        type_ = ir.VectorType.get([WORD], self.values[0].type.element_type)
        return [
            [
                read_vector(
                    self.values[argument.arg_number - len(self._weights)],
                    type_,
                    self._place(
                        argument.arg_number, row=row, panel=0, block=0, column=0, word=word
                    ),
                )
                for word in range(self.words)
            ]
            for _, argument in self._products
        ]

    @property
    def _widening(self) -> ir.Operation:
        return self._products[0][0]

    def _place(
        self,
        operand: int,
        *,
        row: int,
        panel: int,
        block: int | ir.Value,
        column: int,
        word: int,
    ) -> list[ir.Value]:
        loops = (row, panel, block, column, word, 0)
        known = [
            ir.AffineExpr.get_constant(each) if isinstance(each, int) else ir.AffineExpr.get_dim(0)
            for each in loops
        ]
        given = ir.AffineMap.get(1, 0, known)
        return [self._index(result.compose(given), block) for result in self._maps[operand].results]

    def _index(self, place: ir.AffineExpr, block: int | ir.Value) -> ir.Value:
        """`place`, whose one dimension is `block`, as a value: one for each number."""
        known = place.maybe_downcast()
        if isinstance(known, ir.AffineDimExpr):
            return block
        if not isinstance(known, ir.AffineConstantExpr):
            return affine.apply(ir.AffineMap.get(1, 0, [place]), [block])
        if known.value not in self._indices:
            with ir.InsertionPoint.at_block_begin(self._block):
                self._indices[known.value] = index(known.value)
        return self._indices[known.value]


def _are_dots(op: ir.Operation, loops: int) -> bool:
    """Whether `op` adds up products of what is made of bytes, over so many loops."""
    if op.name != "linalg.generic" or len(op.attributes["iterator_types"]) != loops:
        return False
    if op.operands[len(op.operands) - 1].type.rank != _SUMS_RANK:
        return False
    terms = list(_terms(_total(op)))
    return bool(terms) and all(map(_is_product, terms))


def _total(op: ir.Operation) -> ir.Value:
    """What the body of `op` makes of a sum."""
    return list(op.regions[0].blocks[0])[-1].operands[0]


def _terms(value: ir.Value) -> Iterator[ir.Operation]:
    """What is added up in `value`, but for what the sum was before."""
    if isinstance(value.owner, ir.Block):
        return
    if value.owner.name != "arith.addi":
        yield value.owner.operation
        return
    for operand in value.owner.operands:
        yield from _terms(operand)


def _is_product(op: ir.Operation) -> bool:
    """Whether `op` multiplies a widened weight and a widened argument of the body."""
    if op.name != "arith.muli":
        return False
    makers = [operand.owner for operand in op.operands]
    if any(isinstance(maker, ir.Block) or maker.name not in _WIDENING for maker in makers):
        return False
    return isinstance(makers[1].operands[0].owner, ir.Block)


def _product(op: ir.Operation) -> tuple[ir.Operation, ir.BlockArgument]:
    """The widened weight of a product, and the argument of the body for the activation."""
    weight, activation = (operand.owner for operand in op.operands)
    return weight.operation, ir.BlockArgument(activation.operands[0])


def _most(byte: ir.Value) -> int:
    """A bound on a byte without sign, from the shifts and masks that it is made by."""
    if isinstance(byte.owner, ir.Block):
        return 255
    name, operands = byte.owner.name, list(byte.owner.operands)
    if name == "arith.constant":
        return byte.owner.opview.literal_value & 255
    bounds = [_most(operand) for operand in operands]
    match name:
        case "arith.andi":
            return min(bounds)
        case "arith.ori":
            return 2 ** max(bound.bit_length() for bound in bounds) - 1
        case "arith.shrui":
            return bounds[0] >> bounds[1]
        case _:
            return 255


def _on_vectors(
    value: ir.Value, stored: dict[ir.Value, ir.Value], type_: ir.VectorType
) -> ir.Value:
    """What the body makes of bytes, made of the vectors of `type_` that are `stored` for them."""
    if value in stored:
        return stored[value]
    maker = value.owner.operation
    if maker.name == "arith.constant":
        splat = ir.DenseElementsAttr.get_splat(type_, maker.attributes["value"])
        return arith.ConstantOp(type_, splat).result
    operands = [_on_vectors(operand, stored, type_) for operand in maker.operands]
    return ir.Operation.create(maker.name, [type_], operands).result
