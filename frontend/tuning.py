"""Tunes the kernels of a model: `llmc tune` as one function."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

from filelock import FileLock
from torch_mlir import ir

from llmc.frontend.compile import grid_of_options, make_skeleton
from llmc.frontend.lowering import Lowering, start_lowering
from llmc.frontend.options import CompileOptions, Progress
from llmc.frontend.output_folder import writing
from llmc.frontend.source import open_model
from llmc.frontend.tuned import database_path
from llmc.frontend.work import Work
from llmc.pipelines.driver.execution import run
from llmc.pipelines.pipeline import LinalgStage, WeightsStage
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.pipelines.targets.parse import parse_cpu, split_targets
from llmc.pipelines.tuning.candidates import candidates
from llmc.pipelines.tuning.database import Database, Entry
from llmc.pipelines.tuning.kernel_key import kernel_key
from llmc.pipelines.tuning.operands import can_make
from llmc.pipelines.tuning.subject import subjects
from llmc.pipelines.tuning.tune import tune_kernel
from llmc.runtime.errors import UserError
from llmc.runtime.placement import cpu_refuses

Advance = Callable[[str, float], None]
"""Called with the name of a kernel and the part of all work, from 0 to 1, that is done."""


def tune_model(
    name: str,
    options: CompileOptions,
    threads: int,
    *,
    pattern: str = "",
    seconds: float = 300,
    progress: Progress = nullcontext,
    advance: Advance = lambda _name, _part: None,
) -> Iterator[Entry | None]:
    """Tunes the kernels of the model called `name` and stores what is found, one by one.

    Only those in whose kind the regular expression `pattern` is found. They share `seconds` evenly:
    what a kernel has not tried by then it does not; None is for one that tried nothing. Raises
    UserError for what the user can mend, IREEError where IREE fails.
    """
    target, database = _target(options.target), _database()
    modules = _kernels(name, options, progress)
    begin = time.perf_counter()
    with modules[0].context, ir.Location.unknown():
        # Ranks share most of their kernels.
        chosen = {
            kernel_key(subject.kind, subject.kernel, target): subject
            for module in modules
            for subject in subjects(module)
            if re.search(pattern, subject.kind)
            and can_make(subject)
            and len(candidates(subject.kind, subject.kernel, target)) > 1
        }
        if not chosen:
            wanted = f" in whose kind '{pattern}' is found" if pattern else ""
            raise UserError(f"{name} has no kernels to tune{wanted}")
        for number, (key, subject) in enumerate(chosen.items()):
            watch = _watch(advance, subject.kind, number, len(chosen), begin, seconds)
            entry = tune_kernel(subject, target, threads, watch, database.find(key))
            if entry is not None:
                _store(entry)
            yield entry


def _target(name: str) -> CPUTarget:
    """The CPU called `name`, which must be one whose code runs here."""
    if len(split_targets(name)) > 1:
        raise UserError(f"tuning takes one target, not '{name}'")
    target = parse_cpu(name)
    if reason := cpu_refuses(target.facts):
        raise UserError(f"kernels for {name} cannot be timed here: {reason}")
    return target


def _watch(
    advance: Advance, kind: str, number: int, count: int, begin: float, seconds: float
) -> Callable[[int, int], bool]:
    """For kernel `number` of `count`, which may go on until its share of `seconds` has passed."""
    end = begin + seconds * (number + 1) / count

    def watch(done: int, of: int) -> bool:
        advance(kind, (number + done / of) / count)
        return time.perf_counter() < end

    return watch


def _database() -> Database:
    """What was found before. UserError if it is damaged, or there can be none."""
    path = database_path()
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # The lock is a file beside it: where there can be none, nothing that is found can be kept.
        with _locked(path):
            return Database.read(path)


def _locked(path: Path) -> FileLock:
    return FileLock(path.with_suffix(".lock"))


def _store(entry: Entry) -> None:
    """Puts `entry` into the database, and drops what was measured of other versions.

    UserError if the database is damaged or cannot be written.
    """
    path = database_path()
    with writing(path), _locked(path):
        known = [old for old in Database.read(path) if old.key.versions == entry.key.versions]
        Database([*known, entry]).write(path)


def _kernels(name: str, options: CompileOptions, progress: Progress) -> list[ir.Module]:
    """The module of a model for each rank, its kernels not yet scheduled, all in one context."""
    grid = grid_of_options(options)
    work = Work(progress, dump_folder=None, is_sharded=bool(grid.axes))
    with progress("open"):
        model = open_model(name, options.layers)
    started = start_lowering(model, make_skeleton(model), options, work)
    return [_kernels_of(rank, started, work) for rank in range(grid.size)]


def _kernels_of(rank: int, started: Lowering, work: Work) -> ir.Module:
    target, before = started.options.target, WeightsStage().stage
    module = started.copy().run_stages(target, work, stop_after=before, rank=rank)
    linalg = LinalgStage(target=target)
    with work.stage(linalg.stage):
        run(linalg.before_schedules(), module)
    return module
