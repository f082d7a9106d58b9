"""From the name of a device on a command line to what it has and how it is linked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmc.pipelines.sharding.search.device import Device

HOST = "host"


def find_device(name: str, ranks: int) -> Device:
    """What the file `name` describes, or HOST: what each of `ranks` has that share this machine.

    UserError where the file describes no device.
    """
    # Here, for the other commands need not the compiler.
    from llmc.frontend.bench.host_device import measure_host, shared
    from llmc.pipelines.sharding.search.device import read_device

    return shared(measure_host(), max(ranks, 1)) if name == HOST else read_device(Path(name))
