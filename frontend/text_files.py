"""Reading the small text files that come with a model."""

import json
from pathlib import Path
from typing import Any

from llmc.runtime.errors import UserError

# Beside the weights, what transformers reads from a folder has one of these endings.
TEXT_SUFFIXES = {".jinja", ".json", ".model", ".tiktoken", ".txt"}


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; UserError if it cannot be read or holds none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} is not a JSON object")
    return content
