"""Bundle folders that appear whole or not at all."""

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from llmc.runtime import manifest as bundle
from llmc.runtime.errors import UserError

_BUNDLE_FILE = re.compile(
    rf"{bundle.MANIFEST}|{bundle.TOKENIZER}|module(\.[\w.-]+)?\.vmfb|params(\.[\w.-]+)?\.irpa"
)


@contextmanager
def appearing(output: Path) -> Iterator[Path]:
    """A temporary folder beside `output` that becomes `output` at the end, or vanishes.

    It takes the place of a bundle or an empty folder. What killed processes left there is removed.
    UserError if `output` is something else or cannot be written.
    """
    check_free(output)
    output = output.resolve()
    with contextlib.ExitStack() as stack:
        with writing(output):
            stack.enter_context(_folders_around(output))
            remove_abandoned(output.parent.glob(f"{_prefix(output)}*"))
            folder = stack.enter_context(_temporary(output))
        yield folder
        with writing(output):
            _put(folder, output)


def check_free(output: Path) -> None:
    """UserError if `output` exists and is neither an empty folder nor a bundle, or cannot exist."""
    with writing(output):
        try:
            names = {path.name for path in output.iterdir()}
        except FileNotFoundError:
            names = set()
        if names and (bundle.MANIFEST not in names or not all(map(_BUNDLE_FILE.fullmatch, names))):
            raise UserError(f"cannot write {output}: other files are in it")
        around = next(folder for folder in output.resolve().parents if folder.exists())
        if not os.access(around, os.W_OK | os.X_OK):
            raise UserError(f"cannot write {output}: you may not write to {around}")


@contextmanager
def writing(output: Path) -> Iterator[None]:
    """Turns the OSErrors of writing into a UserError that names `output`."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {output}: {error.strerror or error}") from error


def remove_abandoned(folders: Iterable[Path]) -> None:
    """Removes those of the temporary folders `folders` whose process is dead."""
    for folder in folders:
        with contextlib.suppress(PermissionError):  # another user's, who removes it
            lock = _lock(folder)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _prefix(output: Path) -> str:
    return f".{output.name}.llmc-"


@contextmanager
def _folders_around(output: Path) -> Iterator[None]:
    """Makes the folders that `output` lies in; new ones that are empty at the end are removed."""
    made = [folder for folder in output.parents if not folder.exists()]
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        with contextlib.suppress(OSError):
            for folder in made:
                folder.rmdir()


@contextmanager
def _temporary(output: Path) -> Iterator[Path]:
    """A new folder beside `output`, locked while this process lives, that is removed at the end."""
    while True:
        folder = output.with_name(_prefix(output) + secrets.token_hex(4))
        folder.mkdir()
        lock = _lock(folder)
        if lock is not None:
            break
        # Another process saw it before it was locked, and took it for abandoned.
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _lock(folder: Path) -> int | None:
    """A file descriptor that locks `folder`; None if a living process does, or it is gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    if not folder.is_dir():
        os.close(descriptor)
        return None
    return descriptor


def _put(folder: Path, output: Path) -> None:
    """Renames `folder` to `output`, in the place of a bundle that may be there."""
    while True:
        try:
            folder.rename(output)
            return
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
        check_free(output)
        # Another process that does the same may have been quicker.
        with _temporary(output) as aside, contextlib.suppress(FileNotFoundError):
            output.rename(aside / output.name)
