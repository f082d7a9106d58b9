"""`return-best-token`: lets the module choose the next token of a greedy text itself."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.dialects import ArgmaxOp
from llmc.dialects.index_notation import expand, size
from llmc.pipelines.passes.base import Pass, find, trunks


@dataclass(frozen=True)
class ReturnBestToken(Pass):
    """Gives public functions that return logits `[B, V]` a second result: the best tokens `[B, 1]`.

    Who wants no more than these need not read the logits, which stay where they are.
    """

    name: ClassVar[str] = "return-best-token"

    def apply(self, module: ir.Module) -> None:
        """Extends the functions whose only result is a matrix of floats."""
        for trunk in trunks(module):
            if [_is_logits(type_) for type_ in trunk.type.results] == [True]:
                _extend(trunk)


def _is_logits(type_: ir.Type) -> bool:
    return (
        isinstance(type_, ir.RankedTensorType)
        and type_.rank == 2
        and isinstance(type_.element_type, ir.FloatType)
        and not type_.is_dynamic_dim(1)
        and type_.shape[1] > 0
    )


def _extend(trunk: func.FuncOp) -> None:
    (return_,) = find(trunk.operation, "func.return")
    logits = return_.operands[0]
    rows, _ = logits.type.shape
    i64 = ir.IntegerType.get_signless(64)
    with ir.InsertionPoint(return_), return_.location:
        best = ArgmaxOp(logits, ir.RankedTensorType.get([rows], i64)).out
        tokens = expand(best, [[size(best, 0), 1]])
        func.ReturnOp([logits, tokens])
    return_.erase()
    results = [logits.type, tokens.type]
    type_ = ir.FunctionType.get(list(trunk.type.inputs), results)
    trunk.attributes["function_type"] = ir.TypeAttr.get(type_)
