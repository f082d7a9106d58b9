"""Files that reproduce a failure with one command: the IR before a pass, and the pass.

The pipeline stands in the file as in those of MLIR: in the external resource `mlir_reproducer`.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from llmc.pipelines.driver.execution import Observer, Root, SinglePass
from llmc.runtime.errors import UserError

_PIPELINE = re.compile(r'mlir_reproducer\s*:\s*\{[^{}"]*pipeline\s*:\s*"((?:[^"\\]|\\.)*)"')


@dataclass
class Reproducer(Observer):
    """Writes `path` when a pass fails.

    What would be written stands in a file beside it while a pass runs, in case it crashes.
    """

    path: Path
    verify_each: bool = True
    written: bool = field(default=False, init=False)

    def before(self, single: SinglePass, root: Root) -> None:
        """Writes the file that waits for a failure."""
        pipeline = single.pipeline.replace("\\", "\\\\").replace('"', '\\"')
        text = root.operation.get_asm(enable_debug_info=True, assume_verified=True)
        self._write(
            f"// RUN: llmc-opt %s --run-reproducer\n{text}\n"
            "{-#\n  external_resources: {\n    mlir_reproducer: {\n"
            f'      pipeline: "{pipeline}",\n'
            "      disable_threading: true,\n"
            f"      verify_each: {str(self.verify_each).lower()}\n"
            "    }\n  }\n#-}\n"
        )

    def after(self, single: SinglePass, root: Root) -> None:
        """Removes it."""
        waiting(self.path).unlink(missing_ok=True)

    def failed(self, single: SinglePass, root: Root) -> None:
        """Puts it in its place."""
        self.written = keep(self.path)

    def _write(self, text: str) -> None:
        try:
            waiting(self.path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror}") from error


def waiting(path: Path) -> Path:
    """Where the reproducer `path` stands while the pass runs that may fail."""
    return path.with_name(f"{path.name}.running")


def keep(path: Path) -> bool:
    """Puts a waiting reproducer at `path`; False where none waits."""
    with suppress(FileNotFoundError):
        waiting(path).replace(path)
        return True
    return False


def stored_pipeline(text: str, name: str) -> str:
    """The pipeline that the reproducer `text`, of the file `name`, holds."""
    found = _PIPELINE.search(text)
    if found is None:
        raise UserError(f"{name} holds no pipeline: it is not a reproducer")
    return re.sub(r"\\(.)", r"\1", found[1])
