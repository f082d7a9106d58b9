"""Files that reproduce a failure with one command: the IR before a pass, and the pass.

The pipeline stands in the file as in those of MLIR: in the external resource `mlir_reproducer`.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from torch_mlir import ir

from llmc.pipelines.driver.execution import Observer, SinglePass
from llmc.pipelines.driver.printing import PrintingFlags
from llmc.pipelines.rewriting.operations import upwards
from llmc.runtime.errors import UserError

_RESOURCE = re.compile(r"mlir_reproducer\s*:\s*\{(?P<entries>(?:[^{}\"]|\"(?:[^\"\\]|\\.)*\")*)\}")
_PIPELINE = re.compile(r'\bpipeline\s*:\s*"(?P<text>(?:[^"\\]|\\.)*)"')
_VERIFY_EACH = re.compile(r"\bverify_each\s*:\s*false\b")


@dataclass
class Reproducer(Observer):
    """Writes `path` when a pass fails.

    What would be written stands in a file beside it while a pass runs, in case it crashes.
    `unregistered` and `implicit_module` say how the file is to be read.
    """

    path: Path
    verify_each: bool = True
    unregistered: bool = False
    implicit_module: bool = True
    written: bool = field(default=False, init=False)

    @property
    def command(self) -> str:
        """What shows the failure again."""
        return f"llmc-opt {self.path} {self._options}"

    @property
    def _options(self) -> str:
        unregistered = " --allow-unregistered-dialect" if self.unregistered else ""
        return f"--run-reproducer{unregistered}" + (
            "" if self.implicit_module else " --no-implicit-module"
        )

    def write_now(self, pipeline: str, root: ir.Operation) -> None:
        """Writes the file before anything has failed, with the whole `pipeline` on `root`."""
        self._write(pipeline, root)
        keep(self.path)

    def before(self, single: SinglePass, op: ir.Operation) -> None:
        """Writes the file that waits for a failure."""
        *_, root = upwards(op)
        self._write(single.pipeline, root)

    def after(self, single: SinglePass, op: ir.Operation) -> None:
        """Removes it."""
        waiting(self.path).unlink(missing_ok=True)

    def failed(self, single: SinglePass, op: ir.Operation) -> None:
        """Puts it in its place."""
        self.written = keep(self.path)

    def _write(self, pipeline: str, root: ir.Operation) -> None:
        pipeline = pipeline.replace("\\", "\\\\").replace('"', '\\"')
        # IR that nothing has verified may not have another form.
        flags = PrintingFlags(debug_info=True, assume_verified=True, generic=not self.verify_each)
        before = f"// RUN: llmc-opt %s {self._options}\n"
        after = (
            "\n{-#\n  external_resources: {\n    mlir_reproducer: {\n"
            f'      pipeline: "{pipeline}",\n'
            "      disable_threading: true,\n"
            f"      verify_each: {str(self.verify_each).lower()}\n"
            "    }\n  }\n#-}\n"
        )
        try:
            waiting(self.path).write_bytes(before.encode() + flags.encoded(root) + after.encode())
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror}") from error


@dataclass(frozen=True)
class Stored:
    """What a reproducer says is to be run on it."""

    pipeline: str
    verify_each: bool


def stored(text: str, name: str) -> Stored:
    """What the reproducer `text`, of the file `name`, holds; UserError if it is none."""
    resource = _RESOURCE.search(text)
    pipeline = _PIPELINE.search(resource["entries"]) if resource else None
    if resource is None or pipeline is None:
        raise UserError(f"{name} holds no pipeline: it is not a reproducer")
    return Stored(
        re.sub(r"\\(.)", r"\1", pipeline["text"]),
        verify_each=_VERIFY_EACH.search(resource["entries"]) is None,
    )


def waiting(path: Path) -> Path:
    """Where the reproducer `path` stands while the pass runs that may fail."""
    return path.with_name(f"{path.name}.running")


def keep(path: Path) -> bool:
    """Puts a waiting reproducer at `path`; False where none waits."""
    with suppress(FileNotFoundError):
        waiting(path).replace(path)
        return True
    return False
