"""The CPU as a target: what IREE and our passes need to know of it."""

import re
from dataclasses import dataclass
from functools import cached_property

import iree.compiler as iree

from llmc.runtime.devices import host_arch, missing_features, usable_cpus
from llmc.runtime.errors import UserError
from llmc.runtime.manifest import TargetFacts

_PROBE = "func.func @probe(%x: tensor<1xf32>) -> tensor<1xf32> { return %x : tensor<1xf32> }"

_CORES = 4
"""Of a CPU of which no more is known than its name."""


@dataclass(frozen=True)
class ByteProducts:
    """The instruction that multiplies bytes, and how many sums of 32 bits it has.

    `signed` says whether it multiplies signed bytes by signed ones as well as unsigned ones.
    """

    instruction: str
    lanes: int
    signed: bool


_BYTE_PRODUCTS = {
    "amx-int8": ByteProducts("tdpbsud", 16, signed=False),
    "avx512vnni": ByteProducts("vpdpbusd", 16, signed=False),
    "avxvnni": ByteProducts("vpdpbusd", 8, signed=False),
    "avx2": ByteProducts("vpmaddubsw", 8, signed=True),
    "i8mm": ByteProducts("smmla", 4, signed=True),
    "dotprod": ByteProducts("sdot", 4, signed=True),
}
"""By LLVM's name of the CPU's feature, the fastest first."""


@dataclass(frozen=True)
class CPUTarget:
    """A CPU of this machine's architecture, by LLVM's name for it; `host` is this one."""

    cpu: str = "host"

    @classmethod
    def parse(cls, text: str) -> "CPUTarget":
        """`cpu` (this machine's) or `cpu:NAME` with a name that LLVM knows, as `cpu:znver3`."""
        device, _, name = text.partition(":")
        if device != "cpu":
            raise UserError(f"there is no target {text!r}: give cpu, or cpu:NAME as in cpu:znver3")
        target = cls(name or "host")
        if target._described is None:
            raise UserError(f"LLVM knows no {host_arch()} CPU {name!r}: try cpu:x86-64-v3")
        return target

    @property
    def flags(self) -> list[str]:
        """What iree-compile needs to be told."""
        return [
            "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=llvm-cpu",
            f"--iree-llvmcpu-target-cpu={self.cpu}",
        ]

    @property
    def facts(self) -> TargetFacts:
        """What the manifest says, so that no other CPU runs the code."""
        name, features = self._described or (self.cpu, ())
        if self.cpu == "host":
            # LLVM lists some features that the kernel has no name for and no code is made with.
            features = tuple(sorted(set(features) - set(missing_features(features))))
        return TargetFacts(device="cpu", arch=host_arch(), cpu=name, features=features)

    @property
    def columns(self) -> int:
        """Outputs of a linear layer that one vector register holds as float32."""
        features = self.facts.features
        if "avx512f" in features:
            return 16
        return 8 if host_arch() == "x86_64" else 4

    @property
    def cores(self) -> int:
        """Cores that work together: those this process may use, where the CPU is this one."""
        return usable_cpus() if self.cpu == "host" else _CORES

    @property
    def byte_products(self) -> ByteProducts:
        """The instruction for products of bytes."""
        features = self.facts.features
        known = (products for name, products in _BYTE_PRODUCTS.items() if name in features)
        return next(known, ByteProducts("plain", 4, signed=True))

    @property
    def rows(self) -> int:
        """Rows of activations whose sums stay in registers together."""
        return 16 if self.columns == 16 else 8

    @cached_property
    def _described(self) -> tuple[str, tuple[str, ...]] | None:
        """LLVM's name and feature list for the CPU; None where it knows no such CPU."""
        try:
            text = iree.compile_str(_PROBE, extra_args=[*self.flags, "--compile-to=flow"]).decode()
        except iree.CompilerToolError:
            return None
        name = re.search(r'cpu = "([^"]*)"', text)
        listed = re.search(r'cpu_features = "([^"]*)"', text)
        if not name or not listed:
            return None
        features = (item[1:] for item in listed[1].split(",") if item.startswith("+"))
        return name[1], tuple(sorted(set(features)))
