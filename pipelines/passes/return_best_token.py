"""`return-best-token`: lets the module choose the next token of a greedy text itself."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func
from torch_mlir.extras import types as T

from llmc.dialects import ArgmaxOp
from llmc.dialects.index_notation import expand, size
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import set_type, symbol_users
from llmc.pipelines.rewriting.increasing import before_increasing
from llmc.pipelines.rewriting.layers import trunks
from llmc.pipelines.rewriting.logits import is_logits


@dataclass(frozen=True)
class ReturnBestToken(Pass):
    """Gives public functions that return logits `[B, V]` a second result: the best tokens `[B, 1]`.

    Who wants no more than these need not read the logits, which stay where they are. The best is
    that of the numbers which increasing functions make logits of: such functions keep no search
    from the output head.
    """

    name: ClassVar[str] = "return-best-token"

    def apply(self, module: ir.Module) -> None:
        """Extends the functions whose only result is a matrix of floats, and that nobody calls."""
        users = symbol_users(module)
        for trunk in trunks(module):
            returns_logits = [is_logits(type_) for type_ in trunk.type.results] == [True]
            if returns_logits and len(trunk.body.blocks) == 1 and trunk.sym_name.value not in users:
                _extend(trunk)


def _extend(trunk: func.FuncOp) -> None:
    return_ = trunk.entry_block.operations[-1]
    (logits,) = return_.operands
    rows, _ = logits.type.shape
    i64 = T.i64()
    with ir.InsertionPoint(return_), return_.location:
        best = ArgmaxOp(before_increasing(logits), ir.RankedTensorType.get([rows], i64)).out
        tokens = expand(best, [[size(best, 0), 1]])
        func.ReturnOp([logits, tokens])
    return_.operation.erase()
    set_type(trunk, [logits.type, tokens.type])
    if "res_attrs" in trunk.attributes:
        attributes = [*trunk.attributes["res_attrs"], ir.DictAttr.get()]
        trunk.attributes["res_attrs"] = ir.ArrayAttr.get(attributes)
