"""The devices that a model is to be split among, and their links: a file that the user writes.

    {"memory_bytes": 16000000000, "read_bytes_per_s": 5e10, "flops_per_s": {"f32": 1e12},
     "links": [{"ranks": 8, "latency_s": 5e-06, "bytes_per_s": 1e11},
               {"ranks": 1024, "latency_s": 2e-05, "bytes_per_s": 1e10}]}

Ranks are numbered so that neighbours are near: the first level of `links` joins each 8 of them. A
link may have `operations`, of which the time was measured as a whole, and a device a `host` that it
shares with the other ranks.
"""

import json
import math
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, get_args

from llmc.runtime.errors import UserError
from llmc.runtime.fields import PositiveCount, Rule, Seconds, Text, converted, one_of
from llmc.runtime.ranks.communicator import Operation

Rate = Annotated[float, Rule(lambda r: 0 < r < float("inf"), "must be finite and above 0")]


@dataclass(frozen=True)
class Line:
    """The time of an operation in which a rank sends n bytes: latency + n / rate."""

    latency_s: Seconds
    bytes_per_s: Rate


@dataclass(frozen=True)
class Link:
    """What joins up to `ranks` neighbours: a message of n bytes takes latency + n / rate.

    Operations among all of them that are not in `operations` are made of such messages.
    """

    ranks: PositiveCount
    latency_s: Seconds
    bytes_per_s: Rate
    operations: dict[Annotated[str, one_of(*get_args(Operation))], Line] = field(
        default_factory=dict, hash=False
    )

    def seconds(self, operation: Operation, moved: int, members: int) -> float:
        """The time of an operation of so many ranks in which each sends `moved` bytes."""
        line = self.operations.get(operation)
        if line and members == self.ranks:
            return line.latency_s + moved / line.bytes_per_s
        rounds = 1 if operation in ("send", "shift") else math.ceil(math.log2(members))
        if operation == "all_reduce":
            rounds *= 2
        return rounds * self.latency_s + moved / self.bytes_per_s


@dataclass(frozen=True)
class Host:
    """What ranks on one machine share: its CPUs, and the rate at which they read together."""

    cpus: PositiveCount
    read_bytes_per_s: Rate


@dataclass(frozen=True)
class Device:
    """One of several equal devices. `flops_per_s` is by the type that weights are stored in.

    Where they share a `host`, the memory is all that it has, and rates are those of one CPU.
    """

    memory_bytes: PositiveCount
    read_bytes_per_s: Rate
    flops_per_s: dict[Text, Rate] = field(hash=False)
    links: tuple[Link, ...]
    host: Host | None = None

    def rate(self, storage: str) -> float:
        """The arithmetic with weights of `storage`, in operations a second: f32's if not given."""
        return self.flops_per_s.get(storage, self.flops_per_s["f32"])

    def link(self, span: int) -> Link:
        """What joins `span` neighbours. UserError where the file joins fewer."""
        for link in self.links:
            if link.ranks >= span:
                return link
        raise UserError(f"the device file has no link for {span} ranks: add one to 'links'")

    def share(self, ranks: int, working: int) -> "Device":
        """What each of so many ranks has while `working` of them compute at the same time.

        CPUs are shared out as in `llmc.runtime.ranks.cpus`: ranks that rest leave theirs unused.
        """
        if self.host is None:
            return self
        own = max(self.host.cpus // ranks, 1)
        busy = min(working * own, self.host.cpus)
        read = min(self.read_bytes_per_s, self.host.read_bytes_per_s / busy)
        cpus = own / math.ceil(working / self.host.cpus)
        return replace(
            self,
            memory_bytes=max(self.memory_bytes // ranks, 1),
            read_bytes_per_s=cpus * read,
            flops_per_s={name: cpus * rate for name, rate in self.flops_per_s.items()},
            host=None,
        )

    def to_json(self) -> str:
        """The text of a device file."""
        return json.dumps(asdict(self), indent=2) + "\n"


def read_device(path: Path) -> Device:
    """The device that the file `path` describes. UserError where it describes none."""
    try:
        device: Device = converted(json.loads(path.read_text(encoding="utf-8")), Device)
        _check(device)
    except OSError as error:
        raise UserError(f"cannot read the device {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} describes no device: {error}") from error
    return device


def _check(device: Device) -> None:
    """What no field can say alone."""
    if "f32" not in device.flops_per_s:
        raise ValueError("flops_per_s: f32 is missing")
    if not device.links:
        raise ValueError("links: must not be empty")
    if any(link.ranks >= wider.ranks for link, wider in pairwise(device.links)):
        raise ValueError("links: must join more ranks level by level")
