"""The trial of a kernel that multiplies weights: layer after layer."""

from functools import partial
from itertools import product

import iree.runtime as rt
from torch_mlir import ir
from torch_mlir.dialects import arith, func
from torch_mlir.extras import types as T

from llmc.dialects import BitcastOp
from llmc.dialects.index_notation import index
from llmc.pipelines.passes.dispatch_kernels import DispatchKernels
from llmc.pipelines.passes.schedule_kernels import run_alone
from llmc.pipelines.schedules.schedule import PythonSchedule
from llmc.pipelines.tuning.operands import operand_sets
from llmc.pipelines.tuning.subject import Subject
from llmc.pipelines.tuning.trial import RUN, Trial, depend

_LAYERS_AT_ONCE = 8


def layer_trial(subject: Subject, device: rt.HalDevice) -> Trial:
    """Of `run(tensors..., first: i64)`, which dispatches the kernel for a few layers.

    The tensors are those of `Subject.tensors`, `first` is the first layer.
    """
    dispatches = min(subject.layers, _LAYERS_AT_ONCE)
    firsts = range(0, subject.layers - dispatches + 1, dispatches)
    runs = [(*tensors, first) for tensors, first in product(operand_sets(subject, device), firsts)]
    return Trial(partial(_module, subject, dispatches), dispatches, runs)


def _module(subject: Subject, dispatches: int, schedule: PythonSchedule) -> ir.Module:
    module = ir.Module.create()
    module.context.allow_unregistered_dialects = True
    with ir.InsertionPoint(module.body), ir.Location.unknown():
        kernel = subject.kernel.operation.clone()
        types = [type_ for _, type_ in subject.tensors()]
        inputs = [*types, T.i64()]
        run = func.FuncOp(RUN, (inputs, [kernel.type.results[0]]))
        with ir.InsertionPoint(run.add_entry_block()):
            func.ReturnOp([_chain(subject, dispatches, list(run.arguments))])
    run_alone(schedule, kernel)
    DispatchKernels().apply(module)
    module.operation.verify()
    return module


def _chain(subject: Subject, dispatches: int, arguments: list[ir.Value]) -> ir.Value:
    """The result of the last of the dispatches."""
    *tensors, first = arguments
    numbers = [number for number, _ in subject.tensors()]
    known = dict(zip(numbers, tensors, strict=True))
    first = arith.index_cast(T.index(), first)
    for step in range(dispatches):
        layer = arith.addi(first, index(step))
        operands = []
        for number, type_ in enumerate(subject.kernel.type.inputs):
            if type_ == layer.type:
                operands.append(layer)
                continue
            value = known[subject.same[number]]
            operands.append(value if value.type == type_ else BitcastOp(value, type_).out)
        results = func.CallOp(list(subject.kernel.type.results), subject.name, operands).results
        depend(known, results[0])
    return results[0]
