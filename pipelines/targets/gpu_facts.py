"""What GPU schedules and lowerings need to know of a device."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GPUFacts:
    """A GPU's limits and abilities; sizes in threads and bytes."""

    subgroup_size: int
    workgroup_threads: int
    shared_memory_bytes: int
    f16: bool
    i8: bool
    storage_8bit: bool
    storage_16bit: bool
    tensor_cores: bool

    @property
    def halves(self) -> bool:
        """Whether it reads and computes with floats of 16 bits."""
        return self.f16 and self.storage_16bit
