"""The query rows that a workgroup of attention has."""

from torch_mlir import ir
from torch_mlir.dialects import arith, vector
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import index


class QueryRows:
    """The query rows of one workgroup: row r is token r / sharing of head r mod sharing.

    `places` are where they lie in `[B, H, T]`, `outputs` in `[B, T, H]`; where the sequences are
    `joined`, in `[1, H, B * T]` and `[1, B * T, H]`. The last workgroup is filled up with the last
    row: it is computed and written again.
    """

    def __init__(
        self,
        sharing: int,
        lanes: int,
        tile: ir.Value,
        tokens: ir.Value,
        batch: ir.Value,
        key_head: ir.Value,
        past: ir.Value,
        joined: bool,
    ) -> None:
        self.batch = batch
        heads = index(sharing)
        last = arith.subi(arith.muli(tokens, heads), index(1))
        first = arith.muli(tile, index(lanes))
        begin = arith.muli(batch, tokens)
        self.places, self.outputs = [], []
        columns = []
        for lane in range(lanes):
            row = arith.minui(arith.addi(first, index(lane)), last)
            token = arith.divui(row, heads)
            head = arith.addi(arith.muli(key_head, heads), arith.remui(row, heads))
            where, place = (index(0), arith.addi(begin, token)) if joined else (batch, token)
            self.places.append([where, head, place])
            self.outputs.append([where, place, head])
            columns.append(arith.addi(past, token))
        self.first_column, self.last_column = columns[0], columns[-1]
        i32 = T.i32()
        self.columns = vector.from_elements(
            ir.VectorType.get([lanes], i32), [arith.index_cast(i32, c) for c in columns]
        )
