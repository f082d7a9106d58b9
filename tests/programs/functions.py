"""Programs of one function, whose steps may mix tokens."""

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import func

from tests.programs.scope import Scope, Weights, f32
from tests.programs.step import Step

NAME = "main"


@dataclass(frozen=True)
class Function:
    """`main(x [batch, tokens, width])`, which returns the hidden state after its steps."""

    steps: tuple[Step, ...]
    batch: int = 2
    tokens: int = 3
    width: int = 8
    dynamic_batch: bool = False
    dynamic_tokens: bool = True
    returns_saved: bool = False


def build_function(function: Function, context: ir.Context) -> tuple[ir.Module, Weights]:
    """Its module, and the weights that this names."""
    weights: Weights = {}
    batch = -1 if function.dynamic_batch else function.batch
    tokens = -1 if function.dynamic_tokens else function.tokens
    with context, ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            type_ = f32(batch, tokens, function.width)
            built = func.FuncOp(NAME, ([type_], []))
            with ir.InsertionPoint(built.add_entry_block()):
                scope = Scope(built.arguments[0], weights)
                for step in function.steps:
                    step.apply(scope)
                results = [scope.hidden, *(scope.saved if function.returns_saved else [])]
                func.ReturnOp(results)
            types = [result.type for result in results]
            built.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([type_], types))
        module.operation.verify()
    return module, weights
