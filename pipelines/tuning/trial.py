"""A module that runs one kernel, with one schedule, many times in a row."""

from torch_mlir import ir
from torch_mlir.dialects import arith, func

from llmc.dialects import BitcastOp
from llmc.dialects.index_notation import index, insert, slice_of
from llmc.pipelines.passes.dispatch_kernels import DispatchKernels
from llmc.pipelines.passes.schedule_kernels import run_alone
from llmc.pipelines.schedules.schedule import PythonSchedule
from llmc.pipelines.tuning.subject import Subject

RUN = "run"

_LAYERS_AT_ONCE = 8


def layers_at_once(subject: Subject) -> int:
    """How many dispatches a call of `run` makes, each for a layer of its own."""
    return min(subject.layers, _LAYERS_AT_ONCE)


def trial(subject: Subject, schedule: PythonSchedule) -> ir.Module:
    """A module with `run(tensors..., first: i64)`, which dispatches the kernel for a few layers.

    The tensors are those of `Subject.tensors`, `first` is the first layer. One dispatch waits for
    the other, as in a model: a few numbers of its result are put into what the next one reads.
    MLIRError or PassError where the schedule cannot be had for the kernel.
    """
    module = ir.Module.create()
    module.context.allow_unregistered_dialects = True
    with ir.InsertionPoint(module.body), ir.Location.unknown():
        kernel = subject.kernel.operation.clone()
        types = [type_ for _, type_ in subject.tensors()]
        inputs = [*types, ir.IntegerType.get_signless(64)]
        run = func.FuncOp(RUN, (inputs, [kernel.type.results[0]]))
        with ir.InsertionPoint(run.add_entry_block()):
            func.ReturnOp([_chain(subject, list(run.arguments))])
    run_alone(schedule, kernel)
    DispatchKernels().apply(module)
    module.operation.verify()
    return module


def _chain(subject: Subject, arguments: list[ir.Value]) -> ir.Value:
    """The result of the last of the dispatches."""
    *tensors, first = arguments
    numbers = [number for number, _ in subject.tensors()]
    known = dict(zip(numbers, tensors, strict=True))
    first = arith.index_cast(ir.IndexType.get(), first)
    for step in range(layers_at_once(subject)):
        layer = arith.addi(first, index(step))
        operands = []
        for number, type_ in enumerate(subject.kernel.type.inputs):
            if type_ == layer.type:
                operands.append(layer)
                continue
            value = known[subject.same[number]]
            operands.append(value if value.type == type_ else BitcastOp(value, type_).out)
        results = func.CallOp(list(subject.kernel.type.results), subject.name, operands).results
        _depend(known, results[0])
    return results[0]


def _depend(known: dict[int, ir.Value], result: ir.Value) -> None:
    """Puts the first numbers of `result` into the first tensor that has such numbers."""
    for number, value in known.items():
        if value.type.element_type == result.type.element_type:
            count = min(value.type.shape[-1], result.type.shape[-1])
            some = slice_of(result, *_first(result, count), [count])
            known[number] = insert(some, value, *_first(value, count))
            return


def _first(value: ir.Value, count: int) -> tuple[list[int], list[int]]:
    rank = value.type.rank
    return [0] * rank, [*[1] * (rank - 1), count]
