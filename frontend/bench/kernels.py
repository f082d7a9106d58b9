"""How long each kernel of a bundle takes and what weights it reads, as IREE's own tools tell.

https://iree.dev/developers/performance/device-profiling/: `iree-run-module` notes when every
dispatch began and ended, and, in a replay file, which buffers it was given.
"""

import json
import statistics
import struct
import subprocess
import sysconfig
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llmc.runtime import abi
from llmc.runtime.archive import map_archive
from llmc.runtime.errors import UserError
from llmc.runtime.hal_device import worker_flags
from llmc.runtime.manifest import Manifest
from llmc.runtime.placement import place_module

# Calls of the function that are timed; IREE keeps the last 4096 events.
_CALLS = 4
# iree_hal_replay_buffer_ref_payload_t: buffer, offset, length, slot, nothing.
_REFERENCE = struct.Struct("<QQQII")


@dataclass(frozen=True)
class KernelTime:
    """One kernel in one call of a function: how often it is dispatched, and what that takes.

    `seconds` is for all of its dispatches, their medians times their number. `weights` are the
    archive's entries that it is given, with their bytes; `cache_bytes` what all of its dispatches
    read of the KV cache.
    """

    name: str
    dispatches: int
    seconds: float
    weights: dict[str, int]
    cache_bytes: int = 0


def profile(bundle: Path, function: str, tokens: int, past: int, threads: int) -> list[KernelTime]:
    """The kernels of one call of `function` with `tokens` tokens after `past`, slowest first.

    Raises UserError where IREE's tools fail, IREEError.
    """
    # Here, for the rest of the file needs no compiler.
    from llmc.frontend.bench.driver import RUN, compile_driver

    manifest = Manifest.read(bundle)
    code = place_module(manifest, bundle, "cpu").code
    cache = _Cache(code.kv_bytes_per_token, past + tokens)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compile_driver(function, tokens, manifest.model.vocab_size, folder / "driver.vmfb")
        command = [
            "iree-run-module",
            "--device=local-task",
            *worker_flags(threads),
            f"--module={bundle / code.module}",
            f"--module={folder / 'driver.vmfb'}",
            f"--parameters={abi.PARAMETER_SCOPE}={bundle / code.parameters}",
            f"--function={RUN}",
            f"--input=1x{tokens}xi64=7",
            "--input=1xi64=0",
            f"--input={past}",
        ]
        profile_, replay = folder / "run.ireeprof", folder / "run.ireereplay"
        modes = ("--device_profiling_mode=host-execution,executable-metadata",)
        _run([*command, f"--input={_CALLS}", *modes, f"--device_profiling_output={profile_}"])
        _run([*command, "--input=1", f"--device_replay_output={replay}"])
        kernels = list(
            _kernels(
                _dispatches(replay, cache),
                _seconds(profile_),
                _names(bundle / code.parameters),
            )
        )
    return sorted(kernels, key=lambda kernel: -kernel.seconds)


@dataclass(frozen=True)
class _Cache:
    """A KV cache that holds so many columns, each of so many bytes."""

    column_bytes: int
    columns: int

    @property
    def bytes(self) -> int:
        """What is read of it."""
        return self.column_bytes * self.columns

    def may_be(self, size: int) -> bool:
        """Whether a buffer of this size holds it, perhaps with columns that are still free."""
        return self.bytes > 0 and size >= self.bytes and size % self.column_bytes == 0


@dataclass
class _Dispatches:
    """What a replay tells of one kernel: how often it was dispatched, and on which file's bytes."""

    count: int = 0
    weights: dict[int, int] = field(default_factory=dict)
    cache_bytes: int = 0

    def add(
        self, buffers: list[tuple[int, int]], origins: dict[int, tuple[int, int]], cache: _Cache
    ) -> None:
        """Counts a dispatch on `buffers`, each a number and bytes, the last of which is written."""
        self.count += 1
        self.weights |= dict(origins[buffer] for buffer, _ in buffers if buffer in origins)
        if any(cache.may_be(size) for buffer, size in buffers[:-1] if buffer not in origins):
            self.cache_bytes = cache.bytes


def _kernels(
    dispatches: dict[int, _Dispatches],
    seconds: dict[int, tuple[str, float]],
    names: dict[int, str],
) -> Iterator[KernelTime]:
    """All three by number: of the kernel, of the kernel, of the first byte in the archive."""
    for ordinal, found in dispatches.items():
        if ordinal in seconds:
            name, each = seconds[ordinal]
            weights = {names.get(at, str(at)): size for at, size in found.weights.items()}
            yield KernelTime(name, found.count, found.count * each, weights, found.cache_bytes)


def _names(archive: Path) -> dict[int, str]:
    index = map_archive(archive)
    return {entry.file_storage[1]: name for name, entry in index.items() if entry.is_file}


def _dispatches(replay: Path, cache: _Cache) -> dict[int, _Dispatches]:
    """By the kernel's number. The KV cache is known by its size.

    All dispatches of a kernel together read it once: each a layer's part.
    """
    content = replay.read_bytes()
    origins: dict[int, tuple[int, int]] = {}  # of buffers that hold weights: offset, bytes
    found: dict[int, _Dispatches] = defaultdict(_Dispatches)
    for record in _records("iree-dump-replay", replay):
        payload = record.get("payload", {})
        if record.get("operation") == "device.queue_read":
            target = payload["target_ref"]
            origins[target["buffer_id"]] = payload["source_offset"], target["length"]
        elif record.get("operation") == "command_buffer.dispatch":
            span = payload["bindings_range"]
            buffers = _buffers(content[span["offset"] : span["offset"] + span["length"]])
            found[payload["function_ordinal"]].add(buffers, origins, cache)
    return found


def _buffers(references: bytes) -> list[tuple[int, int]]:
    """The number and the bytes of each buffer that a part of a replay refers to."""
    return [(buffer, size) for buffer, _, size, *_ in _REFERENCE.iter_unpack(references)]


def _seconds(profile_: Path) -> dict[int, tuple[str, float]]:
    """By the kernel's number, its name and the median of what one dispatch takes."""
    taken: dict[int, list[float]] = defaultdict(list)
    names: dict[int, str] = {}
    for event in _records("iree-profile", "dispatch", "--dispatch_events", profile_):
        if event.get("type") == "host_dispatch_event" and event["valid"]:
            names[event["function_ordinal"]] = event["key"]
            taken[event["function_ordinal"]].append(event["duration_ns"] * 1e-9)
    return {ordinal: (names[ordinal], statistics.median(all_)) for ordinal, all_ in taken.items()}


def _records(tool: str, *arguments: str | Path) -> Iterator[dict[str, Any]]:
    for line in _run([tool, "--format=jsonl", *map(str, arguments)]).splitlines():
        yield json.loads(line)


def _run(command: list[str]) -> str:
    """What one of IREE's tools prints. UserError if it fails, or is not there."""
    tool = Path(sysconfig.get_path("scripts")) / command[0]
    try:
        done = subprocess.run([tool, *command[1:]], capture_output=True, text=True)
    except OSError as error:
        raise UserError(
            f"cannot run {tool}: {error.strerror}: install iree-base-runtime again"
        ) from error
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[0]
        raise UserError(f"{command[0]} failed: {reason}")
    return done.stdout
