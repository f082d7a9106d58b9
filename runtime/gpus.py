"""The GPUs of this machine, as IREE's drivers describe them."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import iree.runtime as rt

from llmc.runtime.errors import IREE_ERRORS

Driver = Literal["vulkan", "cuda"]

DRIVERS: tuple[Driver, ...] = ("cuda", "vulkan")


@dataclass(frozen=True)
class GPU:
    """A device that IREE has a driver for.

    `features` are Vulkan's names of what it can do, `compute_capability` is CUDA's, as (8, 9).
    `is_cpu` says that it is a CPU that executes shaders. None is what cannot be found out.
    """

    driver: Driver
    path: str
    name: str
    memory_bytes: int | None
    features: frozenset[str] = frozenset()
    subgroup_size: int | None = None
    compute_capability: tuple[int, int] | None = None
    is_cpu: bool = False


@cache
def find_gpus(driver: Driver) -> tuple[GPU, ...]:
    """The devices whose IREE driver and loader library are both present, in the driver's order."""
    if driver not in rt.query_available_drivers():
        return ()
    try:
        found = rt.get_driver(driver)
        devices = found.query_available_devices()
        dumps = [found.dump_device_info(device["device_id"]) for device in devices]
    except IREE_ERRORS:  # the driver's library is absent
        return ()
    parse = parse_vulkan if driver == "vulkan" else parse_cuda
    gpus = [
        parse(device["path"], device["name"], dump)
        for device, dump in zip(devices, dumps, strict=True)
    ]
    if driver == "cuda":
        gpus = [replace(gpu, memory_bytes=_cuda_memory(at)) for at, gpu in enumerate(gpus)]
    return tuple(gpus)


def parse_vulkan(path: str, name: str, dump: str) -> GPU:
    """What IREE's text about a Vulkan device says."""
    heaps = [int(size) for size in re.findall(r"^ *\[\d+\] size=(\d+) flags=\S*1$", dump, re.M)]
    features = re.search(r"^features:(.*)$", dump, re.M)
    pairs = (pair.partition("=") for pair in features[1].split()) if features else ()
    operations = re.search(r"^subgroup: size=(\d+) operations=(0x[0-9a-f]+)", dump, re.M)
    has = {name for name, _, answer in pairs if answer == "yes"}
    if operations and int(operations[2], 16) & _SUBGROUP_OPERATIONS == _SUBGROUP_OPERATIONS:
        has.add("subgroupShuffleArithmetic")
    return GPU(
        driver="vulkan",
        path=path,
        name=name,
        memory_bytes=max(heaps, default=None),
        features=frozenset(has),
        subgroup_size=int(operations[1]) if operations else None,
        is_cpu=re.search(r"^type: cpu$", dump, re.M) is not None,
    )


# VK_SUBGROUP_FEATURE_ARITHMETIC_BIT and VK_SUBGROUP_FEATURE_SHUFFLE_BIT.
_SUBGROUP_OPERATIONS = 0x4 | 0x10


def parse_cuda(path: str, name: str, dump: str) -> GPU:
    """What IREE's text about a CUDA device says: not how much memory it has."""
    capability = re.search(r"gpu-compute-capability: (\d+)\.(\d+)", dump)
    warp = re.search(r"gpu-warp-size: (\d+)", dump)
    return GPU(
        driver="cuda",
        path=path,
        name=name,
        memory_bytes=None,
        subgroup_size=int(warp[1]) if warp else None,
        compute_capability=(int(capability[1]), int(capability[2])) if capability else None,
    )


def _cuda_memory(number: int) -> int | None:
    """Bytes of memory of CUDA's device `number`, which IREE does not tell: the driver API does."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, size = ctypes.c_int(), ctypes.c_size_t()
    failed = (
        driver.cuInit(0)
        or driver.cuDeviceGet(ctypes.byref(device), number)
        or driver.cuDeviceTotalMem_v2(ctypes.byref(size), device)
    )
    return None if failed else size.value
