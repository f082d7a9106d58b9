"""The cache of compiled bundles. Finding one needs neither PyTorch nor the compiler.

A bundle's folder is `bundles/MODEL-TOOLCHAIN` in the cache: the first is a hash of the contents of
the model's files, the options, the devices and what was tuned, the second of llmc and the
packages that compile.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from llmc.frontend.build import build_bundle
from llmc.frontend.cache_keys import cache_key, remembered_digests
from llmc.frontend.options import CompileOptions, Progress
from llmc.frontend.output_folder import remove_abandoned, writing
from llmc.frontend.source import source_files
from llmc.frontend.toolchain import source_digest, versions
from llmc.frontend.tuned import tuning_digest
from llmc.runtime.devices import host_arch, host_cpu_features, host_cpu_name
from llmc.runtime.errors import UserError
from llmc.runtime.gpus import DRIVERS, find_gpus
from llmc.runtime.manifest import Manifest
from llmc.runtime.paths import cache_root

# Bundles kept of one model and options, by toolchain: a change and its undoing are both quick.
_KEPT = 2


@dataclass(frozen=True)
class CachedBundle:
    """A bundle in the cache, and the seconds that making it took: 0 if it was there."""

    folder: Path
    compile_s: float


def cached_bundle(
    name: str,
    options: CompileOptions,
    *,
    progress: Progress = nullcontext,
    dump_ir: Path | None = None,
) -> CachedBundle:
    """The bundle of the model called `name`, compiled now unless it is in the cache.

    With `dump_ir`, a folder for the module after each stage, it is compiled anew. Raises UserError
    for what the user can mend, IREEError where IREE fails.
    """

    def build(output: Path) -> None:
        build_bundle(name, options, output, progress=progress, dump_ir=dump_ir)

    model = _model_key(name, options)
    return find_or_build(model, _toolchain_key(), build, progress, anew=dump_ir is not None)


def find_or_build(
    model: str,
    toolchain: str,
    build: Callable[[Path], None],
    progress: Progress = nullcontext,
    anew: bool = False,
) -> CachedBundle:
    """The bundle of these two hashes; `build(folder)` makes it if it is absent, damaged or `anew`.

    Of several processes that want one bundle, one makes it and the others wait.
    """
    folder = cache_root() / "bundles" / f"{model}-{toolchain}"
    if not anew and _is_whole(folder):
        return CachedBundle(folder, 0.0)
    with writing(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(f".{model}.lock"), progress):
        if not _is_whole(folder):
            shutil.rmtree(folder, ignore_errors=True)
        elif not anew:
            return CachedBundle(folder, 0.0)
        remove_abandoned(folder.parent.glob(".*.llmc-*"))
        begin = time.perf_counter()
        build(folder)
        seconds = time.perf_counter() - begin
        _remove_old(folder, model)
    return CachedBundle(folder, seconds)


@contextmanager
def _locked(path: Path, progress: Progress) -> Iterator[None]:
    """Holds the lock file `path`, which the system frees should the process be killed."""
    lock = FileLock(path)
    with writing(path):
        try:
            lock.acquire(timeout=0)
        except Timeout:
            with progress("wait"):
                lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _model_key(name: str, options: CompileOptions) -> str:
    paths = source_files(name)
    plan = [Path(options.plan)] if options.plan else []
    digests = remembered_digests(paths)
    # A lone file may have any name; in a folder names mean something.
    names = [path.name for path in paths] if len(paths) > 1 else [""]
    facts = {
        "files": dict(zip(names, digests, strict=True)),
        "options": asdict(options),
        "plan": remembered_digests(plan),
        "tuning": tuning_digest(options),
        "host": [host_arch(), host_cpu_name(), sorted(host_cpu_features())],
        "gpus": [
            str(gpu) for driver in DRIVERS if driver in options.target for gpu in find_gpus(driver)
        ],
    }
    return cache_key(facts)


def _toolchain_key() -> str:
    return cache_key({"versions": versions(), "source": source_digest()})


def _is_whole(folder: Path) -> bool:
    """Whether `folder` holds a bundle with files of the right sizes; notes that it was used."""
    try:
        Manifest.read(folder).check_sizes(folder)
    except UserError:
        return False
    with contextlib.suppress(OSError):  # a cache that others own is of use too
        os.utime(folder)
    return True


def _remove_old(bundle: Path, model: str) -> None:
    """Removes the bundles of the same model and options as `bundle` but the last used."""
    others = [path for path in bundle.parent.glob(f"{model}-*") if path != bundle]
    others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for folder in others[_KEPT - 1 :]:
        shutil.rmtree(folder, ignore_errors=True)
