"""`tile-prefill`: runs a prompt in tiles of one fixed number of tokens."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, func, scf, tensor
from torch_mlir.extras import types as T

from llmc.dialects.block_types import cell_format
from llmc.dialects.cache_cells import COLUMNS
from llmc.dialects.index_notation import as_value, filled, index, insert, size, slice_of
from llmc.pipelines.errors import fail
from llmc.pipelines.option_text import Range
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.specialize_tokens import SpecializeTokens
from llmc.pipelines.rewriting.functions import set_arguments, symbol_users
from llmc.pipelines.rewriting.layers import PART, layer_functions, trunks
from llmc.pipelines.rewriting.threaded import is_threaded
from llmc.pipelines.walks import find
from llmc.runtime.abi import PREFILL

TILE = f"{PREFILL}.tile"
"""The function that runs one tile."""


@dataclass(frozen=True)
class TilePrefill(Pass):
    """Makes `prefill` a loop over tiles of `tokens` tokens, the last of them filled up with zeros.

    All sizes in a tile but that of what it attends to are static, as the kernels of GPUs want them.
    What is filled up comes after all that is asked for, where attention does not look; its rows of
    the KV cache are written anew before they are read, and `reset` makes room for them. Wants a
    module whose KV cache `thread-kv-cache` has made, and of whose logits `select-last-token` has
    left those of one token. It leaves one without `prefill`.
    """

    name: ClassVar[str] = "tile-prefill"
    tokens: Annotated[int, Range(2, 2**31 - 1)] = 64

    def apply(self, module: ir.Module) -> None:
        """Copies `prefill` for a tile, and puts the loop in the place of its body."""
        named = {trunk.sym_name.value: trunk for trunk in trunks(module)}
        trunk = named.get(PREFILL)
        if trunk is None or TILE in ir.SymbolTable(module.operation):
            return
        if not is_threaded(trunk):
            fail(trunk, "must take tokens, start, sequence and past, as thread-kv-cache leaves it")
        SpecializeTokens(function=PREFILL, tokens=self.tokens, copy=TILE).apply(module)
        tile = ir.SymbolTable(module.operation)[TILE]
        count = self._take_tile(tile, trunk.arguments[0].type)
        self._select_by_count(tile, count)
        self._loop(trunk)
        _erase_unused_layers(module)
        for allocate in find(module.operation, "llmc.cache_allocate"):
            self._make_room(allocate.opview)

    def _take_tile(self, tile: func.FuncOp, prompt: ir.Type) -> ir.Value:
        """Lets `tile` take the tokens of its prompt from a column on; how many there are."""
        tile.attributes["sym_visibility"] = ir.StringAttr.get("private")
        for mark in (PART, "noinline"):
            tile.attributes[mark] = ir.UnitAttr.get()
        old_tokens, start, sequence, old_past = tile.arguments
        new = [prompt, start.type, sequence.type, old_past.type, T.index()]
        every = list(range(len(new) - 1))
        tokens, *state, past, at = set_arguments(tile, every, new)
        with ir.InsertionPoint.at_block_begin(tile.entry_block), tile.location:
            left = arith.subi(as_value(size(tokens, 1)), at)
            count = arith.minui(left, index(self.tokens))
            piece = slice_of(tokens, [0, at], [1, count], [1, count])
            room = filled([1, self.tokens], 0, prompt.element_type)
            filled_up = insert(piece, room, [0, 0], [1, count])
            column = arith.addi(past, arith.index_cast(past.type, at))
        replaced = old_tokens, start, sequence, old_past
        for old, value in zip(replaced, (filled_up, *state, column), strict=True):
            old.replace_all_uses_with(value)
        set_arguments(tile, list(range(len(every), len(every) + len(new))), [])
        return count

    def _select_by_count(self, tile: func.FuncOp, count: ir.Value) -> None:
        """Makes the last of `count` tokens the one whose logits are computed."""
        slices = [op.opview for op in find(tile.operation, "tensor.extract_slice")]
        last = [each for each in slices if self._is_of_last_token(each)]
        if not last:
            fail(tile, "does not select the logits of the last token")
        for each in last:
            with ir.InsertionPoint(each), each.location:
                row = arith.subi(count, index(1))
                offsets = [0, row, *[0] * (each.source.type.rank - 2)]
                extents = list(each.static_sizes)
                new = slice_of(each.source, offsets, extents, each.result.type.shape)
            each.result.replace_all_uses_with(new)
            each.operation.erase()

    def _is_of_last_token(self, slice_: tensor.ExtractSliceOp) -> bool:
        offsets, extents = list(slice_.static_offsets), list(slice_.static_sizes)
        whole = list(slice_.source.type.shape)
        whole[1:2] = [1]
        return (
            slice_.source.type.rank > 1
            and slice_.source.type.shape[1] == self.tokens
            and extents == whole
            and offsets == [0, self.tokens - 1, *[0] * (len(whole) - 2)]
        )

    def _loop(self, trunk: func.FuncOp) -> None:
        for op in reversed(list(trunk.entry_block.operations)):
            op.operation.erase()
        with ir.InsertionPoint(trunk.entry_block), trunk.location:
            step = index(self.tokens)
            before_last = arith.subi(as_value(size(trunk.arguments[0], 1)), index(1))
            last = arith.muli(arith.divui(before_last, step), step)
            loop = scf.ForOp(index(0), last, step)
            with ir.InsertionPoint(loop.body):
                _call_tile(trunk, loop.induction_variable)
                scf.YieldOp([])
            func.ReturnOp(_call_tile(trunk, last))

    def _make_room(self, allocate: ir.OpView) -> None:
        more = self.tokens - 1
        if cell_format(allocate.out.type):
            more = -(-more // COLUMNS)
        with ir.InsertionPoint(allocate), allocate.location:
            room = arith.addi(allocate.capacity, index(more))
        allocate.operation.operands[1] = room


def _call_tile(trunk: func.FuncOp, at: ir.Value) -> list[ir.Value]:
    return list(func.CallOp(trunk.type.results, TILE, [*trunk.arguments, at]).results)


def _erase_unused_layers(module: ir.Module) -> None:
    """Those of the body that the loop has replaced."""
    users = symbol_users(module)
    for layer in layer_functions(module):
        if layer.sym_name.value not in users:
            layer.operation.erase()
