"""Devices as IREE's runtime opens them, once each."""

from functools import cache

import iree.runtime as rt

from llmc.runtime.abi import MOST_STACK_BYTES
from llmc.runtime.errors import IREE_ERRORS, UserError, first_line
from llmc.runtime.gpus import GPU
from llmc.runtime.worker_cpus import worker_cpus

# For what a workgroup asks of a worker beside its stack, as none of ours does. Of its own IREE sets
# apart, for each worker, as much as the L2 cache has.
_LOCAL_BYTES = 64 * 1024
# What is on a worker's stack beside a workgroup's.
_FRAME_BYTES = 128 * 1024


@cache
def cpu_device(threads: int) -> rt.HalDevice:
    """A CPU device with so many workers; IREE reads the flags when it makes its first driver."""
    rt.flags.parse_flags(*worker_flags(threads))
    return rt.get_driver("local-task").create_default_device()


@cache
def calling_device() -> rt.HalDevice:
    """The CPU as a device without workers: the thread that calls it computes."""
    return rt.get_driver("local-sync").create_default_device()


def device_of_threads(threads: int) -> rt.HalDevice:
    """A CPU device of so many threads; one is the thread that calls, without a worker beside it."""
    return calling_device() if threads == 1 else cpu_device(threads)


@cache
def gpu_device(gpu: GPU) -> rt.HalDevice:
    """The device of a GPU. UserError where its driver refuses."""
    try:
        return rt.get_driver(gpu.driver).create_device_by_uri(f"{gpu.driver}://{gpu.path}")
    except IREE_ERRORS as error:
        reason = first_line(error)
        raise UserError(f"{gpu.driver}: {gpu.name} cannot be used: {reason}") from error


def worker_flags(threads: int) -> tuple[str, ...]:
    """IREE's flags for so many workers, and for the memory of each."""
    return (
        _topology_flag(threads),
        f"--task_worker_local_memory={_LOCAL_BYTES}",
        f"--task_worker_stack_size={MOST_STACK_BYTES + _FRAME_BYTES}",
    )


def _topology_flag(threads: int) -> str:
    """Each worker is on a CPU of its own where there are enough."""
    if cpus := worker_cpus(threads):
        return f"--task_topology_cpu_ids={','.join(map(str, cpus))}"
    return f"--task_topology_group_count={threads}"
