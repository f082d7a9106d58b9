"""What a compilation does, as it goes: its stages timed, told to the user, and their IR written."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from torch_mlir import ir

from llmc.frontend.options import Progress
from llmc.frontend.output_folder import writing
from llmc.pipelines.pipeline import SHARDED_STAGE_NAMES, STAGE_NAMES
from llmc.runtime import manifest as bundle


@dataclass
class Work:
    """Times the stages of one compilation, tells the user of them, and writes the IR after them.

    `tuned_kernels` counts the kernels whose schedules tuning found. `of_target` is the folder in
    that of the dumps for what is of one target or rank alone, of which there are several with
    `is_sharded`.
    """

    progress: Progress
    dump_folder: Path | None
    stages: list[bundle.Stage] = field(default_factory=list)
    tuned_kernels: int = 0
    of_target: str = ""
    is_sharded: bool = False

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Entered around a stage."""
        begin = time.perf_counter()
        with self.progress(name):
            yield
        self.stages.append(bundle.Stage(name, time.perf_counter() - begin))

    def dump(self, name: str, module: ir.Module) -> None:
        """Writes the module after stage `name`, where the IR is wanted."""
        if self.dump_folder is not None:
            names = SHARDED_STAGE_NAMES if self.is_sharded else STAGE_NAMES
            file = f"{names.index(name):02}-{name}.mlir"
            path = self.dump_folder / self.of_target / file
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(module_text(module), encoding="utf-8")


def module_text(module: ir.Module) -> str:
    """The text of `module` with its locations."""
    return module.operation.get_asm(enable_debug_info=True)
