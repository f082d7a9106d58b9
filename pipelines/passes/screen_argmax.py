"""`screen-argmax`: finds the best token without the low bits of the output head's weight."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Annotated, ClassVar, TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.dialects import (
    EmbeddingOp,
    PackPlanesOp,
    PlaneEmbeddingOp,
    PlaneLinearOp,
    QuantizedLinearOp,
    QuantizeRowsOp,
    RoughMetricOp,
    RoughSpreadOp,
    ScreenedArgmaxOp,
)
from llmc.dialects.attributes import i64
from llmc.dialects.bit_planes import PLANES
from llmc.dialects.block_types import block_format
from llmc.dialects.blocks import Q8_0
from llmc.dialects.index_notation import collapse
from llmc.pipelines.option_text import Range
from llmc.pipelines.passes.base import PART, Pass, calls_of, clone_with, trunks
from llmc.pipelines.passes.weight_expressions import read_by, serves_only
from llmc.pipelines.recipes.recipe import Recipe, recipe_of

_READERS = {("llmc.quantized_linear", 1), ("llmc.embedding", 1)}

Reader: TypeAlias = QuantizedLinearOp | EmbeddingOp

_LONGEST = 4096
"""The most inputs of a head that is screened.

The bound on what the low bits may add grows with the number of inputs, how far logits lie apart
with its root: for a wider head too many rows might be the best, and would be read again.
"""


@dataclass(frozen=True)
class ScreenArgmax(Pass):
    """Lays an output head of q8_0 out in bit planes, where a function asks for best tokens alone.

    That is to call a step which returns a row of logits and the `llmc.argmax` of it, and not to use
    the logits. Such calls go to a private copy of the step, which finds the token by
    `llmc.screened_argmax`: it reads 26 of each block's 34 bytes, and all of those of few rows. What
    else reads the weight, a linear layer or an embedding, reads both parts of it. The weight has at
    least `rows` rows, which fill panels of `columns`. Changes numerics as `pack-blocks` does.
    """

    name: ClassVar[str] = "screen-argmax"
    columns: Annotated[int, Range(1, 4096)] = 16
    rows: Annotated[int, Range(1, 2**31 - 1)] = 4096

    def apply(self, module: ir.Module) -> None:
        """Rewrites each step that is called so."""
        symbols = ir.SymbolTable(module.operation)
        for step in trunks(module):
            calls = [call for call in calls_of(module, step) if _wants_best_alone(call)]
            head = _head_of(step) if calls else None
            if head is None or not self._is_worth_it(head):
                continue
            recipe = recipe_of(head)
            if recipe is None or not all(map(_can_be_split, _weights(module, recipe))):
                continue
            best = _copy_for_best(step, symbols)
            for call in calls:
                _call_instead(call, best)
            self._screen(best)
            for weight in _weights(module, recipe):
                self._split(weight)

    def _is_worth_it(self, head: ir.Value) -> bool:
        rows, blocks = head.type.shape
        is_large = rows >= self.rows and rows % self.columns == 0
        return is_large and blocks * Q8_0.values <= _LONGEST

    def _screen(self, step: func.FuncOp) -> None:
        """Puts a screened search in the place of the `llmc.argmax` in `step`."""
        search = _search_of(step)
        if search is None:
            return
        argmax, linear = search
        reshape = argmax.operands[0].owner.operation
        with ir.InsertionPoint(linear), linear.location:
            high, low = self._parts(linear.weight)
            rough = PlaneLinearOp(linear.x, high, linear.out.type).out
            exact = PlaneLinearOp(linear.x, high, linear.out.type, low=low).out
            outputs, blocks = linear.weight.type.shape
            metric = RoughMetricOp(linear.weight, _floats(blocks * Q8_0.values)).out
            spread = RoughSpreadOp(linear.weight, metric, _floats(outputs)).out
            values, scales = _quantized(linear.x)
        with ir.InsertionPoint(argmax), argmax.location:
            flat = []
            for row in (exact, rough):
                known = {linear.out: row}
                clone_with(reshape, known)
                flat.append(known[reshape.results[0]])
            best = ScreenedArgmaxOp(
                *flat, values, metric, spread, argmax.results[0].type, scales=scales
            ).out
        argmax.results[0].replace_all_uses_with(best)
        for op in (argmax, reshape, linear.operation):
            op.erase()

    def _split(self, weight: ir.Value) -> None:
        """Has all that reads the blocks `weight` read both parts of them."""
        readers = [op for use in weight.uses if isinstance(op := use.owner, Reader)]
        if not readers:
            return
        with ir.InsertionPoint.after(weight.owner), weight.owner.location:
            high, low = self._parts(weight)
        for reader in readers:
            with ir.InsertionPoint(reader), reader.location:
                new = _reading(reader, high, low)
            reader.out.replace_all_uses_with(new)
            reader.operation.erase()

    def _parts(self, weight: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The high and the low bits of the blocks `weight`."""
        rows, blocks = weight.type.shape
        byte = ir.IntegerType.get_signless(8)
        high, low = (
            PackPlanesOp(
                weight,
                i64(self.columns),
                ir.StringAttr.get(name),
                ir.RankedTensorType.get(
                    [-(-rows // self.columns), blocks, self.columns * part.bytes], byte
                ),
            ).out
            for name, part in PLANES.items()
        )
        return high, low


def _wants_best_alone(call: func.CallOp) -> bool:
    """Whether of two results the second alone is used."""
    return [any(True for _ in result.uses) for result in call.results] == [False, True]


def _weights(module: ir.Module, recipe: Recipe) -> list[ir.Value]:
    """The values that `recipe` computes; each function has its own."""
    return [weight for weight in read_by(module, _READERS) if recipe_of(weight) == recipe]


def _head_of(step: func.FuncOp) -> ir.Value | None:
    """The weight of the linear layer whose best output is the second result of `step`."""
    search = _search_of(step)
    return search and search[1].weight


def _search_of(step: func.FuncOp) -> tuple[ir.Operation, QuantizedLinearOp] | None:
    """The `llmc.argmax` that the last result of `step` comes from, and the layer that it is of.

    None where it comes from no such search of a linear layer's one row.
    """
    return_ = step.entry_block.operations[-1]
    if return_.operation.name != "func.return" or not len(return_.operands):
        return None
    for op in _makers(return_.operands[len(return_.operands) - 1]):
        linear = _linear_of(op)
        if linear is not None:
            return op, linear
    return None


def _makers(value: ir.Value) -> Iterator[ir.Operation]:
    """What makes `value`, and what makes the first operand of that, and so on."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        yield op
        if not op.operands:
            return
        value = op.operands[0]


def _linear_of(op: ir.Operation) -> QuantizedLinearOp | None:
    """The linear layer of q8_0, of one row, of which `op` finds the best output; or None."""
    if op.name != "llmc.argmax":
        return None
    reshape = op.operands[0].owner
    if isinstance(reshape, ir.Block) or reshape.name != "tensor.collapse_shape":
        return None
    maker = reshape.operands[0].owner
    if isinstance(maker, ir.Block) or maker.name != "llmc.quantized_linear":
        return None
    linear = maker.opview
    shape = linear.x.type.shape
    is_row = linear.x.type.has_static_shape and prod(shape[:-1]) == 1
    return linear if is_row and block_format(linear.weight.type) == Q8_0 else None


def _quantized(x: ir.Value) -> list[ir.Value]:
    """The row `x [..., K]` as a layer of q8_0 reads it: integers `[1, K]`, scales `[1, K/32]`."""
    *leading, length = x.type.shape
    i8, group = ir.IntegerType.get_signless(8), Q8_0.values
    values = ir.RankedTensorType.get(x.type.shape, i8)
    scales = ir.RankedTensorType.get([*leading, length // group], x.type.element_type)
    made = QuantizeRowsOp(x, i64(group), values, scales)
    return [collapse(value, [len(leading), 1]) for value in (made.values, made.scales)]


def _floats(length: int) -> ir.RankedTensorType:
    return ir.RankedTensorType.get([length], ir.F32Type.get())


def _can_be_split(weight: ir.Value) -> bool:
    """Whether all that reads `weight` can read planes."""
    readers = [use.owner.operation.opview for use in weight.uses]
    return serves_only(weight, _READERS) and all(
        isinstance(reader, EmbeddingOp) or (reader.bias is None and reader.scales is None)
        for reader in readers
    )


def _copy_for_best(step: func.FuncOp, symbols: ir.SymbolTable) -> func.FuncOp:
    """A private copy of `step` that returns the second of its results alone."""
    copy = step.operation.clone(ip=ir.InsertionPoint(step)).opview
    copy.attributes["sym_name"] = ir.StringAttr.get(f"{step.sym_name.value}.best")
    symbols.insert(copy.operation)  # by another name, where that one is taken
    copy.attributes["sym_visibility"] = ir.StringAttr.get("private")
    copy.attributes[PART] = ir.UnitAttr.get()
    return_ = copy.entry_block.operations[-1]
    _, best = return_.operands
    with ir.InsertionPoint(return_), return_.location:
        func.ReturnOp([best])
    return_.operation.erase()
    type_ = ir.FunctionType.get(list(copy.type.inputs), [best.type])
    copy.attributes["function_type"] = ir.TypeAttr.get(type_)
    if "res_attrs" in copy.attributes:
        _, kept = copy.attributes["res_attrs"]
        copy.attributes["res_attrs"] = ir.ArrayAttr.get([kept])
    return copy


def _call_instead(call: func.CallOp, best: func.FuncOp) -> None:
    """Calls `best` for the second result of `call`."""
    with ir.InsertionPoint(call), call.location:
        new = func.CallOp(list(best.type.results), best.sym_name.value, list(call.operands))
    call.results[1].replace_all_uses_with(new.results[0])
    call.operation.erase()


def _reading(reader: Reader, high: ir.Value, low: ir.Value) -> ir.Value:
    if isinstance(reader, EmbeddingOp):
        return PlaneEmbeddingOp(reader.ids, high, low, reader.out.type).out
    return PlaneLinearOp(reader.x, high, reader.out.type, low=low).out
