"""Which types of weights and caches a GPU can read."""

from llmc.pipelines.targets.gpu_facts import GPUFacts
from llmc.runtime.errors import UserError


def check_storage(target: str, facts: GPUFacts, storage: str, kv_dtype: str) -> None:
    """UserError where the GPU `target` cannot read weights stored as `storage`, or such a cache.

    Both are named as the options `--dtype` and `--kv-dtype` do. Where a device does not address
    numbers of 8 or 16 bits, IREE 3.13 takes each for one of 32 bits, and reads something else.
    """
    _check(target, facts, "--dtype", storage, ("f16", "bf16", "f32"))
    if kv_dtype != "auto":
        _check(target, facts, "--kv-dtype", kv_dtype, ("f16", "f32"))


def _check(
    target: str, facts: GPUFacts, option: str, wanted: str, choices: tuple[str, ...]
) -> None:
    if not _reads(facts, wanted):
        readable = " or ".join(choice for choice in choices if _reads(facts, choice))
        raise UserError(
            f"{target} cannot read what {option} {wanted} stores: give {option} {readable}"
        )


def _reads(facts: GPUFacts, storage: str) -> bool:
    if storage == "f32":
        return True
    if storage == "bf16":  # by its bits
        return facts.storage_16bit
    if storage == "f16":
        return facts.halves
    return facts.halves and facts.storage_8bit and facts.i8  # blocks
