"""NVIDIA GPUs as targets."""

import re
from dataclasses import dataclass

from llmc.pipelines.targets.gpu import GPUTarget, executable_of
from llmc.runtime.errors import UserError
from llmc.runtime.gpus import find_gpus
from llmc.runtime.manifest import TargetFacts

_NEWEST = 89
"""The newest architecture that IREE 3.13 has a data sheet of; its PTX runs on later GPUs too."""

_OLDEST = 80
"""Where there is no GPU to ask: what its PTX runs on is in wide use."""


@dataclass(frozen=True)
class CUDATarget(GPUTarget):
    """A GPU by NVIDIA's name of its architecture, with the data sheet that IREE has of it."""

    kind = "cuda"

    name: str
    executable: str

    @classmethod
    def parse(cls, name: str) -> "CUDATarget":
        """The target `sm_89`, or another name that IREE knows, as `rtx4090`.

        Empty, this machine's GPU, or where it has none sm_80. A GPU newer than IREE's newest data
        sheet is compiled for as the newest: PTX runs on later GPUs. UserError for another name.
        """
        name = name or _host()
        known = re.sub(r"sm_(\d+)", lambda arch: f"sm_{min(int(arch[1]), _NEWEST)}", name)
        executable = executable_of(_flags(known))
        if executable is None:
            raise UserError(f"IREE knows no CUDA target {name!r}: try cuda:sm_80 or cuda:rtx4090")
        return cls(name, executable)

    @property
    def flags(self) -> list[str]:
        """What iree-compile needs to be told beside the attribute that marks a module."""
        return _flags(self.arch)

    @property
    def facts(self) -> TargetFacts:
        """The oldest architecture that runs the code."""
        return TargetFacts("cuda", self.arch, self.name, ())


def _flags(name: str) -> list[str]:
    return ["--iree-hal-target-device=cuda", f"--iree-cuda-target={name}"]


def _host() -> str:
    gpus = find_gpus("cuda")
    if not gpus or gpus[0].compute_capability is None:
        return f"sm_{_OLDEST}"
    return "sm_{}{}".format(*gpus[0].compute_capability)
