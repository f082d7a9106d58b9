"""What this machine has that llmc can run on."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Literal

from llmc.runtime.gpus import DRIVERS, GPU, find_gpus

# LLVM's names of CPU features that differ from Linux's by more than punctuation.
_LINUX_NAMES = {
    "x86_64": {
        "64bit": "lm",
        "avx10.1": "avx512_fp16",  # the same instructions: those of Sapphire Rapids
        "bmi": "bmi1",
        "crc32": "sse4_2",
        "lzcnt": "abm",
        "pclmul": "pclmulqdq",
        "prfchw": "3dnowprefetch",
        "rdrnd": "rdrand",
        "sahf": "lahf_lm",
        "sha": "sha_ni",
        "shstk": "user_shstk",
        "sse3": "pni",
        "x87": "fpu",
    },
    "aarch64": {
        "complxnum": "fcma",
        "crc": "crc32",
        "dotprod": "asimddp",
        "fp-armv8": "fp",
        "fp16fml": "asimdfhm",
        "fullfp16": "asimdhp",
        "jsconv": "jscvt",
        "lse": "atomics",
        "neon": "asimd",
        "rcpc": "lrcpc",
        "rdm": "asimdrdm",
    },
}


@dataclass(frozen=True)
class Device:
    """A device that a bundle can be run on; None is what cannot be found out.

    `cores` counts the logical CPUs that this process may use, `memory_bytes` is what it may use.
    """

    kind: Literal["cpu", "vulkan", "cuda"]
    name: str
    cores: int | None
    memory_bytes: int | None
    note: str


def list_devices() -> list[Device]:
    """The CPU, then the GPUs whose IREE driver, loader library and device are all present."""
    return [_cpu(), *(_gpu(gpu) for driver in DRIVERS for gpu in find_gpus(driver))]


@cache
def host_cpu_features() -> frozenset[str]:
    """Linux's names of the features that all CPUs here have and that this process may use.

    Empty where they cannot be read.
    """
    features = parse_cpu_features(_read(Path("/proc/cpuinfo")))
    if any(_needs_permission(name) for name in features) and not _may_use_tiles():
        return frozenset(name for name in features if not _needs_permission(name))
    return features


def missing_features(required: Iterable[str]) -> tuple[str, ...]:
    """Those of `required`, by their LLVM or Linux names, that this machine's CPU lacks.

    Empty where the CPU's features cannot be read (outside Linux).
    """
    return find_missing(required, host_cpu_features(), host_arch())


def find_missing(required: Iterable[str], present: frozenset[str], arch: str) -> tuple[str, ...]:
    """Those of `required`, by LLVM or Linux names, that are not in `present`, by Linux names."""
    if not present:
        return ()
    linux_names = _LINUX_NAMES.get(arch, {})
    known = {_without_punctuation(name) for name in present}
    return tuple(
        name for name in required if _without_punctuation(linux_names.get(name, name)) not in known
    )


def host_cpu_name() -> str:
    """The name of this machine's CPU, for people; its architecture where it has none."""
    name = parse_cpu_name(_read(Path("/proc/cpuinfo"))) or platform.processor()
    return name or f"{host_arch()} CPU"


def host_arch() -> str:
    """This machine's architecture as a manifest names it: `x86_64` or `aarch64`."""
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


def parse_cpu_features(cpuinfo: str) -> frozenset[str]:
    """The features that all CPUs in the text of /proc/cpuinfo share (cores may differ on Arm)."""
    lists = {value for key, value in _entries(cpuinfo) if key in ("flags", "Features")}
    return frozenset.intersection(*(frozenset(flags.split()) for flags in lists or {""}))


def usable_cpus(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Logical CPUs that this process may keep busy: affinity mask and control groups' quotas."""
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:
        allowed = os.cpu_count() or 1
    for group in _control_groups("cpu", proc, cgroups):
        limit = _read(group / "cpu.max").split() or [
            *_read(group / "cpu.cfs_quota_us").split(),
            *_read(group / "cpu.cfs_period_us").split(),
        ]
        # "max" in version 2 and -1 in version 1 are no limit; a fraction of a CPU counts as one.
        if len(limit) == 2 and limit[0].isdigit() and limit[1].isdigit() and int(limit[1]) > 0:
            allowed = min(allowed, max(1, int(limit[0]) // int(limit[1])))
    return allowed


def usable_memory(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes of memory that this process may use: the machine's, or its control groups' limits."""
    try:
        limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, ValueError, OSError):  # outside Unix, or unknown to this one
        limits = []
    for group in _control_groups("memory", proc, cgroups):
        limit = (_read(group / "memory.max") or _read(group / "memory.limit_in_bytes")).strip()
        if limit.isdigit():
            limits.append(int(limit))
    return min(limits, default=None)


def _cpu() -> Device:
    usable, present = usable_cpus(), os.cpu_count() or 1
    return Device(
        kind="cpu",
        name=host_cpu_name(),
        cores=usable,
        memory_bytes=usable_memory(),
        note=f"limited to {usable} of {present} logical CPUs" if usable < present else "",
    )


def _gpu(gpu: GPU) -> Device:
    notes = ["a CPU that executes shaders"] if gpu.is_cpu else []
    if gpu.compute_capability:
        notes.append("compute capability {}.{}".format(*gpu.compute_capability))
    return Device(
        kind=gpu.driver,
        name=gpu.name,
        cores=None,
        memory_bytes=gpu.memory_bytes,
        note=", ".join(notes),
    )


def parse_cpu_name(cpuinfo: str) -> str:
    """The CPU's name on x86; its maker's and model's numbers on Arm, which gives no name."""
    entries = dict(_entries(cpuinfo))
    if "CPU part" in entries:
        return f"Arm implementer {entries.get('CPU implementer')} part {entries['CPU part']}"
    return entries.get("model name", "")


def _entries(cpuinfo: str) -> list[tuple[str, str]]:
    pairs = (line.partition(":") for line in cpuinfo.splitlines())
    return [(key.strip(), value.strip()) for key, _, value in pairs]


def _control_groups(controller: str, proc: Path, cgroups: Path) -> list[Path]:
    """Folders of this process's control groups and all around them, versions 1 and 2.

    A container may see its group as the root, or the host's path of it, which it does not have:
    the folder may not exist. See cgroups(7).
    """
    folders = []
    for line in _read(proc / "self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mount = cgroups / controller if controllers else cgroups
        group = PurePosixPath(path)
        folders += [mount / parent.relative_to("/") for parent in (group, *group.parents)]
    return folders


def _needs_permission(feature: str) -> bool:
    return feature.startswith("amx_")


def _may_use_tiles() -> bool:
    """Asks the kernel for AMX's tile registers: arch/x86/include/uapi/asm/prctl.h."""
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    return ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data) == 0


def _without_punctuation(feature: str) -> str:
    return feature.replace(".", "").replace("_", "").replace("-", "")


def _read(path: Path) -> str:
    """Text of a file of the kernel's; empty where there is none, or not for us."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
