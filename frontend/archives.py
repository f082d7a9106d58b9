"""The archives of weights of a bundle: one for all targets that lay them out alike."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from llmc.frontend.codes import free_name
from llmc.pipelines.parameters import StoredParameter, StoredWeight, write_archive
from llmc.runtime.manifest import PARAMETERS


@dataclass
class Archives:
    """Writes archives of the model's `weights` into `folder`."""

    folder: Path
    weights: Mapping[str, StoredWeight]
    _written: list[tuple[str, list[StoredParameter]]] = field(default_factory=list)

    def write(self, stored: list[StoredParameter], target: str) -> str:
        """The file with the entries `stored`, written unless it is there, for `target`.

        Raises OSError, UserError.
        """
        entries = sorted(stored, key=lambda parameter: parameter.name)
        for name, known in self._written:
            if known == entries:
                return name
        name = free_name(self.folder, PARAMETERS, target)
        write_archive(stored, self.weights, self.folder / name)
        self._written.append((name, entries))
        return name
