"""Vulkan devices as targets."""

from dataclasses import dataclass

from llmc.pipelines.targets.gpu import GPUTarget, abilities, executable_of
from llmc.runtime.errors import UserError
from llmc.runtime.gpus import GPU, find_gpus
from llmc.runtime.manifest import TargetFacts

_BASELINE = "vp_android_baseline_2022"
"""IREE's name of what every device can do."""

_FEATURES = (
    ("compute", "fp16", "shaderFloat16"),
    ("compute", "int16", "storageBuffer16BitAccess"),  # IREE's runtime tells no shaderInt16
    ("compute", "int8", "shaderInt8"),
    ("storage", "b16", "storageBuffer16BitAccess"),
    ("storage", "b8", "storageBuffer8BitAccess"),
    ("dot", "dp4xi8toi32", "shaderIntegerDotProduct"),
    ("subgroup", "shuffle", "subgroupShuffleArithmetic"),
)
"""Where IREE's data sheet says it, as what, and the Vulkan feature that it stands for."""


@dataclass(frozen=True)
class VulkanTarget(GPUTarget):
    """A Vulkan device by IREE's name of it, `host`, or `baseline`, which all devices can run."""

    kind = "vulkan"
    # Few devices compute with 64 bits.
    integers = "i32"

    name: str
    executable: str

    @classmethod
    def parse(cls, name: str) -> "VulkanTarget":
        """The target `rdna3`, or another name that IREE knows.

        Empty or `host`, this machine's first device, or where it has none `baseline`. UserError for
        another name.
        """
        gpus = find_gpus("vulkan")
        if name in ("", "host") and gpus:
            return cls("host", of_device(gpus[0]))
        name = name if name not in ("", "host") else "baseline"
        executable = executable_of(_flags(_BASELINE if name == "baseline" else name))
        if executable is None:
            raise UserError(
                f"IREE knows no Vulkan device {name!r}: try vulkan:baseline or vulkan:rdna3"
            )
        return cls(name, executable)

    @property
    def flags(self) -> list[str]:
        """What iree-compile needs to be told beside the attribute that marks a module."""
        return ["--iree-hal-target-device=vulkan", "--iree-input-demote-i64-to-i32"]

    @property
    def facts(self) -> TargetFacts:
        """The features that the code may use, by Vulkan's names."""
        features = {
            vulkan for key, iree, vulkan in _FEATURES if iree in abilities(self.executable, key)
        }
        return TargetFacts("vulkan", self.arch, self.name, tuple(sorted(features)))


def of_device(gpu: GPU) -> str:
    """The attribute of a device, of which IREE's runtime tells features, but no limits.

    Those are the least that the Vulkan specification requires of a device (table "Required
    Limits").
    """
    has = {
        key: "|".join(
            iree for where, iree, vulkan in _FEATURES if where == key and vulkan in gpu.features
        )
        for key in ("compute", "storage", "dot", "subgroup")
    }
    compute = "|".join(filter(None, ["fp32", has["compute"], "int32"]))
    storage = "|".join(filter(None, ["b32", has["storage"]]))
    subgroup = "shuffle|arithmetic" if has["subgroup"] else "none"
    dot = f"dot = {has['dot']}, " if has["dot"] else ""
    return (
        '#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb", {iree_codegen.target_info = '
        '#iree_gpu.target<arch = "host", features = "spirv:v1.3,cap:Shader", wgp = '
        f"<compute = {compute}, storage = {storage}, subgroup = {subgroup}, {dot}"
        f"subgroup_size_choices = [{gpu.subgroup_size or 1}], "
        "max_workgroup_sizes = [128, 128, 64], max_thread_count_per_workgroup = 128, "
        "max_workgroup_memory_bytes = 16384, max_workgroup_counts = [65535, 65535, 65535]>>}>"
    )


def _flags(name: str) -> list[str]:
    return ["--iree-hal-target-device=vulkan", f"--iree-vulkan-target={name}"]
