"""Builds kernels from index notation, schedules them, and runs the result through IREE."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import iree.runtime
import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import func, tensor

from llmc import dialects
from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.marks import KIND
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import functions
from llmc.pipelines.schedules.interpreter import apply_script
from llmc.pipelines.schedules.registry import parse_schedule
from llmc.pipelines.schedules.schedule import Schedule
from llmc.pipelines.walks import find
from tests.cpu_code import compile_for_cpu

_ELEMENTS = {"float32": "f32", "float16": "f16", "int8": "i8"}


@dataclass(frozen=True)
class KernelCase:
    """A function `@kernel` of the kind `kind`: what `build` makes of arguments like `arguments`.

    `dynamic` is a dimension of the first argument, and of the result, that is dynamic. `passes` run
    before a schedule.
    """

    kind: str
    build: Callable[..., ir.Value]
    arguments: Sequence[np.ndarray]
    dynamic: int | None = None
    passes: Sequence[Pass] = ()

    def module(self) -> ir.Module:
        """In the current context."""
        module = ir.Module.create()
        types = [self._type(number) for number in range(len(self.arguments))]
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("kernel", (types, []))
            function.attributes[KIND] = ir.StringAttr.get(self.kind)
        with ir.InsertionPoint(function.add_entry_block()):
            result = self.build(*function.arguments)
            func.ReturnOp([result])
        type_ = ir.FunctionType.get(types, [result.type])
        function.attributes["function_type"] = ir.TypeAttr.get(type_)
        for pass_ in self.passes:
            pass_.apply(module)
        module.operation.verify()
        return module

    def run(self, *schedules: str | Schedule) -> np.ndarray:
        """The result, after schedules of ours by name, or others."""
        context = new_context()
        with context, ir.Location.unknown():
            module = self.module()
            for schedule in schedules:
                if isinstance(schedule, str):
                    schedule = parse_schedule(schedule)
                apply_script(schedule.script(), module)
                module.operation.verify()
            into_dispatches(module, self.dynamic)
            (result,) = call(module, "kernel", self.arguments)
            return result

    def _type(self, number: int) -> ir.Type:
        return type_of(self.arguments[number], self.dynamic if number == 0 else None)


def type_of(array: np.ndarray, dynamic: int | None = None) -> ir.RankedTensorType:
    """That of tensors like `array`, the dimension `dynamic` of any extent."""
    shape = list(array.shape)
    if dynamic is not None:
        shape[dynamic] = ir.ShapedType.get_dynamic_size()
    return ir.RankedTensorType.get(shape, ir.Type.parse(_ELEMENTS[array.dtype.name]))


def into_dispatches(module: ir.Module, dynamic: int | None = None) -> None:
    """Lets IREE compile the body of each kernel as it is, as one dispatch.

    `dynamic` is a dimension of the first argument, and of the result, that is dynamic.
    """
    for op in find(module.operation, "ub.poison"):
        # IREE would compute it outside, where it cannot.
        with ir.InsertionPoint(op):
            op.results[0].replace_all_uses_with(_zero(op.results[0].type))
        op.erase()
    for function in functions(module):
        if KIND in function.attributes:
            _into_dispatch(function, dynamic)


def call(module: ir.Module, name: str, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a function of `module`, compiled by IREE."""
    return load(module)(name, arguments)


def load(module: ir.Module) -> Callable[[str, Sequence[np.ndarray]], list[np.ndarray]]:
    """Compiles `module` by IREE; gives what calls a function of it and returns the results."""
    code = compile_for_cpu(module)
    system = iree.runtime.SystemContext(config=iree.runtime.Config("local-sync"))
    system.add_vm_module(iree.runtime.VmModule.copy_buffer(system.instance, code))

    def run(name: str, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        results = system.modules.module[name](*arguments)
        listed = results if isinstance(results, tuple | list) else [results]
        # A copy: the device takes the memory back with the result.
        return [each.to_host().copy() for each in listed]

    return run


def _into_dispatch(function: func.FuncOp, dynamic: int | None) -> None:
    body = list(function.entry_block)
    end = body.pop()
    with ir.InsertionPoint(end):
        extents = []
        if dynamic is not None:
            extents = [tensor.DimOp(function.arguments[0], index(dynamic)).result]
        region = ir.Operation.create(
            "flow.dispatch.region",
            results=[value.type for value in end.operands],
            operands=extents,
            attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(extents), 0])},
            regions=2,  # the second, empty, is for a count of workgroups
        )
    block = region.regions[0].blocks.append()
    for op in body:
        block.append(op)
    with ir.InsertionPoint(block):
        ir.Operation.create("flow.return", operands=list(end.operands))
    for number, result in enumerate(region.results):
        end.operands[number] = result


def new_context() -> ir.Context:
    """A context that knows llmc's dialects, and lets pass those of IREE."""
    context = ir.Context()
    context.allow_unregistered_dialects = True
    dialects.load(context)
    return context


def _zero(type_: ir.Type) -> ir.Value:
    return constant(0 if isinstance(type_, ir.IntegerType | ir.IndexType) else 0.0, type_)
