"""From the name of a device on a command line to what it has and how it is linked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmc.pipelines.sharding.search.device import Device

HOST = "host"


def find_device(name: str, ranks: int, read_bytes: int | None = None) -> Device:
    """What the file `name` describes, or HOST: this machine, which `ranks` ranks share.

    The machine is measured while it reads `read_bytes`, by default more than caches hold. UserError
    where the file describes no device.
    """
    # Here, for the other commands need not the compiler.
    from llmc.frontend.bench.host_device import measure_host
    from llmc.pipelines.sharding.search.device import read_device

    return measure_host(ranks, read_bytes) if name == HOST else read_device(Path(name))
