"""The archives of weights of a bundle: one for all targets that lay them out alike."""

from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from llmc.frontend.codes import free_name
from llmc.pipelines.parameters import StoredParameter, StoredWeight, write_archive
from llmc.runtime.manifest import PARAMETERS


@dataclass
class Archives:
    """Writes archives of the model's `weights` into `folder`."""

    folder: Path
    weights: Mapping[str, StoredWeight]
    _written: list[tuple[str, list[StoredParameter]]] = field(default_factory=list)

    @contextmanager
    def writing(self, stored: list[StoredParameter], target: str) -> Iterator[Future[str]]:
        """Writes the entries `stored` on a thread: the file in which they are, for `target`.

        Where what is done meanwhile fails, the writing is given up. The result raises OSError,
        UserError.
        """
        given_up = Event()
        with ThreadPoolExecutor(max_workers=1) as thread:
            try:
                yield thread.submit(self._write, stored, target, given_up)
            except BaseException:
                given_up.set()
                raise

    def _write(self, stored: list[StoredParameter], target: str, given_up: Event) -> str:
        def proceed() -> None:
            if given_up.is_set():
                raise CancelledError

        entries = sorted(stored, key=lambda parameter: parameter.name)
        for name, known in self._written:
            if known == entries:
                return name
        name = free_name(self.folder, PARAMETERS, target)
        write_archive(stored, self.weights, self.folder / name, proceed)
        self._written.append((name, entries))
        return name
