"""This machine as a device among several equal ones that share it."""

import os
import statistics

from llmc.dialects.blocks import FORMATS
from llmc.frontend.bench.probes import load_probes
from llmc.pipelines.sharding.search.device import Device, Link

_READ_BYTES = 256 << 20  # more than any cache
_RUNS = 5
# Between processes of one machine, for what a step exchanges.
_LATENCY_S = 20e-6


def measure_host() -> Device:
    """What this machine has: memory, how fast it reads and computes, and sends between processes.

    A byte that is sent is written and read again, and so takes as long as reading it twice.
    """
    threads = len(os.sched_getaffinity(0))
    probes = load_probes(_READ_BYTES, threads)
    seconds = {
        name: statistics.median(probe() for _ in range(_RUNS)) for name, probe in probes.run.items()
    }
    rates = dict.fromkeys(("f32", "f16", "bf16"), probes.operations / seconds["floats"])
    if "bytes" in seconds:
        rates |= dict.fromkeys(FORMATS, 4 * probes.operations / seconds["bytes"])
    read = probes.read_bytes / seconds["read"]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Device(memory, read, rates, (Link(1, _LATENCY_S, read / 2),))


def shared(host: Device, ranks: int) -> Device:
    """What each of `ranks` ranks has that share the machine `host`."""
    (link,) = host.links
    return Device(
        host.memory_bytes // ranks,
        host.read_bytes_per_s / ranks,
        {name: rate / ranks for name, rate in host.flops_per_s.items()},
        (Link(ranks, link.latency_s, link.bytes_per_s / ranks),),
    )
