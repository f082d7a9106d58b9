"""What GPUs have in common as targets, whichever driver runs them."""

import re
from abc import ABC
from functools import cached_property
from typing import ClassVar, Literal

from torch_mlir import ir

from llmc.pipelines.targets.described import described
from llmc.pipelines.targets.gpu_facts import GPUFacts
from llmc.pipelines.targets.target import Target

_DEVICES = "hal.device.targets"


class GPUTarget(Target, ABC):
    """A GPU, which IREE knows by an attribute: `#iree_gpu.target` is its data sheet."""

    kind: ClassVar[Literal["vulkan", "cuda"]]

    executable: str
    """The attribute `#hal.executable.target` of the device, as MLIR's text."""

    @property
    def arch(self) -> str:
        """IREE's name of the architecture."""
        return _found(r'\barch = "(\w+)"', self.executable)

    def mark(self, module: ir.Module) -> None:
        """Says which device the module is for."""
        with module.context as context:
            context.allow_unregistered_dialects = True
            device = f'#hal.device.target<"{self.kind}", [{self.executable}]> : !hal.device'
            module.operation.attributes[_DEVICES] = ir.ArrayAttr.get([ir.Attribute.parse(device)])

    @cached_property
    def gpu(self) -> GPUFacts:
        """What schedules need to know."""
        return read_facts(self.executable)


def read_facts(executable: str) -> GPUFacts:
    """The facts in the text of a `#hal.executable.target`."""
    compute, storage = (abilities(executable, key) for key in ("compute", "storage"))
    return GPUFacts(
        subgroup_size=int(_found(r"\bsubgroup_size_choices = \[(\d+)", executable) or 1),
        workgroup_threads=int(_found(r"\bmax_thread_count_per_workgroup = (\d+)", executable) or 0),
        shared_memory_bytes=int(_found(r"\bmax_workgroup_memory_bytes = (\d+)", executable) or 0),
        f16="fp16" in compute,
        i8="int8" in compute,
        storage_8bit="b8" in storage,
        storage_16bit="b16" in storage,
        tensor_cores="mma = [" in executable,
    )


def executable_of(flags: list[str]) -> str | None:
    """The attribute that IREE makes of `flags`; None where it does not know the device."""
    text = described(*flags)
    found = re.search(r"#hal\.executable\.target<.*?iree_codegen\.target_info.*>>\}>", text or "")
    return found[0] if found else None


def abilities(executable: str, key: str) -> set[str]:
    """What a `#hal.executable.target` lists under `key`, as `storage = b32|b16`."""
    return set(_found(rf"\b{key} = ([\w|]+)", executable).split("|"))


def _found(pattern: str, text: str) -> str:
    """The group of the first match; empty where there is none."""
    found = re.search(pattern, text)
    return found[1] if found else ""
