"""A module that runs another's functions, so that IREE's tools can measure these: they know a call
of one function only, and a model needs its cache allocated before.
"""

from pathlib import Path

from torch_mlir import ir
from torch_mlir.dialects import arith, func, scf, tensor
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import constant
from llmc.pipelines.iree import compile_module
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.runtime import abi

RUN = "run"
# The name that IREE gives to a module without one, and imports from it carry.
_MODEL = "module"


def compile_driver(function: str, tokens: int, vocabulary: int, output: Path) -> None:
    """Writes a module with `run(tokens: 1xTxi64, start: 1xi64, past: i64, count: i64) -> 1x1xi64`.

    It allocates a cache for one sequence and calls the model's `function` (abi.py), `prefill`,
    `decode` or one step of `greedy`, so often, always in columns `past` on. Raises IREEError.
    """
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            _define(function, tokens, vocabulary)
        compile_module(module, CPUTarget(), output)


def _define(function: str, tokens: int, vocabulary: int) -> None:
    i64, f32 = T.i64(), T.f32()
    given = ir.RankedTensorType.get([1, tokens], i64)
    dynamic = ir.ShapedType.get_dynamic_size()
    taken = ir.RankedTensorType.get([1, dynamic], i64) if function == abi.PREFILL else given
    start = ir.RankedTensorType.get([1], i64)
    logits = ir.RankedTensorType.get([1, vocabulary], f32)
    token = ir.RankedTensorType.get([1, 1], i64)
    reset = func.FuncOp(f"{_MODEL}.{abi.RESET}", ([i64, i64], []), visibility="private")
    step_type = [taken, start, i64, i64], [logits, token]
    if function == abi.GREEDY:
        found = ir.RankedTensorType.get([dynamic, 1], i64)
        step_type = [taken, start, i64, i64, i64], [found, token]
    step = func.FuncOp(f"{_MODEL}.{function}", step_type, visibility="private")
    run = func.FuncOp(RUN, ([given, start, i64, i64], [token]))
    with ir.InsertionPoint(run.add_entry_block()):
        ids, starts, past, count = run.arguments
        zero, one = constant(0, i64), constant(1, i64)
        capacity = arith.addi(past, constant(tokens, i64))
        func.CallOp(reset, [one, capacity])
        if taken != given:
            ids = tensor.cast(taken, ids)
        loop = scf.ForOp(zero, count, one, [tensor.empty([1, 1], i64)])
        with ir.InsertionPoint(loop.body):
            steps = [one] if function == abi.GREEDY else []
            scf.YieldOp([func.CallOp(step, [ids, starts, zero, past, *steps]).results[1]])
        func.ReturnOp(loop.results)
