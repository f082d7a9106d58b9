"""Finds what a user's name for a model is, and opens it."""

from pathlib import Path

from llmc.frontend.gguf import open_gguf
from llmc.frontend.huggingface import open_folder
from llmc.frontend.loaded_model import LoadedModel
from llmc.frontend.sample import sample_path
from llmc.runtime.errors import UserError

__all__ = ["SAMPLE", "LoadedModel", "open_model"]

SAMPLE = "smollm2"


def open_model(name: str | Path, layers: int | None = None) -> LoadedModel:
    """The model called `name`: a Hugging Face folder, a GGUF file, or the word `smollm2`.

    `layers` keeps only the first so many. The weights are not read yet. UserError if there is no
    such model or it cannot be read.
    """
    if name == SAMPLE:
        return open_gguf(sample_path(), layers)
    path = Path(name)
    try:
        if path.is_dir():
            return open_folder(path, layers)
        if path.is_file():
            if path.suffix == ".safetensors":
                raise UserError(f"{path} holds weights only: give the folder it is in")
            return open_gguf(path, layers)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    raise UserError(
        f"there is no model {path}: give a Hugging Face folder, a GGUF file or {SAMPLE}"
    )
