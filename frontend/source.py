"""Finds what a user's name for a model is, and opens it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from llmc.frontend.sample import sample_path
from llmc.frontend.text_files import TEXT_SUFFIXES
from llmc.runtime.errors import UserError

if TYPE_CHECKING:
    from llmc.frontend.loaded_model import LoadedModel

SAMPLE = "smollm2"


def open_model(name: str | Path, layers: int | None = None) -> LoadedModel:
    """The model called `name`: a Hugging Face folder, a GGUF file, or the word `smollm2`.

    `layers` keeps only the first so many. The weights are not read yet. UserError if there is no
    such model or it cannot be read.
    """
    # Here, for the rest of the file is for finding a compiled model without PyTorch.
    from llmc.frontend.gguf import open_gguf
    from llmc.frontend.huggingface import open_folder

    path = find_model(name)
    try:
        return open_folder(path, layers) if path.is_dir() else open_gguf(path, layers)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def source_files(name: str | Path) -> tuple[Path, ...]:
    """All files that `open_model` may read of the model called `name`. Needs no PyTorch.

    UserError if there is no such model.
    """
    path = find_model(name)
    if path.is_file():
        return (path,)
    suffixes = {*TEXT_SUFFIXES, ".safetensors"}
    try:
        return tuple(sorted(file for file in path.iterdir() if file.suffix in suffixes))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def find_model(name: str | Path) -> Path:
    """The folder, or the GGUF file, of the model called `name`; UserError if it is clearly none."""
    path = sample_path() if name == SAMPLE else Path(name)
    try:
        if path.is_dir():
            if not (path / "config.json").is_file():
                raise UserError(f"{path}: there is no config.json: it is not a Hugging Face model")
        elif not path.is_file():
            raise UserError(
                f"there is no model {path}: give a Hugging Face folder, a GGUF file or {SAMPLE}"
            )
        elif path.suffix == ".safetensors":
            raise UserError(f"{path} holds weights only: give the folder it is in")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    return path
