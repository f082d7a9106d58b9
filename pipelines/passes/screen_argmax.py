"""`screen-argmax`: finds the best token without the low bits of the output head's weight."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.dialects import EmbeddingOp, ScreenedArgmaxOp
from llmc.pipelines.clones import clone_with
from llmc.pipelines.option_text import OneOf, Range
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.bind_parameters import STORAGES
from llmc.pipelines.recipes.recipe import Recipe, recipe_of
from llmc.pipelines.rewriting.functions import calls_of
from llmc.pipelines.rewriting.layers import trunks
from llmc.pipelines.rewriting.operations import is_read, is_used
from llmc.pipelines.rewriting.output_head import head_of
from llmc.pipelines.rewriting.parts import copy_as_part, return_instead
from llmc.pipelines.rewriting.split_weights import Split, is_of_one_row, split_of
from llmc.pipelines.rewriting.weight_expressions import computed_by, serves_only
from llmc.pipelines.rewriting.weight_readers import EMBEDDINGS


@dataclass(frozen=True)
class ScreenArgmax(Pass):
    """Stores an output head in two parts, where a function asks for best tokens alone.

    That is to call a step which returns rows of logits and the `llmc.argmax` of them, and not to
    use the logits. Such calls go to a private copy of the step, which finds the tokens by
    `llmc.screened_argmax`: it reads the high bits of all numbers, and all bits of few rows. For
    several tokens that is done of blocks alone, whose high bits are multiplied faster. What else
    reads the weight, a linear layer or an embedding, reads both parts of it. Of blocks of q8_0
    the high bits are 26 bytes of 34 (`llmc.pack_planes`), of floats, which will be stored as
    `storage`, f32 or f16, half of them (`llmc.split_float`). The weight has at least `rows` rows,
    which fill panels of `columns`; `tile` rows of activations are computed together. Changes
    numerics as `pack-blocks` does, and as `bind-parameters`.
    """

    name: ClassVar[str] = "screen-argmax"
    columns: Annotated[int, Range(1, 4096)] = 16
    rows: Annotated[int, Range(1, 2**31 - 1)] = 4096
    tile: Annotated[int, Range(1, 4096)] = 16
    storage: Annotated[str, OneOf(STORAGES)] = "f32"

    def apply(self, module: ir.Module) -> None:
        """Rewrites each step that is called so."""
        symbols = ir.SymbolTable(module.operation)
        found = [each for step in trunks(module) if (each := self._screenable(module, step))]
        for each in found:
            best = _copy_for_best(each.step, symbols)
            for call in each.calls:
                _call_instead(call, best)
            _screen(best, each.split)
        for each in found:
            for weight in computed_by(module, each.recipe, _readers(each.split)):
                _split_readers(weight, each.split)

    def _screenable(self, module: ir.Module, step: func.FuncOp) -> "_Screenable | None":
        calls = [call for call in calls_of(module, step) if _wants_best_alone(call)]
        search = _search_of(step) if calls else None
        if search is None:
            return None
        _, layer = search
        split, recipe = self._split_of(layer.weight), recipe_of(layer.weight)
        if split is None or recipe is None or not self._is_worth_it(layer, split):
            return None
        weights = computed_by(module, recipe, _readers(split))
        can_be = [_can_be_split(each, split) for each in weights]
        return _Screenable(step, calls, recipe, split) if all(can_be) else None

    def _split_of(self, head: ir.Value) -> Split | None:
        return split_of(head, self.columns, self.tile, self.storage)

    def _is_worth_it(self, layer: ir.OpView, split: Split) -> bool:
        rows = layer.weight.type.shape[0]
        is_large = rows >= self.rows and rows % self.columns == 0
        is_fast = split.is_rough_fast or is_of_one_row(layer)
        return is_large and is_fast and split.inputs(layer.weight) <= split.longest


@dataclass(frozen=True)
class _Screenable:
    """A step, those `calls` of it that want the best token alone, and what its head is."""

    step: func.FuncOp
    calls: Sequence[func.CallOp]
    recipe: Recipe
    split: Split


def _screen(step: func.FuncOp, split: Split) -> None:
    """Puts a screened search in the place of the `llmc.argmax` in `step`."""
    search = _search_of(step)
    if search is None:
        return
    argmax, linear = search
    reshape = argmax.operands[0].owner.operation
    with ir.InsertionPoint(linear), linear.location:
        high, low = split.parts(linear.weight)
        rough, exact = (split.product(linear, high, each) for each in (None, low))
        metric, spread = split.bounds(linear.weight)
        values, scales = split.measured(linear.x)
    with ir.InsertionPoint(argmax), argmax.location:
        flat = [_instead(reshape, linear.out, each) for each in (exact, rough)]
        best = ScreenedArgmaxOp(
            *flat, values, metric, spread, argmax.results[0].type, scales=scales
        ).out
    argmax.results[0].replace_all_uses_with(best)
    argmax.erase()
    if not is_used(reshape):
        reshape.erase()
    # Whatever else is made of the numbers is of the exact ones.
    linear.out.replace_all_uses_with(exact)
    linear.operation.erase()


def _instead(op: ir.Operation, old: ir.Value, new: ir.Value) -> ir.Value:
    """The result of a copy of `op` that reads `new` in the place of `old`, made here."""
    known = {old: new}
    clone_with(op, known)
    return known[op.results[0]]


def _split_readers(weight: ir.Value, split: Split) -> None:
    """Has all that reads `weight` read both parts of it."""
    readers = [
        use.owner.operation.opview
        for use in weight.uses
        if (use.owner.operation.name, use.operand_number) in _readers(split)
    ]
    if not readers:
        return
    with ir.InsertionPoint.after(weight.owner), weight.owner.location:
        high, low = split.parts(weight)
    for reader in readers:
        read = split.rows if isinstance(reader, EmbeddingOp) else split.product
        with ir.InsertionPoint(reader), reader.location:
            new = read(reader, high, low)
        reader.out.replace_all_uses_with(new)
        reader.operation.erase()


def _wants_best_alone(call: func.CallOp) -> bool:
    """Whether of two results the second alone is used."""
    return [is_read(result) for result in call.results] == [False, True]


def _readers(split: Split) -> set[tuple[str, int]]:
    return {(split.linear, 1), *EMBEDDINGS}


def _search_of(step: func.FuncOp) -> tuple[ir.Operation, ir.OpView] | None:
    """The `llmc.argmax` that the last result of `step` comes from, and the layer that it is of.

    None where it comes from no such search of a linear layer's rows.
    """
    return_ = step.entry_block.operations[-1]
    if return_.operation.name != "func.return" or not len(return_.operands):
        return None
    for op in _makers(return_.operands[len(return_.operands) - 1]):
        linear = head_of(op)
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


def _can_be_split(weight: ir.Value, split: Split) -> bool:
    """Whether all that reads `weight` can read parts of it."""
    readers = [use.owner.operation.opview for use in weight.uses]
    return serves_only(weight, _readers(split)) and all(
        isinstance(reader, EmbeddingOp) or split.can_serve(reader) for reader in readers
    )


def _copy_for_best(step: func.FuncOp, symbols: ir.SymbolTable) -> func.FuncOp:
    """A private copy of `step` that returns the second of its results alone."""
    copy = copy_as_part(step, f"{step.sym_name.value}.best", symbols)
    _, best = copy.entry_block.operations[-1].operands
    return_instead(copy, best, 1)
    return copy


def _call_instead(call: func.CallOp, best: func.FuncOp) -> None:
    """Calls `best` for the second result of `call`."""
    with ir.InsertionPoint(call), call.location:
        new = func.CallOp(list(best.type.results), best.sym_name.value, list(call.operands))
    call.results[1].replace_all_uses_with(new.results[0])
    call.operation.erase()
