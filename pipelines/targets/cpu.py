"""CPUs as targets: what IREE and our passes need to know of them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from llmc.pipelines.targets.described import described
from llmc.pipelines.targets.target import Target
from llmc.runtime.abi import MOST_STACK_BYTES
from llmc.runtime.devices import host_arch, missing_features, usable_cpus
from llmc.runtime.errors import UserError
from llmc.runtime.manifest import CPU_ARCHS, TargetFacts

_T = TypeVar("_T")

CACHE_LINE = 64
"""Bytes of a line of the cache, which is what memory gives at once."""

STREAM_AHEAD = 5 * 1024
"""How many bytes ahead of what it reads, as one stream, a core asks memory.

It waits 100 to 150 ns for what it asked for, in which it could read about as many.
"""

# Innermost loops begin with a line of the cache, 2^6 bytes: where they happen to begin else made
# the same code 2 to 4% slower.
_LOOP_ALIGNMENT = "--x86-experimental-pref-innermost-loop-alignment=6"

# IREE keeps rows on the stack whose mean and variance it takes, whatever their length: it refuses
# more than 32 KiB where it is not told that there is more.
_STACK = f"--iree-llvmcpu-stack-allocation-limit={MOST_STACK_BYTES}"

_CORES = 4
"""Of a CPU of which no more is known than its name."""


@dataclass(frozen=True)
class ByteInstruction:
    """The instruction that multiplies bytes, and how many sums of 32 bits it has.

    `signed` says whether it multiplies signed bytes by signed ones as well as unsigned ones.
    """

    name: str
    lanes: int
    signed: bool


BYTE_INSTRUCTIONS = {
    "amx-int8": ByteInstruction("tdpbsud", 16, signed=False),
    "avx512vnni": ByteInstruction("vpdpbusd", 16, signed=False),
    "avxvnni": ByteInstruction("vpdpbusd", 8, signed=False),
    "avx2": ByteInstruction("vpmaddubsw", 8, signed=True),
    "i8mm": ByteInstruction("smmla", 4, signed=True),
    "dotprod": ByteInstruction("sdot", 4, signed=True),
}
"""By LLVM's name of the CPU's feature, the fastest first."""

_PAIR_INSTRUCTIONS = {"avx512bf16": "vdpbf16ps", "bf16": "bfdot"}
"""The instruction that multiplies bf16, by LLVM's name of the CPU's feature."""

_PRESETS = {
    "zen2": ("x86_64", "znver2", ()),
    "zen3": ("x86_64", "znver3", ()),
    "zen4": ("x86_64", "znver4", ()),
    "zen5": ("x86_64", "znver5", ()),
    "armv8.2": ("aarch64", "generic", ("v8.2a", "dotprod", "fullfp16")),
    "armv8.6": ("aarch64", "generic", ("v8.6a", "dotprod", "fullfp16", "i8mm", "bf16")),
}
"""Names that LLVM does not know: instruction set, LLVM's name of the CPU, features beside its."""

_RESERVED = "reserve-x18"
"""What IREE adds to all Arm CPUs."""

_IN_CODE = {
    "x86_64": re.compile(
        "64bit|x87|mmx|cmov|cx8|cx16|sahf|movbe|popcnt|lzcnt|bmi2?|tbm|adx|crc32|cmpccxadd|prfchw"
        "|sse.*|ssse3|avx(?!512vp2intersect).*|fma4?|f16c|xop|gfni|amx-tile|amx-int8"
        "|egpr|ndd|nf|ccmp|ppx|push2pop2|zu"
    ),
    "aarch64": re.compile(
        "neon|dotprod|fullfp16|fp16fml|i8mm|bf16|sve2?|lse|rcpc|rdm|complxnum|crc"
    ),
}
"""LLVM's features that code may be made with.

Instructions of others are for kernels of an OS, or in code that asks for them by name, which none
of ours does. Linux has no names for many, and virtual machines hide them.
"""


@dataclass(frozen=True)
class CPUTarget(Target):
    """A CPU by LLVM's name for it; `host` is this machine's.

    `arch` is x86_64 or aarch64, `extra` LLVM's features beside those of the name.
    """

    kind = "cpu"

    cpu: str = "host"
    arch: str = field(default_factory=host_arch)
    extra: tuple[str, ...] = ()

    @classmethod
    def parse(cls, name: str) -> "CPUTarget":
        """This machine's CPU, where `name` is empty, or one that LLVM knows, or a preset.

        A name of both instruction sets is that of this machine's. UserError for another name.
        """
        if name in _PRESETS:
            arch, cpu, extra = _PRESETS[name]
            return cls(cpu, arch, extra)
        archs = sorted(CPU_ARCHS, key=lambda arch: arch != host_arch())
        known = (cls(name or "host", arch) for arch in archs if name or arch == host_arch())
        target = next((target for target in known if target._described is not None), None)
        if target is None:
            raise UserError(f"LLVM knows no CPU {name!r}: try cpu:x86-64-v3 or cpu:armv8.2")
        return target

    @property
    def flags(self) -> list[str]:
        """What iree-compile needs to be told."""
        features = ",".join(f"+{name}" for name in self.extra)
        return [
            "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=llvm-cpu",
            f"--iree-llvmcpu-target-cpu={self.cpu}",
            *(
                ()
                if self.arch == host_arch()
                else (f"--iree-llvmcpu-target-triple={self._triple}",)
            ),
            *((f"--iree-llvmcpu-target-cpu-features={features}",) if features else ()),
            *((_LOOP_ALIGNMENT,) if self.arch == "x86_64" else ()),
            _STACK,
        ]

    @property
    def facts(self) -> TargetFacts:
        """What the manifest says, so that no other CPU runs the code."""
        name, features = self._described or (self.cpu, ())
        features = tuple(name for name in features if _IN_CODE[self.arch].fullmatch(name))
        if self.cpu == "host":
            # LLVM goes by what the CPU says of itself, of which the OS may not let us use all.
            missing = missing_features(features)
            features = tuple(name for name in features if name not in missing)
        return TargetFacts(device="cpu", arch=self.arch, name=name, features=features)

    @property
    def columns(self) -> int:
        """Outputs of a linear layer that one vector register holds as float32."""
        features = self.facts.features
        if "avx512f" in features:
            return 16
        return 8 if self.arch == "x86_64" else 4

    @property
    def registers(self) -> int:
        """How many vector registers there are: 32, but for AVX2."""
        return 16 if self.columns == 8 else 32

    @property
    def reads_in_order(self) -> bool:
        """Whether a core reads one stream faster than two at once, if asked for it a little ahead.

        AMD's Zen does, measured on Zen 4 by a third; Intel's do not. Of others it is not known.
        """
        return self.facts.name.startswith("znver")

    @property
    def asks_for_first_cache(self) -> bool:
        """Whether a core that multiplies blocks wants what it asks memory for in its first cache.

        Zen 5 takes up to 7% less time so, Zen 4 1.3 times as long as with the second cache.
        """
        return self.facts.name == "znver5"

    @property
    def cores(self) -> int:
        """Cores that work together: those this process may use, where the CPU is this one."""
        return usable_cpus() if self.cpu == "host" else _CORES

    @property
    def byte_instruction(self) -> ByteInstruction:
        """The instruction for products of bytes."""
        return self._best(BYTE_INSTRUCTIONS, ByteInstruction("plain", 4, signed=True))

    @property
    def pair_instruction(self) -> str:
        """The instruction for products of bf16; `plain` where there is none."""
        return self._best(_PAIR_INSTRUCTIONS, "plain")

    @property
    def rows(self) -> int:
        """Rows of activations whose sums stay in registers together."""
        return 16 if self.columns == 16 else 8

    def _best(self, by_feature: Mapping[str, _T], otherwise: _T) -> _T:
        """What the first of these features that the CPU has stands for."""
        features = self.facts.features
        return next((each for name, each in by_feature.items() if name in features), otherwise)

    @cached_property
    def _described(self) -> tuple[str, tuple[str, ...]] | None:
        """LLVM's name and feature list for the CPU; None where it knows no such CPU."""
        text = described(*self.flags)
        if text is None:
            return None
        name = re.search(r'cpu = "([^"]*)"', text)
        listed = re.search(r'cpu_features = "([^"]*)"', text)
        if not name or not listed:
            return None
        features = {item[1:] for item in listed[1].split(",") if item.startswith("+")}
        # LLVM takes any name for an Arm CPU, and then knows of no features.
        return (name[1], tuple(sorted(features))) if features - {_RESERVED} else None

    @property
    def _triple(self) -> str:
        return f"{self.arch}-unknown-linux-gnu"
