"""Text that a person names on the command line."""

from pathlib import Path

from llmc.runtime import UserError


def read_text(file: Path) -> str:
    """What is in `file`; UserError if it cannot be read or is not text."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"cannot read {file}: it is not UTF-8 text") from error
