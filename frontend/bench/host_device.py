"""This machine as a device that several ranks share."""

from llmc.dialects.blocks import FORMATS
from llmc.frontend.bench.host_links import measure_links
from llmc.frontend.bench.machine import BEYOND_CACHES, Bounds, Machine
from llmc.pipelines.sharding.search.device import Device, Host
from llmc.runtime.devices import usable_cpus, usable_memory
from llmc.runtime.errors import UserError


def measure_host(ranks: int, read_bytes: int | None = None) -> Device:
    """What this machine has: memory, how fast its CPUs read and compute, and what joins `ranks`.

    `read_bytes` are those that a step reads, of which caches may hold some or all; by default more
    than they hold. UserError where no ranks can be started, or the memory is unknown.
    """
    memory = usable_memory()
    if memory is None:
        raise UserError("how much memory there is cannot be found out: write a file for --device")
    cpus, bytes_ = usable_cpus(), min(read_bytes or BEYOND_CACHES, BEYOND_CACHES)
    one, all_ = (Machine(bytes_, threads).bounds() for threads in (1, cpus))
    links, host = measure_links(max(ranks, 2)), Host(cpus, all_.read_bytes_per_s)
    return Device(memory, one.read_bytes_per_s, _rates(one), links, host)


def _rates(bounds: Bounds) -> dict[str, float]:
    """The operations a second with weights of each type."""
    rates = dict.fromkeys(("f32", "f16", "bf16"), bounds.float_ops_per_s)
    if bounds.pair_ops_per_s:
        rates["bf16"] = bounds.pair_ops_per_s
    if bounds.byte_ops_per_s:
        rates |= dict.fromkeys(FORMATS, bounds.byte_ops_per_s)
    return rates
