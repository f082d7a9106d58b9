"""Which module of a bundle runs here, and on which device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from llmc.runtime.devices import host_arch, missing_features, usable_memory
from llmc.runtime.errors import UserError
from llmc.runtime.gpus import DRIVERS, GPU, Driver, find_gpus
from llmc.runtime.manifest import Manifest, ModuleFacts, TargetFacts

KINDS = ("cpu", *DRIVERS)


@dataclass(frozen=True)
class Place:
    """A device of this machine: a GPU, or with None the CPU."""

    gpu: GPU | None

    @property
    def kind(self) -> str:
        """How `--device` calls this kind of device."""
        return "cpu" if self.gpu is None else self.gpu.driver

    @property
    def memory_bytes(self) -> int | None:
        """What the device has, or the process may use of it."""
        return usable_memory() if self.gpu is None else self.gpu.memory_bytes

    def refuses(self, target: TargetFacts) -> str:
        """Why code for `target`, of this kind of device, cannot run here; empty where it can."""
        if self.gpu is None:
            return cpu_refuses(target)
        if self.gpu.driver == "cuda":
            return _cuda_refuses(self.gpu, target)
        missing = sorted(set(target.features) - self.gpu.features)
        return f"{self.gpu.name} lacks {', '.join(missing)}" if missing else ""


@dataclass(frozen=True)
class Placement:
    """A module of a bundle and the device that it is to run on."""

    code: ModuleFacts
    place: Place


def place_module(manifest: Manifest, folder: Path, wanted: str | None, rank: int = 0) -> Placement:
    """The module of the bundle in `folder` that suits the device `wanted`, as `cuda` or `vulkan:1`.

    It is one of `rank`. Without a device, the first of these that the machine and the bundle have:
    a CUDA device, a Vulkan device, the CPU, a CPU that executes shaders. UserError where nothing
    fits.
    """
    modules = [code for code in manifest.modules if code.rank == rank]
    kinds = {code.target.device for code in modules}
    places = list(_automatic(kinds)) if wanted is None else [named_place(wanted)]
    refusals: list[str] = []
    for place in places:
        codes = [code for code in modules if code.target.device == place.kind]
        fitting = [code for code in codes if not place.refuses(code.target)]
        if fitting:
            return Placement(max(fitting, key=lambda code: _specialisation(code.target)), place)
        refusals += [
            f"compiled for {_called(code.target)}, {place.refuses(code.target)}" for code in codes
        ]
    if refusals:
        raise UserError(f"{folder} was {'; '.join(refusals)}: recompile it with --target")
    has = " and ".join(sorted(kinds))
    asked = places[0].kind if wanted else "any device that is here"
    raise UserError(f"{folder} has code for {has}, none for {asked}: recompile it with --target")


def _automatic(kinds: set[str]) -> Iterator[Place]:
    """The CPU, and GPUs of `kinds`: other drivers stay closed, of which Mesa's takes 60 MB."""
    gpus = [Place(gpu) for driver in DRIVERS if driver in kinds for gpu in find_gpus(driver)]
    yield from (place for place in gpus if place.gpu and not place.gpu.is_cpu)
    yield Place(None)
    yield from (place for place in gpus if place.gpu and place.gpu.is_cpu)


def named_place(text: str) -> Place:
    """The device `text`, as `cuda` or `vulkan:1`. UserError where it is not here."""
    kind, _, number = text.partition(":")
    if kind not in KINDS or (number and (kind == "cpu" or not number.isdecimal())):
        raise UserError(
            f"there is no device {text!r}: give {', '.join(KINDS)}, or one of several as vulkan:1"
        )
    if kind == "cpu":
        return Place(None)
    gpus = find_gpus(cast(Driver, kind))
    if not gpus:
        raise UserError(f"no {_NAMES[kind]} device is here: {_REMEDIES[kind]}")
    if int(number or 0) >= len(gpus):
        raise UserError(f"there is no device {text!r}: llmc devices lists {len(gpus)} of that kind")
    return Place(gpus[int(number or 0)])


_NAMES = {"vulkan": "Vulkan", "cuda": "CUDA"}
_REMEDIES = {
    "vulkan": "install libvulkan1 and a driver, as Debian's mesa-vulkan-drivers",
    "cuda": "install NVIDIA's driver, with libcuda.so.1, or check it with nvidia-smi",
}


def _called(target: TargetFacts) -> str:
    """The name of a target, with its architecture where that is not this machine's."""
    is_foreign = target.device == "cpu" and target.arch != host_arch()
    return f"{target.arch} {target.name}" if is_foreign else target.name


def cpu_refuses(target: TargetFacts) -> str:
    """Why code for `target`, a CPU, cannot run here; empty where it can."""
    if target.arch != host_arch():
        return f"this machine is {host_arch()}"
    missing = missing_features(target.features)
    return f"this CPU lacks {', '.join(missing)}" if missing else ""


def _cuda_refuses(gpu: GPU, target: TargetFacts) -> str:
    """PTX runs on the compute capability that it was made for, and on all later ones."""
    needed, has = compute_capability(target.arch), gpu.compute_capability
    if has is None or has >= needed:
        return ""
    return f"{gpu.name} has compute capability {has[0]}.{has[1]}"


def compute_capability(arch: str) -> tuple[int, int]:
    """(8, 9) of `sm_89`; (0, 0) of what is no such name."""
    digits = arch.removeprefix("sm_")
    return (int(digits[:-1]), int(digits[-1])) if digits.isdecimal() and len(digits) > 1 else (0, 0)


def _specialisation(target: TargetFacts) -> tuple[tuple[int, int], int]:
    """Of several modules that a device can run, the one with the greatest expects most of it."""
    return compute_capability(target.arch), len(target.features)
