"""The targets that `--target` names."""

from llmc.pipelines.targets.cpu import CPUTarget
from llmc.pipelines.targets.cuda import CUDATarget
from llmc.pipelines.targets.gpu import GPUTarget
from llmc.pipelines.targets.vulkan import VulkanTarget
from llmc.runtime.errors import UserError

_KINDS: dict[str, type[CPUTarget] | type[CUDATarget] | type[VulkanTarget]] = {
    target.kind: target for target in (CPUTarget, VulkanTarget, CUDATarget)
}


def parse_target(text: str) -> CPUTarget | GPUTarget:
    """`cpu`, `vulkan` or `cuda`, this machine's, or one by its name, as `cuda:sm_89`."""
    kind, colon, name = text.partition(":")
    if kind not in _KINDS or (colon and not name):
        raise UserError(
            f"there is no target {text!r}: give {', '.join(_KINDS)}, or one by name as cpu:zen3, "
            "vulkan:rdna3, cuda:sm_89"
        )
    return _KINDS[kind].parse(name)


def parse_cpu(text: str) -> CPUTarget:
    """The target, where it is a CPU. UserError for another."""
    target = parse_target(text)
    if not isinstance(target, CPUTarget):
        raise UserError(f"kernels of our own are for CPUs, not for {text!r}: give --target cpu")
    return target


def parse_gpu(text: str) -> GPUTarget:
    """The target, where it is a GPU. UserError for another."""
    target = parse_target(text)
    if not isinstance(target, GPUTarget):
        raise UserError(f"{text!r} is no GPU: give --target vulkan or cuda")
    return target


def split_targets(text: str) -> tuple[str, ...]:
    """The targets in `cpu,vulkan,cuda:sm_89`. UserError for one that is empty or there twice."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not name or names.count(name) > 1:
            raise UserError(f"--target {text!r} has {name!r} twice or an empty name")
    return names
