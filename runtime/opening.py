"""From a bundle's folder to an engine, for one device or for one of several ranks."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import iree.runtime as rt

from llmc.runtime.devices import usable_cpus
from llmc.runtime.engine import Engine, Memory
from llmc.runtime.errors import UserError
from llmc.runtime.hal_device import cpu_device, device_of_threads, gpu_device
from llmc.runtime.manifest import Manifest
from llmc.runtime.placement import Place, Placement, place_module
from llmc.runtime.ranks.collective_module import Collectives
from llmc.runtime.ranks.communicator import Communicator
from llmc.runtime.ranks.grid import Grid
from llmc.runtime.ranks.replicas import AXIS, Replicas
from llmc.runtime.ranks.steps import in_step
from llmc.runtime.runner import Runner, Together, alone


def find_module(
    folder: Path, device: str | None, communicator: Communicator | None
) -> tuple[Manifest, Placement]:
    """The manifest of the bundle in `folder`, and what of it runs here on `device`.

    It is for this rank of the `communicator`. UserError for a damaged bundle, one that was compiled
    for another machine, or for another number of ranks.
    """
    manifest = Manifest.read(folder)
    rank, ranks = (communicator.rank, len(communicator.world)) if communicator else (0, 1)
    if manifest.ranks != ranks:
        raise UserError(_other_ranks(folder, manifest, ranks))
    manifest.check_sizes(folder, rank)
    placement = place_module(manifest, folder, device, rank)
    if communicator is not None and placement.place.gpu:
        raise UserError(f"ranks run on CPUs, not on {placement.place.kind}: give --device cpu")
    return manifest, placement


def open_engine(
    manifest: Manifest,
    placement: Placement,
    folder: Path,
    threads: int | None,
    communicator: Communicator | None,
) -> Runner:
    """What runs the module that `find_module` found, with so many `threads` or its share of CPUs.

    UserError where IREE or the memory refuses it.
    """
    sharers = communicator.cpus.sharers if communicator else 1
    threads = threads or max(usable_cpus() // sharers, 1)
    code, place = placement.code, placement.place
    memory = Memory(
        device=place.memory_bytes,
        # A CPU maps them: the system drops what it needs room for.
        weights=manifest.files[code.parameters].size if place.gpu else 0,
        kv_bytes=code.kv_bytes,
        kv_room=code.kv_room,
    )
    with communicator.cpus.kept() if communicator else nullcontext():
        device = _open_device(place, threads, is_rank=communicator is not None)
    together: Together = alone
    imports: tuple[rt.VmModule, ...] = ()
    unread: Callable[[], AbstractContextManager[None]] = nullcontext
    grid = Grid(manifest.grid)
    replicated = any(axis.name == AXIS for axis in grid.axes)
    if communicator is not None:
        collectives = Collectives(communicator, grid, device)
        together = in_step(communicator, collectives)
        imports = (collectives.module(),)
        unread = collectives.unread
    engine = Engine(
        folder / code.module,
        folder / code.parameters,
        device,
        manifest.model.vocab_size,
        "i32" if code.integers == "i32" else "i64",
        memory,
        # What waits for others on Vulkan is woken by several threads of IREE 3.13, out of turn,
        # and drivers that notice give up the device.
        queues_steps=place.kind != "vulkan",
        together=alone if replicated else together,
        imports=imports,
        unread=unread,
    )
    if communicator is not None and replicated:
        return Replicas(engine, communicator, grid, together)
    return engine


def _open_device(place: Place, threads: int, *, is_rank: bool) -> rt.HalDevice:
    if place.gpu:
        return gpu_device(place.gpu)
    # Each of the many collectives of a step would wait for the worker, and the worker for it.
    return device_of_threads(threads) if is_rank else cpu_device(threads)


def _other_ranks(folder: Path, manifest: Manifest, ranks: int) -> str:
    if manifest.ranks == 1:
        return f"{folder} is for one device, not for {ranks} ranks: recompile it with --grid"
    wanted = f"{folder} is for {manifest.ranks} ranks ({Grid(manifest.grid)})"
    if ranks == 1:
        return f"{wanted}: run it with --local, or with mpiexec -n {manifest.ranks}"
    return f"{wanted}, not for {ranks}: start as many"
