"""`llmc_transform.byte_products`: maps sums of products of bytes to a CPU's instructions."""

from collections.abc import Iterator
from itertools import product
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import affine, arith, ext, tensor, transform, vector

from llmc.dialects.index_notation import constant, index
from llmc.pipelines.schedules.byte_instructions import INSTRUCTIONS, TWO_ROWS, Pairs, splat
from llmc.pipelines.schedules.transform_dialect import ConsumesPayload, Operation

_WORD = 4
"""Bytes of a lane of 32 bits."""


class Interpretation(transform.TransformOpInterface):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def apply(
        op: Any,
        rewriter: transform.TransformRewriter,
        _results: transform.TransformResults,
        state: transform.TransformState,
    ) -> transform.DiagnosedSilenceableFailure:
        """Rewrites the payload."""
        for target in state.get_payload_ops(op.target):
            with ir.InsertionPoint(target), target.location:
                sums = _Tile(target).multiplied(op.instruction.value, op.lanes.value)
            rewriter.replace_op(target, [sums])
        return transform.DiagnosedSilenceableFailure.Success

    @staticmethod
    def allow_repeated_handle_operands(_op: Any) -> bool:
        """An operation of the payload may not be given twice."""
        return False


class ByteProductsOp(Operation, name="byte_products", traits=[Interpretation, ConsumesPayload]):
    """Makes vectors of the linalg.generic `dots` of a quantised linear layer, of one block.

    Its loops are rows `t`, panels `p`, one block `b`, rows `j` of a panel, words `g` and bytes `i`;
    its body adds up, from 0 on, products of a byte of the weight, perhaps a part of it, and one of
    activations.
    MLIR's vectoriser would widen the bytes first. `lanes` sums of 32 bits fill a register.

        "llmc_transform.byte_products"(%dots) {instruction = "vpdpbusd", lanes = 16 : i64}
              : (!transform.any_op) -> ()
    """

    target: ext.Operand[Any]
    instruction: ir.StringAttr
    lanes: ir.IntegerAttr


class _Tile:
    """The operation, and the operands of its products."""

    def __init__(self, op: ir.Operation) -> None:
        self.weight, *self.values, self.start = op.operands
        self.rows, self.panels, _, self.columns = self.start.type.shape
        *_, self.words, _ = self.values[0].type.shape
        self.maps = [ir.AffineMapAttr(map_).value for map_ in op.attributes["indexing_maps"]]
        self.body = op.regions[0].blocks[0]
        self.products = list(_products(list(self.body)[-1].operands[0]))

    def multiplied(self, instruction: str, lanes: int) -> ir.Value:
        """The tensor of sums."""
        shape, element = self.start.type.shape, self.start.type.element_type
        dims = [dim for dim in (0, 1) if shape[dim] > 1]
        chunks = self.columns // lanes
        whole = [shape[dim] for dim in dims]
        sums = splat(0, ir.VectorType.get([*whole, chunks, lanes], element))
        for panel, chunk in product(range(self.panels), range(chunks)):
            weights = self._weights(panel, chunk * lanes, lanes)
            rows = [self._pairs(weights, row, lanes) for row in range(self.rows)]
            for row, total in enumerate(self._totals(rows, instruction, lanes)):
                place = [*((row, panel)[dim] for dim in dims), chunk]
                sums = vector.insert(total, sums, [], place)
        joined = vector.shape_cast(ir.VectorType.get([*whole, self.columns], element), sums)
        return _write(joined, tensor.empty(shape, element), [*dims, 3])

    def _totals(self, rows: list[Pairs], instruction: str, lanes: int) -> Iterator[ir.Value]:
        """The sums of each row, two rows at a time where the instruction can."""
        signed, most = self._range()
        together = TWO_ROWS.get(instruction) if most <= 128 else None
        while together and len(rows) > 1:
            yield from together(rows[:2])
            rows = rows[2:]
        start = splat(0, ir.VectorType.get([lanes], self.start.type.element_type))
        for pairs in rows:
            yield INSTRUCTIONS[instruction](start, pairs, signed, most)

    def _pairs(self, weights: list[ir.Value], row: int, lanes: int) -> Pairs:
        return list(zip(weights, self._activations(row, lanes), strict=True))

    def _range(self) -> tuple[bool, int]:
        """Whether the weights are signed, and the greatest magnitude that they can have."""
        widening = self.products[0][0]
        if widening.name == "arith.extsi":
            return True, 128
        is_whole = not isinstance(widening.operands[0].owner, ir.Block) and (
            widening.operands[0].owner.name == "arith.xori"
        )
        return False, 255 if is_whole else 15

    def _weights(self, panel: int, column: int, lanes: int) -> list[ir.Value]:
        """The weights of each word and product, of `lanes` columns."""
        type_ = ir.VectorType.get([lanes * _WORD], self.weight.type.element_type)
        vectors = []
        for word in range(self.words):
            where = self._place(0, row=0, panel=panel, column=column, word=word)
            stored = _read(self.weight, type_, where)
            for widening, _ in self.products:
                vectors.append(_on_vectors(widening.operands[0], self.body.arguments[0], stored))
        return vectors

    def _activations(self, row: int, lanes: int) -> list[ir.Value]:
        """The four activations of each word and product, once for every column."""
        byte = self.weight.type.element_type
        i32 = ir.IntegerType.get_signless(32)
        vectors = []
        for word in range(self.words):
            for _, argument in self.products:
                where = self._place(argument.arg_number, row=row, panel=0, column=0, word=word)
                values = self.values[argument.arg_number - 1]
                four = _read(values, ir.VectorType.get([_WORD], byte), where)
                number = vector.extract(vector.bitcast(ir.VectorType.get([1], i32), four), [], [0])
                repeated = vector.broadcast(ir.VectorType.get([lanes], i32), number)
                vectors.append(vector.bitcast(ir.VectorType.get([lanes * _WORD], byte), repeated))
        return vectors

    def _place(
        self, operand: int, *, row: int, panel: int, column: int, word: int
    ) -> list[ir.Value]:
        loops = [index(each) for each in (row, panel, 0, column, word, 0)]
        map_ = self.maps[operand]
        return [
            affine.apply(ir.AffineMap.get(map_.n_dims, 0, [result]), loops)
            for result in map_.results
        ]


def _products(value: ir.Value) -> Iterator[tuple[ir.Operation, ir.BlockArgument]]:
    """The products that are added up in `value`: a widened weight, and an argument of the body."""
    if isinstance(value.owner, ir.Block):
        return
    if value.owner.name == "arith.muli":
        weight, activation = (operand.owner for operand in value.owner.operands)
        yield weight.operation, ir.BlockArgument(activation.operands[0])
        return
    for operand in value.owner.operands:
        yield from _products(operand)


def _on_vectors(value: ir.Value, byte: ir.Value, stored: ir.Value) -> ir.Value:
    """What the body makes of a byte, made of the vector `stored`."""
    if value == byte:
        return stored
    maker = value.owner.operation
    if maker.name == "arith.constant":
        splat = ir.DenseElementsAttr.get_splat(stored.type, maker.attributes["value"])
        return arith.ConstantOp(stored.type, splat).result
    operands = [_on_vectors(operand, byte, stored) for operand in maker.operands]
    return ir.Operation.create(maker.name, [stored.type], operands).result


def _read(source: ir.Value, type_: ir.VectorType, where: list[ir.Value]) -> ir.Value:
    map_ = ir.AffineMap.get_minor_identity(len(where), type_.rank)
    padding = constant(0, type_.element_type)
    return vector.transfer_read(type_, source, where, map_, padding, [True] * type_.rank)


def _write(value: ir.Value, into: ir.Value, dims: list[int]) -> ir.Value:
    where = [index(0)] * into.type.rank
    map_ = ir.AffineMap.get(into.type.rank, 0, [ir.AffineDimExpr.get(dim) for dim in dims])
    return vector.transfer_write(into.type, value, into, where, map_, [True] * value.type.rank)
