"""Times functions that ranks, each a process of this machine, call together."""

import os
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context

import iree.runtime as rt
import numpy as np

from llmc.runtime.devices import usable_cpus
from llmc.runtime.errors import UserError
from llmc.runtime.hal_device import device_of_threads
from llmc.runtime.ranks.collective_module import Collectives
from llmc.runtime.ranks.communicator import Communicator
from llmc.runtime.ranks.grid import Grid
from llmc.runtime.ranks.local import LocalCommunicator, share_memory
from llmc.runtime.ranks.waiting import TIMEOUT_S
from llmc.runtime.wakeup import without_preemption


@dataclass(frozen=True)
class Call:
    """A rank's call of `function` in the compiled module `code`, which is for ranks in `grid`."""

    grid: Grid
    code: bytes
    function: str
    arguments: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Called:
    """What a rank's call returned, its median time, and the bytes that it sent."""

    result: np.ndarray
    seconds: float
    moved: int


def call_on_ranks(calls: Sequence[Sequence[Call]], rounds: int) -> list[list[Called]]:
    """Runs the calls of each rank, by turns and so often, in step with those of the others.

    The ranks share the machine's CPUs. UserError where one dies.
    """
    ranks = len(calls)
    descriptor = share_memory(ranks)
    memory = f"/proc/{os.getpid()}/fd/{descriptor}"
    try:
        # Forked processes end at once; others would first report all of IREE's that is in use.
        with ProcessPoolExecutor(ranks, mp_context=get_context("forkserver")) as pool:
            running = [
                pool.submit(_call, rank, ranks, memory, each, rounds)
                for rank, each in enumerate(calls)
            ]
            return [each.result() for each in running]
    except BrokenProcessPool as error:
        raise UserError("a rank ended before it had a result: give it more memory") from error
    finally:
        os.close(descriptor)


def _call(rank: int, ranks: int, memory: str, calls: Sequence[Call], rounds: int) -> list[Called]:
    """Runs the calls of one rank."""
    parent, descriptor = os.getppid(), os.open(memory, os.O_RDWR)

    def check() -> None:
        if os.getppid() != parent:
            raise UserError("the command is gone")

    communicator = LocalCommunicator(
        rank, ranks, descriptor, TIMEOUT_S, check=check, end=lambda: None
    )
    threads = max(usable_cpus() // ranks, 1)
    with communicator.cpus.kept():
        # As ranks of a bundle do: a worker beside the one thread would take its CPU away.
        device = device_of_threads(threads)
        functions = [_load(call, communicator, device) for call in calls]
        arrays = {id(each): each for call in calls for each in call.arguments}
        there = {key: rt.asdevicearray(device, each) for key, each in arrays.items()}
        operands = [[there[id(each)] for each in call.arguments] for call in calls]
        return _time(list(zip(functions, operands, strict=True)), communicator, rounds)


def _time(
    calls: Sequence[tuple[rt.FunctionInvoker, list[rt.DeviceArray]]],
    communicator: Communicator,
    rounds: int,
) -> list[Called]:
    """Runs functions with their operands by turns, when they have once run unmeasured."""
    results = [np.array(run(*operands).to_host()) for run, operands in calls]
    seconds: list[list[float]] = [[] for _ in calls]
    moved = [0] * len(calls)
    for _ in range(rounds):
        for number, (run, operands) in enumerate(calls):
            communicator.gather_messages(b"")  # all begin together
            before = communicator.moved
            with without_preemption():
                begin = time.perf_counter()
                run(*operands).to_host()
                seconds[number].append(time.perf_counter() - begin)
            moved[number] = communicator.moved - before
    return [
        Called(result, statistics.median(times), sent)
        for result, times, sent in zip(results, seconds, moved, strict=True)
    ]


def _load(call: Call, communicator: Communicator, device: rt.HalDevice) -> rt.FunctionInvoker:
    instance = rt.Config(device=device).vm_instance
    collectives = Collectives(communicator, call.grid, device).module()
    code = rt.VmModule.copy_buffer(instance, call.code)
    hal = rt.create_hal_module(instance, device)
    context = rt.VmContext(instance, modules=[hal, collectives, code])
    return rt.FunctionInvoker(context, device, code.lookup_function(call.function))
