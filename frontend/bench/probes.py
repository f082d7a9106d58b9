"""The kernels that measure a machine, compiled for this CPU and loaded."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import iree.runtime as rt
import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.pipelines.iree import compiled
from llmc.pipelines.kernels.kernel import Kernel, dispatch
from llmc.pipelines.kernels.pair_instructions import PLAIN
from llmc.pipelines.kernels.probes import (
    ROUNDS,
    STREAMS,
    SUMS,
    multiply_bytes,
    multiply_floats,
    multiply_pairs,
    probe_instructions,
    read,
)
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.runtime.hal_device import device_of_threads
from llmc.runtime.wakeup import without_preemption

_ELEMENTS = {"f32": np.float32, "i8": np.int8, "i16": np.int16}


@dataclass(frozen=True)
class Probes:
    """Functions `read`, `floats` and perhaps `bytes` and `pairs`: the seconds that a run took.

    A run reads `read_bytes`, or computes `operations` of f32; of bytes four times as many, of bf16
    in pairs twice.
    """

    run: dict[str, Callable[[], float]]
    read_bytes: int
    operations: int


def load_probes(read_bytes: int, threads: int) -> Probes:
    """The probes, to read so many bytes, rounded down, and to run on `threads` threads.

    One thread is the one that calls.
    """
    target = CPUTarget()
    lanes = target.columns
    groups = 8 * threads
    step_bytes = groups * SUMS * lanes * 4
    steps = max(read_bytes // step_bytes, 1)
    probes = {
        "read": _Probe(
            read(groups),
            (groups, STREAMS, steps, SUMS * lanes // STREAMS),
            "f32",
            (groups, lanes),
        ),
        "floats": _Probe(multiply_floats(groups), (2, lanes), "f32", (groups, lanes)),
    }
    if instructions := probe_instructions(target.facts.features):
        probes["bytes"] = _Probe(
            multiply_bytes(groups, instructions), (2, 4 * lanes), "i8", (groups, lanes)
        )
    if target.pair_instruction != PLAIN:
        probes["pairs"] = _Probe(
            multiply_pairs(groups, target.pair_instruction), (2, 2 * lanes), "i16", (groups, lanes)
        )
    operations = 2 * groups * ROUNDS * SUMS * lanes
    return Probes(_load(probes, target, threads), steps * step_bytes, operations)


@dataclass(frozen=True)
class _Probe:
    kernel: Kernel
    operand: tuple[int, ...]
    element: str
    result: tuple[int, ...]

    @property
    def sums(self) -> str:
        """The type of the result."""
        return "i32" if self.element == "i8" else "f32"


def _load(
    probes: dict[str, _Probe], target: CPUTarget, threads: int
) -> dict[str, Callable[[], float]]:
    """Functions that run the probes and return the seconds they took."""
    device = device_of_threads(threads)
    config = rt.Config(device=device)
    binary, _ = compiled(_module(probes), target)
    code = rt.VmModule.copy_buffer(config.vm_instance, binary)
    hal = rt.create_hal_module(config.vm_instance, device)
    context = rt.VmContext(config.vm_instance, modules=[hal, code])

    def timed(name: str, probe: _Probe) -> Callable[[], float]:
        function = rt.FunctionInvoker(context, device, code.lookup_function(name))
        values = np.ones(probe.operand, _ELEMENTS[probe.element])
        operand = rt.asdevicearray(device, values)

        def run() -> float:
            with without_preemption():
                begin = time.perf_counter()
                function(operand).to_host()
                return time.perf_counter() - begin

        return run

    return {name: timed(name, probe) for name, probe in probes.items()}


def _module(probes: dict[str, _Probe]) -> ir.Module:
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module = ir.Module.create()
        for name, probe in probes.items():
            element = ir.Type.parse(probe.element)
            operand = ir.RankedTensorType.get(probe.operand, element)
            result = ir.RankedTensorType.get(probe.result, ir.Type.parse(probe.sums))
            with ir.InsertionPoint(module.body):
                function = func.FuncOp(name, ([operand], [result]))
                block = function.add_entry_block()
            with ir.InsertionPoint(block):
                func.ReturnOp(dispatch(probe.kernel, list(block.arguments), [result]))
        return module
