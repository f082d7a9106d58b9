"""Where this machine's tuning database lies. Needs neither PyTorch nor the compiler."""

import re
from pathlib import Path

from llmc.frontend.options import CompileOptions
from llmc.frontend.output_folder import writing
from llmc.pipelines.tuning.database import Database
from llmc.pipelines.tuning.versions import kernel_versions
from llmc.runtime.devices import host_cpu_name
from llmc.runtime.paths import cache_root


def database_path() -> Path:
    """The file of this machine in the cache, by its CPU's name, for folders may be shared."""
    cpu = re.sub(r"[^a-z0-9]+", "-", host_cpu_name().lower()).strip("-")
    return cache_root() / "tuning" / f"{cpu}.json"


def tuning_digest(options: CompileOptions) -> str:
    """SHA-256 of what tuning changes about a compilation. UserError for a damaged database."""
    database = Database() if options.no_tuning else Database.read(database_path())
    return database.digest(kernel_versions())


def forget() -> bool:
    """Removes the database; False if there is none."""
    path = database_path()
    with writing(path):
        found = path.exists()
        path.unlink(missing_ok=True)
    return found
